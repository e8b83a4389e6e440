"""The corrected model: the same random draw and batch, with every matrix multiplied so that it meets the rule."""

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
    """The observation of the corrected model, or a `refusal`: a sentence that says why there is none.

    `factors` maps the name of each matrix to what it was multiplied by. `draws` compares the signs of its values with
    the original model's, which must agree.
    """

    observation: Observation | None
    refusal: str | None
    factors: Mapping[str, float]
    draws: SharedDraws


def corrections(found: Resolution) -> dict[tuple[str, str], float]:
    """Return a dict from (name, slice) of a matrix to the factor that corrects it.

    Writers are brought to the rule, and readers that have the rule's factor back to the base. It is empty if there is
    no rule that scales. Writers that meet the rule, are zero or are not finite are left out.
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
    """Observe the model with its weights corrected to the rule; None where no weight needs a factor.

    The weights are multiplied in place and restored to the bit. Positive factors keep every sign, so the sign hashes of
    the base draws must agree, which is checked. If health is a reduced twin's, the twin is corrected: a relative factor
    is the same at every width. Under a rule that sets the standard deviation by the width, the result holds a `refusal`
    instead.
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
            again = discover(guard, subject.inputs)
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
