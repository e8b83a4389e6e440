"""Suggest a change that brings a decoder into the band; candidates are run on the same seeds as the verdict.

If the depth is the cause, every recipe of the same topology is tried: such recipes differ only in stored weights, so
the model's forward stays as it is. If the input is the cause, other standard deviations of the embeddings are tried.
Candidates are ranked by the share of seeds within the band, then by margin. All are tried on the first few seeds; one
that is behind on every one of them is not tried on the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from ..decoder.progress import Told, silent
from ..numerals import finite
from ..recipes.catalogue import RECIPES, recipe
from ..recipes.recipe import Recipe
from .paired import Paired, paired
from .request import ObserveRequest
from .seeds import SeedArm, observe_embeddings, observe_seeds

UNIT_STD = 1.0
# Seeds on which every candidate is tried. Of two that are equally good, the other is ahead on all of them once in 256.
FIRST_SEEDS = 8
# Digits of a suggested spread; more would promise what a few seeds do not show.
STD_DIGITS = 2


@dataclass(frozen=True, kw_only=True)
class Change:
    """One change to a request: the recipe, or the standard deviation of the embeddings in weight units."""

    kind: Literal["recipe", "embedding_std"]
    recipe: str
    embedding_std: float | None = None

    def applied(self, request: ObserveRequest) -> ObserveRequest:
        """Return the request with this change."""
        if self.kind == "recipe":
            return replace(request, recipe=self.recipe)
        return replace(request, distribution=replace(request.distribution, embedding_std=self.embedding_std))


# Observe changes on seeds; `told` as in `observe_seeds`.
Observed = Callable[[Sequence[Change], Sequence[int], Told], list[SeedArm]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """A change that was tried.

    `arm` is the result over the seeds; `difference` is its margins (distance from the band's limits, in doublings)
    minus those before, paired by seed.
    """

    change: Change
    arm: SeedArm
    difference: Paired

    @property
    def rank(self) -> tuple[float, float]:
        """(share of seeds within the band, median margin in doublings); candidates are sorted by it, largest first."""
        return _rank(self.arm)


@dataclass(frozen=True, kw_only=True, eq=False)
class Suggestion:
    """Changes that were tried, from best to worst, and the result `before` any change.

    - There are no candidates if the verdict is inside the band already.
    - Candidates that fell behind on the first `FIRST_SEEDS` seeds come last and have results for these seeds alone.
    - `refused` maps each candidate that cannot run to the reason.
    - `tied` are those that differ from the best by no more than the variation between seeds.
    - `head_is_tied`: the head shares the embeddings, so that a change of these changes the logits.
    """

    before: SeedArm
    candidates: tuple[Candidate, ...] = ()
    refused: Mapping[str, str]
    tied: tuple[Candidate, ...] = ()
    head_is_tied: bool = False

    @property
    def best(self) -> Candidate | None:
        """The first candidate if it ranks above `before`; None if no candidate is better."""
        first = self.candidates[0] if self.candidates else None
        before = Candidate(change=Change(kind="recipe", recipe=""), arm=self.before, difference=Paired())
        return first if first is not None and first.rank > before.rank else None

    def document(self) -> dict[str, Any]:
        """Return the suggestion as a dict of JSON values; `best` is 0, the index of a candidate, or None."""
        from .suggestion_words import suggestion_sentences  # the sentences are made of this class

        return {
            "before": self.before.verdict.document(),
            "best": None if self.best is None else 0,
            "sentences": suggestion_sentences(self),
            "candidates": [
                {
                    "change": asdict(one.change),
                    "verdict": one.arm.verdict.document(),
                    "difference": one.difference.document(),
                    "loss_nats": finite(one.arm.median_loss),
                }
                for one in self.candidates
            ],
            "tied": [asdict(one.change) for one in self.tied],
            "refused": dict(self.refused),
        }


def suggest(
    request: ObserveRequest, seeds: Sequence[int], *, before: SeedArm | None = None, told: Told = silent
) -> Suggestion:
    """Try changes to `request` over `seeds` and return the `Suggestion`.

    `before` is the result without a change, of the request's recipe on these seeds; it is observed here if None.
    `told(what, done, total)` is the progress callback. Raises the errors of the request itself.
    """
    if before is None:
        (before,) = observe_seeds(request, seeds, [request.recipe], told=told)
    verdict = before.verdict
    if verdict.state == "inside":
        return Suggestion(before=before, refused={})
    found, refused = _embeddings(request, before, told) if verdict.cause == "input" else _recipes(request, before, told)
    ordered = sorted(found, key=lambda one: (len(one.arm.seeds), one.rank), reverse=True)
    return Suggestion(
        before=before,
        candidates=tuple(ordered),
        refused=refused,
        tied=tuple(one for one in ordered[1:] if _is_tied(one, ordered[0])),
        head_is_tied=request.config.tied,
    )


def candidates(name: str) -> list[Recipe]:
    """Return the other recipes with the graph of the recipe `name`, in listed order, without profile step."""
    chosen = recipe(name)
    return [
        known
        for known in RECIPES
        if known.refusal is None
        and known.profile is None
        and known.topology == chosen.topology
        and known.name != chosen.name
    ]


def _recipes(request: ObserveRequest, before: SeedArm, told: Told) -> tuple[list[Candidate], dict[str, str]]:
    named = candidates(request.recipe)
    refused = {known.name: reason for known in named if (reason := known.refused(request.config)) is not None}
    changes = [Change(kind="recipe", recipe=known.name) for known in named if known.name not in refused]

    def observed(tried: Sequence[Change], seeds: Sequence[int], told: Told) -> list[SeedArm]:
        return observe_seeds(request, seeds, [change.recipe for change in tried], told=told)

    return _raced(changes, before, observed, told), refused


def _embeddings(request: ObserveRequest, before: SeedArm, told: Told) -> tuple[list[Candidate], dict[str, str]]:
    """Try embeddings at the scale of the state after the first block, and at the unit scale that a norm would give.

    Returns the candidates, and the reason for each that cannot run.
    """
    ratio, std = before.verdict.input_ratio.activation, before.subject.embedding_std
    matched = float(f"{std * ratio:.{STD_DIGITS}g}") if ratio and std else UNIT_STD
    # A matching spread beyond binary64's own range is none.
    stds = dict.fromkeys([matched, UNIT_STD] if 0 < matched < np.inf else [UNIT_STD])
    changes = [Change(kind="embedding_std", recipe=request.recipe, embedding_std=std) for std in stds]

    def observed(tried: Sequence[Change], seeds: Sequence[int], told: Told) -> list[SeedArm]:
        return observe_embeddings(request, seeds, [change.embedding_std or UNIT_STD for change in tried], told=told)

    return _raced(changes, before, observed, told), {}


def _raced(changes: Sequence[Change], before: SeedArm, observed: Observed, told: Told) -> list[Candidate]:
    """Try all changes on the first seeds of `before`, and those not behind on all of these on the others too."""
    if not changes:
        return []
    first, others = before.seeds[:FIRST_SEEDS], before.seeds[FIRST_SEEDS:]
    total = len(before.seeds)
    arms = dict(zip(changes, observed(changes, first, lambda what, done, _: told(what, done, total)), strict=True))
    going_on = _not_behind(arms) if others else []
    if going_on:
        later = observed(going_on, others, lambda what, done, _: told(what, len(first) + done, total))
        arms |= {change: arms[change].followed_by(arm) for change, arm in zip(going_on, later, strict=True)}
    return [_candidate(change, arm, before) for change, arm in arms.items()]


def _not_behind(arms: Mapping[Change, SeedArm]) -> list[Change]:
    """Return the changes that the best one does not beat beyond the noise of these seeds.

    Branches that add nothing keep every ratio at 1. As that says little about training, they are no measure for the
    others.
    """
    adding = {change: arm for change, arm in arms.items() if arm.verdict.worst_factor.q95 != 1.0}
    best = max(adding.values(), key=_rank, default=None)
    return [
        change
        for change, arm in arms.items()
        if best is None or change not in adding or paired(arm.margins, best.margins).high >= 0
    ]


def _rank(arm: SeedArm) -> tuple[float, float]:
    """Return the sort key of candidates: the share of seeds within the band, then the median margin."""
    margin = arm.verdict.margin.median
    return (arm.verdict.share_within, -np.inf if margin is None else margin)


def _is_tied(one: Candidate, best: Candidate) -> bool:
    return one.arm.seeds == best.arm.seeds and paired(one.arm.margins, best.arm.margins).within_noise


def _candidate(change: Change, arm: SeedArm, before: SeedArm) -> Candidate:
    return Candidate(change=change, arm=arm, difference=paired(arm.margins, before.margins[: len(arm.seeds)]))
