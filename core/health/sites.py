"""Builds the rows of the table of sites (states of the residual stream) from arrays."""

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
    """Return the index of the last site of the first block; 0 if there is no addition after the input.

    A label has the form `block.{b}.name`; the block numbers of a user's model need not begin at 0.
    """
    block = labels[1].rsplit(".", 1)[0] if len(labels) > 1 else ""
    return max((index for index, label in enumerate(labels) if label.rsplit(".", 1)[0] == block), default=0)


def site_ratios(activation: FloatArray, adjoint: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (`activation` over its first column, `adjoint` over its last one), `[n, S]` each, from RMS `[n, S]`."""
    with np.errstate(all="ignore"):
        return activation / activation[:, :1], adjoint / adjoint[:, -1:]


def site_values(labels: Sequence[str], rms: Sequence[FloatArray], ratios: Sequence[FloatArray], band: Band) -> Columns:
    """Return the columns `site`, `label` and RMS, ratio and band of both quantities for n members, as lists by name.

    `rms` and `ratios` are pairs (activation, adjoint) of arrays `[n, S]` for S sites; rows are member after member.
    """
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
    """Return the columns of `SITE_TYPES` as lists by name: a row per site and observed seed, then refused seeds.

    `values` are the columns from `site_values`, seed after seed. `observed` holds (seed, loss in nats) in the same
    order. `refused` holds (seed, reason) of seeds without finite ratios; they have one row each, without site and
    numbers. Seeds are written as text, because they may exceed 2^63.
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
