"""Summaries over seeds: quantiles, share within the band, and differences paired by seed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..decoder.splitmix64 import FloatArray
from ..health.columns import INITIALIZED
from ..recipes.catalogue import CONTROL
from .grid import GridArm, Setting
from .results import EXTREMES, QUANTITIES, RATIOS, Results

QUANTILES = {"median": 0.5, "q05": 0.05, "q25": 0.25, "q75": 0.75, "q95": 0.95}
SUMMARY_TYPES = {
    "arm": "str", "recipe": "str", "blocks": "int64", "quantity": "str", **dict.fromkeys(QUANTILES, "float64"),
    "share_within": "float64", "seeds": "int64", "refused": "int64",
}  # fmt: skip
SUMMARY_COLUMNS = tuple(SUMMARY_TYPES)
ALL_RATIOS = "all_ratios"
MINUS_CONTROL = "_minus_control"

Row = dict[str, Any]


def summary_rows(results: Results) -> Iterator[Row]:
    """One row per arm, setting and quantity, over the seeds that were observed; None where undefined.

    `all_ratios` has only `share_within`: the share of seeds whose every ratio lies within the band. A quantity that
    ends in `_minus_control` is a recipe's value minus the control's of the same seed, over seeds where both were
    observed.
    """
    for arm in results.grid.arms:
        for index, setting in enumerate(results.grid.settings):
            yield from _setting_rows(results, arm, index, setting)


def _setting_rows(results: Results, arm: GridArm, index: int, setting: Setting) -> Iterator[Row]:
    row, control, band = results.recipe(arm.recipe), results.recipe(CONTROL), results.grid.band
    observed, refused = results.observed[index], int(results.refused[index, row].sum())
    values = results.values[index, row][observed[row]]
    if not len(values) and not refused:
        return
    # The loss is judged too and has no share.
    inside = band.judge(values) == "within"
    for quantity, name in enumerate(QUANTITIES):
        share = float(inside[:, quantity].mean()) if name in RATIOS and len(values) else None
        yield _row(arm, setting, name, values[:, quantity], share, refused)
    share = float(inside[:, EXTREMES].all(axis=1).mean()) if len(values) else None
    yield {**_row(arm, setting, ALL_RATIOS, values[:0, 0], share, refused), "seeds": len(values)}
    if arm.arm == INITIALIZED:
        both = observed[row] & observed[control]
        differences = results.values[index, row][both] - results.values[index, control][both]
        for quantity, name in enumerate(QUANTITIES):
            yield _row(arm, setting, name + MINUS_CONTROL, differences[:, quantity], None, refused)


def _row(arm: GridArm, setting: Setting, quantity: str, values: FloatArray, share: float | None, refused: int) -> Row:
    levels = np.quantile(values, list(QUANTILES.values())).tolist() if len(values) else [None] * len(QUANTILES)
    return {
        "arm": arm.arm,
        "recipe": arm.recipe,
        "blocks": setting.config.blocks,
        "quantity": quantity,
        **dict(zip(QUANTILES, levels, strict=True)),
        "share_within": share,
        "seeds": len(values),
        "refused": refused,
        **dict(setting.columns),
    }
