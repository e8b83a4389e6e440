"""`check`: the verdict on a decoder's sizes, a configuration file or a PyTorch model, in one call."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from ..decoder.batch import Batch, chapter_batch
from ..decoder.config import DecoderConfig
from ..decoder.parameters import layout
from ..decoder.progress import Told, silent
from ..decoder.twin import twin_for_rows
from ..errors import ConfigError, shown
from ..health.band import DEFAULT_BAND, Band
from ..health.chunks import seeds_seconds
from ..health.pace import REFERENCE
from ..health.request import ObserveRequest
from ..health.seeds import observe_seeds
from ..health.sites import first_block_site
from ..health.verdict import Subject, Verdict, verdict_of
from ..plan.observed_config import observed_from_document, read_observed_config
from .run import observe_module

SEEDS = range(32)
# Beyond this on the reference machine the largest of these twins below it answers, the same on every machine.
SECONDS_AT_ONCE = 20.0
TWIN_WIDTHS = (256, 128, 64, 32)

Checked = DecoderConfig | ObserveRequest | nn.Module | Mapping[str, Any] | str | os.PathLike[str]


def check(
    model: Checked,
    *,
    seeds: Sequence[int] = SEEDS,
    recipe: str | None = None,
    batch: object = None,
    band: Band | None = None,
    told: Told = silent,
) -> Verdict:
    """Return a verdict on whether the depth of `model` is safe at initialization; it prints itself, in a notebook too.

    `model` is a `DecoderConfig`, an `ObserveRequest`, the path of a `config.json` or its content as a mapping, or an
    `nn.Module`. All but a module are observed over `seeds`. `recipe` replaces their recipe, and `batch` (a `Batch`) the
    request's batch; without a request it defaults to the one row of the fixed example. A decoder that would take longer
    than about 20 seconds is observed as its reduced twin, and the verdict's subject says so. A module is audited with
    the weights it has, on `batch` as `audit` takes it: one seed, whatever `seeds` is. `told(what, done, total)` is
    called as the observation of the seeds advances.

    Raises `ConfigError` for anything else and for a configuration that the decoder cannot express, `AuditError` where a
    module's stream is not proved, and what `observe_module` or `observe_seeds` raises.
    """
    if isinstance(model, nn.Module):
        return _module(model, batch, band or DEFAULT_BAND)
    if batch is not None and not isinstance(batch, Batch):
        raise ConfigError(f"The batch is {shown(type(batch).__name__)}; give a Batch where no module is checked.")
    request = _request(model, batch)
    request = replace(request, recipe=recipe or request.recipe, band=band or request.band)
    small = _at_once(request, len(seeds))
    (arm,) = observe_seeds(small, seeds, [small.recipe], told=told)
    width = small.config.width
    name = f"{arm.subject.name} (reduced twin of width {width:,})" if small.config.true_sizes else arm.subject.name
    return replace(arm.verdict, subject=replace(arm.subject, name=name))


def _module(model: nn.Module, batch: object, band: Band) -> Verdict:
    observation = observe_module(model, batch)
    blocks = len({label.rsplit(".", 1)[0] for label in observation.labels[1:]})
    subject = Subject(name=type(model).__name__, blocks=blocks)
    return verdict_of(*observation.ratios, first_block_site(observation.labels), band=band, subject=subject)


def _request(model: object, batch: Batch | None) -> ObserveRequest:
    rows = batch or chapter_batch()
    if isinstance(model, ObserveRequest):
        return model if batch is None else replace(model, batch=batch)
    if isinstance(model, DecoderConfig):
        return ObserveRequest(config=model, batch=rows)
    if isinstance(model, Mapping):
        found = observed_from_document(dict(model), rows.longest)
    elif isinstance(model, str | os.PathLike):
        found = read_observed_config(model, rows.longest)
    else:
        raise ConfigError(
            f"{shown(type(model).__name__)} cannot be checked; give a DecoderConfig, an ObserveRequest, a config.json "
            "or an nn.Module."
        )
    return ObserveRequest(config=found.config, distribution=found.distribution, recipe=found.recipe, batch=rows)


def _at_once(request: ObserveRequest, seeds: int) -> ObserveRequest:
    """Return the request, if it is answered within `SECONDS_AT_ONCE`; else with the widest reduced twin that is.

    Where none is fast enough, the narrowest twin is taken.
    """
    request.batch.check(request.config)
    if _soon(request, seeds):
        return request
    widths = [width for width in TWIN_WIDTHS if width < request.config.width]
    twins = [replace(request, config=twin_for_rows(request.config, width, request.batch)) for width in widths]
    return next((twin for twin in twins if _soon(twin, seeds)), twins[-1] if twins else request)


def _soon(request: ObserveRequest, seeds: int) -> bool:
    if layout(request.config).parameters > request.budget.max_parameters:
        return False
    return seeds_seconds(request, seeds, 1, REFERENCE) <= SECONDS_AT_ONCE
