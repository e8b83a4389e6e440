"""The `observe` document over seeds: verdicts on both arms beside one seed's own sites."""

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
    """The document of `observe_document` on the first seed that was not refused, and over all seeds its verdicts.

    `verdicts` has each arm's verdict, `seeds` all seeds as text, `refusals` each arm's refused seeds with their
    reasons. An arm that is refused on the seed shown is None, both where every seed is refused. `growth` fits the
    exponents around this depth too, `suggestion` adds what `suggest` finds for the recipe's arm. `told` is that of
    `observe_seeds` and `observe_document`.
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
    """The first seed on which no arm was refused, else the first of the first arm's, else the first of all."""
    for refused in (np.logical_or.reduce([arm.refused for arm in arms]), arms[0].refused):
        if not refused.all():
            return arms[0].seeds[int(np.argmin(refused))]
    return arms[0].seeds[0]


def check_arms(document: Document) -> None:
    """Refuse a document of which an arm is None, for whoever needs both, with the first reason."""
    for key in ARMS:
        if document[key] is None:
            raise ObservationError(document["refusals"][key][0]["reason"])
