"""A model's ratios over seeds, as it is built and with the repairs applied, for the headline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from ...decoder.splitmix64 import FloatArray
from ...health.band import Band
from ...health.observation import Observation
from ...health.sites import first_block_site
from ...health.verdict import Verdict, verdict_of
from ..initialization.rebuild import Rebuilder, rebuilt
from ..request import SEEDS
from ..sandbox.guard import undisturbed
from ..trace.discovery import Discovery, discover
from ..trace.names import ParameterNames
from ..trace.recorder import DEFAULT_BYTES
from ..trace.tape import tape_of
from .repair import Draw, Repair
from .result import AuditResult, observed

# The most parameters of a model that is built at further seeds.
LARGEST = 2**22
# A reduced twin takes seconds for every seed, so it is built at no more than these.
MOST_REDUCED = 8


@dataclass(frozen=True)
class SeedHealth:
    """The verdict over seeds, and as `extreme` the median over seeds of the ratio furthest from 1.

    `extreme` is (activation, gradient), dimensionless, and None where no seed has finite ratios. `rms` are the
    activations' and adjoints' absolute RMS, `[seeds, sites]` each, NaN in the rows of seeds without finite ratios.
    """

    verdict: Verdict
    extreme: tuple[float, float] | None
    labels: tuple[str, ...] = ()
    rms: tuple[FloatArray, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return the curves as plain JSON: one list per seed, null for a seed without finite ratios."""
        names = ("activation_rms", "adjoint_rms")
        return {
            name: [row.tolist() if np.isfinite(row).all() else None for row in values]
            for name, values in zip(names, self.rms, strict=True)
        }


def seed_health(
    result: AuditResult, repairs: Sequence[Repair], source: Rebuilder | None, band: Band, seeds: Sequence[int] = SEEDS
) -> tuple[SeedHealth, SeedHealth | None] | None:
    """Return the health of the model as it is, and that with the repairs applied, over `seeds`.

    The first of `seeds` is the audited model's own. The second health is None where there are no repairs; the result is
    None where the model has no observation. `source` builds the model at other seeds; if it is None, only the audited
    seed is used. A reduced twin is built at `MOST_REDUCED` seeds at most; a model that was drawn block by block is not
    observed with repairs.
    """
    if result.observation is None:
        return None
    discovery = result.discovery
    # A model that was drawn block by block is not run again.
    again = result.facts.driver == "graph"
    draws = [draw for repair in repairs for draw in repair.draws] if again else []
    if result.reduced is not None:
        return _reduced_health(result, draws, band, seeds[:MOST_REDUCED])
    plain: list[Observation | None] = [result.observation]
    mended = [_mended(discovery.guard.model, discovery, draws)] if draws else []
    small = sum(p.numel() for p in discovery.names.parameters.values()) <= LARGEST
    for seed in seeds[1:] if source is not None and small else ():
        model = rebuilt(source, discovery.guard.model, seed=seed) if source is not None else None
        if model is not None:
            plain.append(_observed(model, discovery))
            mended += [_mended(model, discovery, draws)] if draws else []
    labels = result.observation.labels
    return _health(plain, labels, band), _health(mended, labels, band) if draws else None


def _reduced_health(
    result: AuditResult, draws: Sequence[Draw], band: Band, seeds: Sequence[int]
) -> tuple[SeedHealth, SeedHealth | None] | None:
    """Return the health of the reduced twin as it is, and with the repairs applied.

    A draw becomes the factor that brings the narrow model's matrix to the drawn standard deviation; the twin's matrix
    is multiplied by it. The second is None without draws, and where a draw is not such a factor.
    """
    assert result.observation is not None
    assert result.reduced is not None
    labels, parameters = result.observation.labels, result.discovery.names.parameters
    factors = {draw.name: _factor(draw, parameters.get(draw.name)) for draw in draws}
    mends = bool(draws) and not any(draw.part for draw in draws)
    mends = mends and all(0 < factor < np.inf for factor in factors.values())
    plain: list[Observation | None] = [result.observation]
    mended = [_multiplied(result.measured.guard.model, factors, result.measured)] if mends else []
    for seed in seeds[1:]:
        twin = result.reduced.build(seed)
        plain.append(_observed(twin, result.measured))
        mended += [_multiplied(twin, factors, result.measured)] if mends else []
    return _health(plain, labels, band), _health(mended, labels, band) if mends else None


