"""The tables of a sweep as pandas frames, for pages and notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from ..health.columns import OBSERVED, REFUSED
from .growth import GROWTH_TYPES, growth_rows
from .quantities import EXTREMES, QUANTITIES
from .results import Results
from .summary import SUMMARY_TYPES, summary_rows
from .tables import row_parts, row_types

CELL_TYPES = {
    "arm": "str", "recipe": "str", "seed": "str", "blocks": "int64", **dict.fromkeys(QUANTITIES, "float64"),
    "within_band": "bool", "status": "str", "reason": "str",
}  # fmt: skip


def row_frame(results: Results, recipe: str | None = None, blocks: int | None = None) -> pd.DataFrame:
    """The long table of finished cells, one row per site; a refused cell is one row without a site."""
    return _frame(row_parts(results, recipe, blocks), row_types(results.grid))


def cell_frame(results: Results) -> pd.DataFrame:
    """One row per finished cell, in the order of the long table; numbers of refused cells are NaN."""
    grid, seeds, parts = results.grid, [str(seed) for seed in results.grid.seeds], []
    for arm in grid.arms:
        row = results.recipe(arm.recipe)
        for index, setting in enumerate(grid.settings):
            finished = np.flatnonzero(results.observed[index, row] | results.refused[index, row])
            values = results.values[index, row, finished]
            part: dict[str, Any] = {
                "arm": arm.arm,
                "recipe": arm.recipe,
                "seed": [seeds[place] for place in finished],
                "blocks": setting.config.blocks,
                **dict(zip(QUANTITIES, values.T, strict=True)),
                "within_band": (grid.band.judge(values[:, EXTREMES]) == "within").all(axis=1),
                "status": np.where(results.observed[index, row, finished], OBSERVED, REFUSED),
                "reason": [results.reason(index, arm.recipe, grid.seeds[place]) for place in finished.tolist()],
            }
            parts.append({**part, **dict(setting.columns)})
    return _frame(parts, {**CELL_TYPES, **grid.axis_types})


def summary_frame(results: Results) -> pd.DataFrame:
    """The summary over seeds; undefined numbers are NaN."""
    return _frame([list(summary_rows(results))], {**SUMMARY_TYPES, **results.grid.axis_types})


def growth_frame(results: Results) -> pd.DataFrame:
    """Growth exponents; undefined numbers are NaN."""
    return _frame([list(growth_rows(results))], {**GROWTH_TYPES, **results.grid.axis_types})


def _frame(parts: Iterable[Any], types: Mapping[str, str]) -> pd.DataFrame:
    """Tables by columns or by rows below each other, with the columns of `types`."""
    tables = [pd.DataFrame(part, columns=list(types)).astype(types) for part in parts]
    kept = [table for table in tables if len(table)] or tables[:1]
    return pd.concat(kept, ignore_index=True) if kept else pd.DataFrame(columns=list(types)).astype(types)
