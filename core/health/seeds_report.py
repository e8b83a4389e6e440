"""The `observe` document over many seeds: verdicts with and without the recipe, and the sites of one seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..decoder.progress import Told, silent
from ..errors import ObservationError
from .document import Document
from .growth import with_growth
from .report import observe_document
from .request import ObserveRequest
from .seeds import SeedArm, observe_seeds
from .suggestion import suggest

# Keys of the two arms in a document, in the order of `observe_seeds`.
ARMS = ("initialized", "same_base_unscaled_control")


def seeds_document(
    request: ObserveRequest,
    seeds: Sequence[int],
    *,
    growth: bool = False,
    suggestion: bool = False,
    told: Told = silent,
) -> Document:
    """Return the document of `observe_document` for one seed, with verdicts over all `seeds` added.

    The seed shown is that of `shown_seed`. `verdicts` and `refusals` have one entry for the recipe and one for the
    control (without it): the verdict over all seeds, and the seeds without finite ratios with their reasons. `seeds`
    are all seeds as text. An arm that has no finite ratios at the seed shown is None. `growth` also fits the exponents
    of the depth, `suggestion` adds the result of `suggest`. `told(what, done, total)` is the progress callback.
    """
    arms = observe_seeds(request, seeds, told=told)
    if growth:
        arms = with_growth(request, arms, told=told)
    document = observe_document(replace(request, seed=shown_seed(arms)), refused_arms=True, told=told)
    found = {"suggestion": suggest(request, seeds, before=arms[0], told=told).document()} if suggestion else {}
    return {
        **document,
        **found,
        "seeds": [str(seed) for seed in arms[0].seeds],
        "verdicts": {key: arm.verdict.document() for key, arm in zip(ARMS, arms, strict=True)},
        "refusals": {
            key: [{"seed": str(arm.seeds[row]), "reason": reason} for row, reason in sorted(arm.reasons.items())]
            for key, arm in zip(ARMS, arms, strict=True)
        },
    }


def shown_seed(arms: Sequence[SeedArm]) -> int:
    """Return the seed to show: the first with finite ratios in all arms, else in the first arm, else the first seed."""
    for refused in (np.logical_or.reduce([arm.refused for arm in arms]), arms[0].refused):
        if not refused.all():
            return arms[0].seeds[int(np.argmin(refused))]
    return arms[0].seeds[0]


def check_arms(document: Document) -> None:
    """Raise `ObservationError`, with the first reason, if the document lacks an arm because it has no finite ratios."""
    for key in ARMS:
        if document[key] is None:
            raise ObservationError(document["refusals"][key][0]["reason"])