def _factor(draw: Draw, parameter: torch.Tensor | None) -> float:
    """Return what a draw multiplies a parameter's standard deviation by; NaN where it is not a multiplication."""
    if parameter is None or draw.fill is not None:
        return np.nan
    has = float(parameter.detach().double().std(correction=0))
    return draw.std(parameter.shape) / has if has > 0 else np.nan


def _multiplied(model: nn.Module, factors: Mapping[str, float], discovery: Discovery) -> Observation | None:
    """Return the observation of the model with some parameters multiplied; they are restored afterwards."""
    parameters = ParameterNames(model).parameters
    kept = {name: parameters[name].detach().clone() for name in factors if name in parameters}
    try:
        with torch.no_grad():
            for name in kept:
                parameters[name].detach().mul_(factors[name])
        return _observed(model, discovery)
    finally:
        with torch.no_grad():
            for name, value in kept.items():
                parameters[name].detach().copy_(value)


def _observed(model: nn.Module, discovery: Discovery) -> Observation | None:
    try:
        with undisturbed(model) as guard:
            again = discover(guard, discovery.inputs, max_bytes=DEFAULT_BYTES)
            whole = len(again.states) == len(again.sites) + 1 == len(discovery.states)
            return observed(again, tape_of(again))[0] if whole else None
    except Exception:
        # A model that fails with other weights has no ratios for them.
        return None


def _mended(model: nn.Module, discovery: Discovery, draws: Sequence[Draw]) -> Observation | None:
    with _drawn(model, draws):
        return _observed(model, discovery)


@contextmanager
def _drawn(model: nn.Module, draws: Sequence[Draw]) -> Iterator[None]:
    """Bring the parameters of `draws` to their standard deviation, keeping their base draw; restore them on exit."""
    parameters = ParameterNames(model).parameters
    kept = {draw.name: parameters[draw.name].detach().clone() for draw in draws if draw.name in parameters}
    generator = torch.Generator().manual_seed(0)
    try:
        with torch.no_grad():
            for draw in (draw for draw in draws if draw.name in kept):
                _draw(draw, parameters[draw.name].detach(), generator)
        yield
    finally:
        with torch.no_grad():
            for name, value in kept.items():
                parameters[name].detach().copy_(value)


def _draw(draw: Draw, parameter: torch.Tensor, generator: torch.Generator) -> None:
    target = draw.of(parameter)
    if draw.fill is not None:
        target.fill_(draw.fill)
        return
    has, wanted = float(target.double().std(correction=0)), draw.std(parameter.shape)
    if 0 < has < np.inf:
        target.mul_(wanted / has)
    else:
        target.copy_(torch.randn(target.shape, generator=generator) * wanted)


def _health(found: Sequence[Observation | None], labels: list[str], band: Band) -> SeedHealth:
    empty = np.full((1, len(labels)), np.nan)
    sound = [one if one is not None and one.refusal(0) is None and one.labels == labels else None for one in found]
    pairs = [(empty, empty) if one is None else one.ratios for one in sound]
    sizes = [(empty, empty) if one is None else (one.activation_rms, one.adjoint_rms) for one in sound]
    activation, adjoint = (np.concatenate([pair[place] for pair in pairs]) for place in (0, 1))
    verdict = verdict_of(activation, adjoint, first_block_site(labels), band=band)
    rms = tuple(np.concatenate([values[place] for values in sizes]) for place in (0, 1))
    if verdict.refused == verdict.seeds:
        return SeedHealth(verdict, None, tuple(labels), rms)
    kept = ~np.isnan(activation + adjoint).any(axis=1)
    return SeedHealth(verdict, (_extreme(activation[kept]), _extreme(adjoint[kept])), tuple(labels), rms)


def _extreme(ratios: FloatArray) -> float:
    """Return the median over seeds of the ratio furthest from 1, taken in log; `ratios` is `[seeds, sites]`."""
    with np.errstate(divide="ignore"):
        logs = np.log(ratios)
    furthest = np.take_along_axis(logs, np.abs(logs).argmax(axis=1)[:, None], axis=1)
    return float(np.exp(np.median(furthest)))
