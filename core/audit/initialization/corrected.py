"""The corrected model: the same base draw with every matrix multiplied to the rule, observed on the same batch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from ...health.observation import Observation
from ..report.result import AuditResult, observed
from ..sandbox.guard import undisturbed
from ..trace.discovery import discover
from ..trace.recorder import DEFAULT_BYTES
from ..trace.tape import tape_of
from .measure import grouped
from .resolution import Resolution
from .sign_hash import SharedDraws, compare_digests, sign_hashes
from .slices import slices_of

OF_THE_WIDTH = (
    "The rule sets the standard deviation by the width, and the model was judged at small widths; audit it at its own."
)


@dataclass(frozen=True, kw_only=True)
class Corrected:
    """The corrected model's observation; `factors` is what each matrix was multiplied by, `draws` that its base draws
    are those of the model."""

    observation: Observation | None
    refusal: str | None
    factors: Mapping[str, float]
    draws: SharedDraws


def corrections(found: Resolution) -> dict[tuple[str, str], float]:
    """What to multiply each matrix or slice by: writers to the rule, readers that carry it back to the base.

    Writers whose group meets the rule, zero writers and those that are not finite stay as they are.
    """
    first, rule = found.first, found.rule
    if rule is None or not rule.scales:
        return {}
    factors: dict[tuple[str, str], float] = {}
    for group in grouped(first.visible):
        if first.fits(group, lambda m: first.asked(rule, m)):
            continue
        for matrix in group:
            wanted, has = first.asked(rule, matrix), first.effective(matrix)
            if 0 < has < math.inf and wanted > 0:
                # Where the factor it has is known, this is the right model itself and not one within sampling error.
                exact = (wanted, matrix.forward, wanted * matrix.forward, wanted**2)
                factors[matrix.name, matrix.part] = wanted / next((f for f in exact if first.meets(matrix, f)), has)
    scaled = {m.where: first.asked(rule, m) for m in first.stats.writers}
    return factors | {(m.name, m.part): 1 / scaled[m.where] for m in found.scaled_readers}


def correct(result: AuditResult, found: Resolution) -> Corrected | None:
    """Observe the model as its rule would have it; None where nothing is to be multiplied.

    The weights are multiplied in place and put back to the bit. A pure multiplication keeps every sign, so the hashes
    of the base draws must agree; that is checked, not assumed. Where health is a reduced twin's, so is this one's: a
    relative factor is the same at every width, and a rule that sets the standard deviation by the width is refused.
    """
    factors = corrections(found)
    if not factors:
        return None
    if result.reduced is not None and found.rule is not None and found.rule.absolute:
        return Corrected(observation=None, refusal=OF_THE_WIDTH, factors={}, draws=compare_digests({}, {}))
    subject = result.measured
    model, parameters = subject.guard.model, subject.names.parameters
    before = sign_hashes(parameters)
    with _multiplied(parameters, factors):
        draws = compare_digests(before, sign_hashes(parameters))
        with undisturbed(model) as guard:
            again = discover(guard, subject.inputs, max_bytes=DEFAULT_BYTES)
            observation, refusal = observed(again, tape_of(again) if again.states else None)
    return Corrected(
        observation=observation,
        refusal=refusal,
        factors={name + part: factor for (name, part), factor in factors.items()},
        draws=draws,
    )


@contextmanager
def _multiplied(parameters: Mapping[str, torch.Tensor], factors: Mapping[tuple[str, str], float]) -> Iterator[None]:
    kept = {name: parameters[name].detach().clone() for name, _ in factors}
    try:
        with torch.no_grad():
            for name, value in kept.items():
                for part in slices_of(value):
                    part.of(parameters[name].detach()).mul_(factors.get((name, part.label), 1.0))
        yield
    finally:
        with torch.no_grad():
            for name, value in kept.items():
                parameters[name].detach().copy_(value)
