"""Summaries over seeds: quantiles, the share within the band, differences for the same seed, and growth with depth.

A growth exponent p says that a ratio is proportional to L^p for L blocks. It is fitted, or derived from the recipe. A
fit is the slope of log ratio against log L by least squares over all seeds and depths. Its 95% interval is a bootstrap
over whole seeds, because the depths of one seed share their random weights. A derived exponent assumes independent
branch outputs of equal variance, and uses no measurement.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..decoder.splitmix64 import FloatArray, units
from ..health.columns import INITIALIZED
from ..recipes.catalogue import CONTROL, recipe
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
GROWTH_TYPES = {
    "arm": "str", "recipe": "str", "quantity": "str", "kind": "str",
    **dict.fromkeys(("exponent", "lower95", "upper95", "depths", "seeds"), "float64"), "note": "str",
}  # fmt: skip
GROWING = ("largest_activation_ratio", "input_adjoint_ratio")
FIT, DERIVED = "fit", "derived"
FIT_NOTE = "log-log least squares over seeds and depths; interval by bootstrap over seeds"
RESAMPLES = 1000
BOOTSTRAP_SEED = 0
# Resampled seeds counted at a time, so that memory stays flat.
COUNTED = 2**20

Row = dict[str, Any]


def summary_rows(results: Results) -> Iterator[Row]:
    """Yield one dict per arm (recipe or control), setting and quantity: quantiles over the observed seeds.

    Undefined values are None. The quantity `all_ratios` has only `share_within`: the share of seeds whose ratios are
    all within the band. A quantity that ends in `_minus_control` is the recipe's value minus the control's for the same
    seed, if both were observed.
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


def growth_rows(results: Results) -> Iterator[Row]:
    """Yield one dict per arm (recipe or control), size, dtype, batch, quantity and kind, `fit` or `derived`.

    `exponent` is None for a fit with fewer than two depths.
    """
    grid = results.grid
    depths = len(grid.blocks)
    for arm in grid.arms:
        for start in range(0, len(grid.settings), depths):
            extra = dict(grid.settings[start].columns)
            for quantity in GROWING:
                yield {**_fit(results, arm, start, quantity), **extra}
                law = recipe(arm.recipe).growth
                exponent = None if law is None else law.activation if quantity == GROWING[0] else law.adjoint
                if law and exponent is not None:
                    yield {**_growth_row(arm, quantity, DERIVED, exponent, note=law.reason), **extra}


def _fit(results: Results, arm: GridArm, start: int, quantity: str) -> Row:
    """Return the fit over the settings from `start` on that are the depths of one size, dtype and batch."""
    depths = slice(start, start + len(results.grid.blocks))
    row = results.recipe(arm.recipe)
    values = results.values[depths, row, :, QUANTITIES.index(quantity)]
    usable = results.observed[depths, row] & (values > 0)
    sums = _sums(np.log(np.array(results.grid.blocks, dtype=np.float64)), values, usable)
    sums = sums[:, sums[0] > 0]
    used = int(usable.any(axis=1).sum())
    if used < 2:
        return _growth_row(arm, quantity, FIT, None, depths=used, seeds=sums.shape[1], note=FIT_NOTE)
    lower, upper = _interval(sums)
    exponent = float(_slope(sums.sum(axis=1)))
    return _growth_row(arm, quantity, FIT, exponent, lower, upper, depths=used, seeds=sums.shape[1], note=FIT_NOTE)


def _sums(x: FloatArray, values: FloatArray, usable: Any) -> FloatArray:
    """Return the sums that least squares needs per seed, `[5, seeds]`: count, x, y, x^2 and x y over usable depths."""
    y = np.log(np.where(usable, values, 1.0))
    column = np.where(usable, x[:, None], 0.0)
    return np.stack([usable.sum(axis=0), column.sum(axis=0), y.sum(axis=0), (column**2).sum(axis=0),
                     (column * y).sum(axis=0)])  # fmt: skip


def _slope(sums: FloatArray) -> FloatArray:
    count, x, y, xx, xy = sums
    with np.errstate(all="ignore"):
        return np.asarray((count * xy - x * y) / (count * xx - x * x))


def _interval(sums: FloatArray) -> tuple[float | None, float | None]:
    """Return the middle 95% of slopes over resampled seeds; (None, None) if there is only one seed."""
    seeds = sums.shape[1]
    if seeds < 2:
        return None, None
    each = max(1, COUNTED // seeds)
    slopes = []
    for start in range(0, RESAMPLES, each):
        count = min(each, RESAMPLES - start)
        chosen = (units([BOOTSTRAP_SEED], start * seeds, count * seeds)[0] * seeds).astype(np.int64)
        slopes.append(_slope(sums[:, chosen.reshape(count, seeds)].sum(axis=2)))
    lower, upper = np.nanquantile(np.concatenate(slopes), [0.025, 0.975]).tolist()
    return lower, upper


def _growth_row(
    arm: GridArm,
    quantity: str,
    kind: str,
    exponent: float | None,
    lower: float | None = None,
    upper: float | None = None,
    *,
    depths: int | None = None,
    seeds: int | None = None,
    note: str,
) -> Row:
    values = (arm.arm, arm.recipe, quantity, kind, exponent, lower, upper, depths, seeds, note)
    return dict(zip(GROWTH_TYPES, values, strict=True))
