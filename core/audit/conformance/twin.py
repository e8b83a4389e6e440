"""The repaired twin: the same base draw with every matrix multiplied to the rule, observed on the same batch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from core.audit.conformance.draws import SharedDraws, compare_digests, draws_of
from core.audit.conformance.matrices import Stored
from core.audit.conformance.parts import parts_of
from core.audit.conformance.reading import Reading, scaled_readers, visible
from core.audit.conformance.rules import Rule
from core.audit.conformance.settle import grouped
from core.audit.discovery import discover
from core.audit.guard import undisturbed
from core.audit.recorder import DEFAULT_BYTES
from core.audit.result import AuditResult, observed
from core.audit.tape import tape_of
from core.health.observation import Observation


@dataclass(frozen=True, kw_only=True)
class Twin:
    """The twin's observation; `factors` is what each matrix was multiplied by, `draws` that its base draws are those
    of the model."""

    observation: Observation | None
    refusal: str | None
    factors: Mapping[str, float]
    draws: SharedDraws


def repairs(reading: Reading, rule: Rule) -> dict[tuple[str, str], float]:
    """What to multiply each matrix, or part of one, by: writers to the rule, readers that carry it back to the base.

    Writers whose group meets the rule, zero writers and those that are not finite stay as they are.
    """
    found = {}
    for matrix in (m for group in grouped(visible(reading)) if not _met(reading, rule, group) for m in group):
        wanted, has = reading.declared(rule, matrix), reading.effective(matrix)
        if 0 < has < math.inf and wanted > 0:
            # Where the factor it has is known, the twin is the right model itself and not one within sampling error.
            exact = (
                one
                for one in (wanted, matrix.forward, wanted * matrix.forward, wanted**2)
                if reading.meets(matrix, one)
            )
            found[matrix.name, matrix.part] = wanted / next(exact, has)
    scaled = {(m.place, m.branch): reading.declared(rule, m) for m in reading.writers}
    for matrix in scaled_readers(reading, rule):
        found[matrix.name, matrix.part] = 1 / scaled[matrix.place, matrix.branch]
    return found


def twin_of(result: AuditResult, reading: Reading, rule: Rule) -> Twin | None:
    """Observe the model as its rule would have it; None where nothing is to be multiplied.

    The weights are multiplied in place and put back to the bit. A pure multiplication keeps every sign, so the digests
    of the base draws must agree; that is checked, not assumed.
    """
    factors = repairs(reading, rule)
    if not factors:
        return None
    model, parameters = result.discovery.guard.model, result.discovery.names.parameters
    before = draws_of(parameters)
    with _multiplied(parameters, factors, [*reading.writers, *reading.readers]):
        draws = compare_digests(before, draws_of(parameters))
        with undisturbed(model) as guard:
            again = discover(guard, result.discovery.inputs, max_bytes=DEFAULT_BYTES)
            observation, refusal = observed(again, tape_of(again) if again.states else None)
    return Twin(
        observation=observation,
        refusal=refusal,
        factors={name + part: factor for (name, part), factor in factors.items()},
        draws=draws,
    )


def _met(reading: Reading, rule: Rule, group: Sequence[Stored]) -> bool:
    return reading.fits(group, [reading.declared(rule, m) for m in group])


@contextmanager
def _multiplied(
    parameters: Mapping[str, torch.Tensor], factors: Mapping[tuple[str, str], float], matrices: Sequence[Stored]
) -> Iterator[None]:
    names = dict.fromkeys(name for name, _ in factors)
    kept = {name: parameters[name].detach().clone() for name in names}
    try:
        with torch.no_grad():
            for name in names:
                for part in parts_of(kept[name]):
                    factor = factors.get((name, part.label), 1.0)
                    part.of(parameters[name].detach()).mul_(factor)
        yield
    finally:
        with torch.no_grad():
            for name, value in kept.items():
                parameters[name].detach().copy_(value)
