"""What to change: tried over the same seeds as the verdict, the best by share within the band, then by margin.

Where the depth is at fault, every recipe of the same topology is tried: writer laws leave the graph alone, so what is
found can be applied without changing the model's forward. Where the input is, its embeddings' spread is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from ..decoder.progress import Told, silent
from ..numerals import finite
from ..recipes.catalogue import RECIPES, recipe
from ..recipes.recipe import Recipe
from .paired import Paired, paired
from .request import ObserveRequest
from .seeds import SeedArm, observe_seeds

UNIT_STD = 1.0
# Digits of a suggested spread; more would promise what a few seeds do not show.
STD_DIGITS = 2


@dataclass(frozen=True, kw_only=True)
class Change:
    """One thing to change: the recipe, or the embeddings' standard deviation, in weight units."""

    kind: Literal["recipe", "embedding_std"]
    recipe: str
    embedding_std: float | None = None

    def applied(self, request: ObserveRequest) -> ObserveRequest:
        """The request with this changed and all else kept."""
        if self.kind == "recipe":
            return replace(request, recipe=self.recipe)
        return replace(request, distribution=replace(request.distribution, embedding_std=self.embedding_std))


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """What a change does: its arm over the seeds, and its margins minus those before, paired by seed."""

    change: Change
    arm: SeedArm
    difference: Paired

    @property
    def rank(self) -> tuple[float, float]:
        """What candidates are ordered by: share of seeds within the band, then the median margin."""
        margin = self.arm.verdict.margin.median
        return (self.arm.verdict.share_within, -np.inf if margin is None else margin)


@dataclass(frozen=True, kw_only=True, eq=False)
class Suggestion:
    """Candidates from the best to the worst beside the arm `before`; none where that is inside already.

    `refused` has the sentence of each candidate that does not run. `tied` are candidates that differ from the best by
    no more than seed noise.
    """

    before: SeedArm
    candidates: tuple[Candidate, ...] = ()
    refused: Mapping[str, str]
    tied: tuple[Candidate, ...] = ()
    head_is_tied: bool = False

    @property
    def best(self) -> Candidate | None:
        """The first candidate, where it ranks above what was before; None where nothing does better."""
        first = self.candidates[0] if self.candidates else None
        before = Candidate(change=Change(kind="recipe", recipe=""), arm=self.before, difference=Paired())
        return first if first is not None and first.rank > before.rank else None

    def document(self) -> dict[str, Any]:
        """The suggestion as plain JSON; `best` is the index of a candidate, None where nothing does better."""
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
    """Try what may help `request` over `seeds`; `before` is its own arm of the same seeds, where it was observed.

    `told` is that of `observe_seeds`. Raises the refusals of the request itself.
    """
    if before is None:
        (before,) = observe_seeds(request, seeds, [request.recipe], told=told)
    verdict = before.verdict
    if verdict.state == "inside":
        return Suggestion(before=before, refused={})
    tried = _embeddings if verdict.cause == "input" else _recipes
    found, refused = tried(request, before, told)
    ordered = sorted(found, key=lambda one: one.rank, reverse=True)
    return Suggestion(
        before=before,
        candidates=tuple(ordered),
        refused=refused,
        tied=tuple(one for one in ordered[1:] if paired(one.arm.margins, ordered[0].arm.margins).within_noise),
        head_is_tied=request.config.tied,
    )


def candidates(name: str) -> list[Recipe]:
    """The named recipes that share the topology of `name` and have no profile step, in listed order, without itself."""
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
    names = [known.name for known in named if known.name not in refused]
    arms = observe_seeds(request, before.seeds, names, told=told) if names else []
    changes = [Change(kind="recipe", recipe=name) for name in names]
    return [_candidate(change, arm, before) for change, arm in zip(changes, arms, strict=True)], refused


def _embeddings(request: ObserveRequest, before: SeedArm, told: Told) -> tuple[list[Candidate], dict[str, str]]:
    """Embeddings at the scale of the first block's end, and at the unit scale that a norm behind them would give."""
    ratio, std = before.verdict.input_ratio.activation, before.subject.embedding_std
    matched = float(f"{std * ratio:.{STD_DIGITS}g}") if ratio and std else UNIT_STD
    # A matching spread beyond binary64's own range is none.
    stds = [matched, UNIT_STD] if 0 < matched < np.inf else [UNIT_STD]
    found = []
    for value in dict.fromkeys(stds):
        change = Change(kind="embedding_std", recipe=request.recipe, embedding_std=value)
        (arm,) = observe_seeds(change.applied(request), before.seeds, [request.recipe], told=told)
        found.append(_candidate(change, arm, before))
    return found, {}


def _candidate(change: Change, arm: SeedArm, before: SeedArm) -> Candidate:
    return Candidate(change=change, arm=arm, difference=paired(arm.margins, before.margins))
