"""The `observe` document over seeds: verdicts on both arms, and the sites of one seed."""

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
    """Return the document of `observe_document` for the first seed that is not refused, and verdicts over all seeds.

    `verdicts` has each arm's verdict, `seeds` all seeds as text, `refusals` each arm's refused seeds with their
    reasons. An arm that is refused on the seed shown is None; both are None if every seed is refused. `growth` also
    fits the exponents around this depth, `suggestion` adds the result of `suggest` for the recipe's arm. `told` is as
    in `observe_seeds` and `observe_document`.
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
    """Return the first seed that no arm refused; else the first not refused in the first arm; else the first seed."""
    for refused in (np.logical_or.reduce([arm.refused for arm in arms]), arms[0].refused):
        if not refused.all():
            return arms[0].seeds[int(np.argmin(refused))]
    return arms[0].seeds[0]


def check_arms(document: Document) -> None:
    """Raise `ObservationError` with the first reason if an arm of the document is None.

    For callers that need both arms.
    """
    for key in ARMS:
        if document[key] is None:
            raise ObservationError(document["refusals"][key][0]["reason"])
