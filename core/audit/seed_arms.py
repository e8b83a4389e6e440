"""Reads the ratios over seeds from an audit document, in the form that is used for decoders (`SeedArm`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..decoder.splitmix64 import FloatArray
from ..health.band import DEFAULT_BAND, Band
from ..health.columns import AUDITED, REPAIRED
from ..health.seeds import SeedArm
from ..health.verdict import Subject
from ..recipes.recipe import Recipe

NO_RATIOS = "The model has no finite ratios at this seed."


def seed_arms(document: Mapping[str, Any], band: Band = DEFAULT_BAND) -> list[SeedArm]:
    """Return the audited model over its seeds as a `SeedArm`, then the repaired model, if there is one.

    The list is empty if the document has no residual health. `band` is what ratios are judged by.
    """
    found = document["over_seeds"]
    if found is None:
        return []
    parts = [(AUDITED, found["as_it_is"]), (REPAIRED, found["mended"])]
    return [_arm(document, name, part, found, band) for name, part in parts if part is not None]


def _arm(
    document: Mapping[str, Any], name: str, part: Mapping[str, Any], found: Mapping[str, Any], band: Band
) -> SeedArm:
    rows, labels = part["activation_rms"], list(found["labels"])
    refused = [place for place, row in enumerate(rows) if row is None or part["adjoint_rms"][place] is None]
    model = document["model"]
    words = model["class"] if name == AUDITED else f"{model['class']} with the repair"
    return SeedArm(
        recipe=Recipe(name=name, title=words, source=model["source"], evidence="implementation read"),
        seeds=tuple(map(int, found["seeds"])),
        labels=labels,
        activation_rms=_stacked(rows, len(labels)),
        adjoint_rms=_stacked(part["adjoint_rms"], len(labels)),
        loss_nats=np.full(len(rows), np.nan),
        reasons=dict.fromkeys(refused, NO_RATIOS),
        band=band,
        subject=Subject(name=words, blocks=model["blocks"]),
    )


def _stacked(rows: Sequence[Sequence[float] | None], sites: int) -> FloatArray:
    return np.array([[np.nan] * sites if row is None else row for row in rows], dtype=np.float64)
