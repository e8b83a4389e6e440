"""Rows of the table of sites from arrays: every document, file and frame that holds such rows is made of these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..decoder.splitmix64 import FloatArray
from .band import Band
from .columns import OBSERVED, REFUSED, SITE_TYPES

# Values by column, all of one length.
Columns = dict[str, list[Any]]


def first_block_site(labels: Sequence[str]) -> int:
    """Index of the last site of the first block; 0 where nothing is added to the input.

    A label is `block.{b}.` and a word. A model's own numbers need not begin at 0.
    """
    block = labels[1].rsplit(".", 1)[0] if len(labels) > 1 else ""
    return max((index for index, label in enumerate(labels) if label.rsplit(".", 1)[0] == block), default=0)


def site_ratios(activation: FloatArray, adjoint: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A_s / A_0 and G_s / G_last of RMS `[n, S]`, dimensionless."""
    with np.errstate(all="ignore"):
        return activation / activation[:, :1], adjoint / adjoint[:, -1:]


def site_values(labels: Sequence[str], rms: Sequence[FloatArray], ratios: Sequence[FloatArray], band: Band) -> Columns:
    """The columns `site` to `adjoint_band` of n members, one row per site; `rms` and `ratios` are pairs of `[n, S]`."""
    members, sites = rms[0].shape
    columns: Columns = {"site": [*range(sites)] * members, "label": [*labels] * members}
    for name, values, relative in zip(("activation", "adjoint"), rms, ratios, strict=True):
        columns[f"{name}_rms"] = values.ravel().tolist()
        columns[f"{name}_ratio"] = relative.ravel().tolist()
        columns[f"{name}_band"] = band.judge(relative).ravel().tolist()
    return columns


def site_rows(
    arm: str,
    recipe: str,
    blocks: int,
    observed: Sequence[tuple[int, float]],
    values: Columns,
    refused: Sequence[tuple[int, str]] = (),
) -> Columns:
    """The columns of `SITE_TYPES`: the sites of every observed cell, then one row without a site per refused cell.

    `observed` holds seed and loss of the cells that `values` has in their order, `refused` seed and reason. A seed is
    text, since it may exceed 2^63. Numbers of a refused cell are None.
    """
    rows = len(values["site"])
    count, each = rows + len(refused), rows // max(1, len(observed))
    return {
        "arm": [arm] * count,
        "recipe": [recipe] * count,
        "seed": [text for seed, _ in observed for text in [str(seed)] * each] + [str(seed) for seed, _ in refused],
        "blocks": [blocks] * count,
        **{name: [*cells, *_blank(name, len(refused))] for name, cells in values.items()},
        "loss_nats": [number for _, loss in observed for number in [loss] * each] + _blank("loss_nats", len(refused)),
        "status": [OBSERVED] * rows + [REFUSED] * len(refused),
        "reason": [""] * rows + [reason for _, reason in refused],
    }


def _blank(name: str, count: int) -> list[Any]:
    return ["" if SITE_TYPES[name] == "str" else None] * count
