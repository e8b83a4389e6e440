"""The tables of a sweep as pandas frames, for pages, notebooks and parquet files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from core.health.columns import OBSERVED, REFUSED
from core.sweep import results as state
from core.sweep.growth import GROWTH_COLUMNS, growth_rows
from core.sweep.quantities import QUANTITIES, RATIOS, within
from core.sweep.rows import Slice, columns, slices
from core.sweep.summary import SUMMARY_COLUMNS, summary_rows

if TYPE_CHECKING:
    from core.sweep.run import SweepRun

CELL_COLUMNS = ("arm", "recipe", "seed", "blocks", *QUANTITIES, "within_band", "status", "reason")


def row_frame(run: SweepRun, recipe: str | None = None, blocks: int | None = None) -> pd.DataFrame:
    """The long table of finished cells, one row a site; a refused cell is one row without a site."""
    parts = [slice_frame(part, columns(run)) for part in slices(run, recipe, blocks)]
    kept = [part for part in parts if len(part)]
    return pd.concat(kept, ignore_index=True) if kept else pd.DataFrame(columns=list(columns(run)))


def slice_frame(part: Slice, names: Sequence[str]) -> pd.DataFrame:
    """The rows of one slice; seeds are text, since they may pass 2^63."""
    sites, cells, refused = len(part.labels), len(part.seeds), len(part.refused)
    rows = sites * cells

    def padded(values: Any, missing: Any) -> list[Any]:
        return [*np.asarray(values).reshape(-1).tolist(), *[missing] * refused]

    found: dict[str, Any] = {
        "arm": part.arm.arm,
        "recipe": part.arm.recipe,
        "seed": [str(s) for s in part.seeds for _ in range(sites)] + [str(seed) for seed, _ in part.refused],
        "blocks": np.full(rows + refused, part.setting.config.blocks, dtype=np.int64),
        "site": pd.array([*list(range(sites)) * cells, *[None] * refused], dtype="Int64"),
        "label": [*list(part.labels) * cells, *[""] * refused],
        "activation_rms": padded(part.activation, np.nan),
        "activation_ratio": padded(part.activation_ratio, np.nan),
        "activation_band": padded(part.activation_band, ""),
        "adjoint_rms": padded(part.adjoint, np.nan),
        "adjoint_ratio": padded(part.adjoint_ratio, np.nan),
        "adjoint_band": padded(part.adjoint_band, ""),
        "loss_nats": padded(np.repeat(part.loss, sites), np.nan),
        "status": [OBSERVED] * rows + [REFUSED] * refused,
        "reason": [""] * rows + [reason for _, reason in part.refused],
        **dict(part.setting.columns),
    }
    return pd.DataFrame(found, columns=list(names), index=range(rows + refused))


def cell_frame(run: SweepRun) -> pd.DataFrame:
    """One row a finished cell, in the order of the long table; numbers of refused cells are NaN."""
    results, seeds = run.results, [str(seed) for seed in run.grid.seeds]
    extremes = [QUANTITIES.index(name) for name in RATIOS if name.startswith(("largest", "smallest"))]
    parts = []
    for arm in run.grid.arms:
        row = results.recipe(arm.recipe)
        for index, setting in enumerate(run.grid.settings):
            kept = np.flatnonzero(results.state[index, row] != state.MISSING)
            values, observed = results.values[index, row, kept], results.state[index, row, kept] == state.OBSERVED
            part: dict[str, Any] = {"arm": arm.arm, "recipe": arm.recipe, "seed": [seeds[place] for place in kept]}
            part |= {
                "blocks": np.full(len(kept), setting.config.blocks),
                **dict(zip(QUANTITIES, values.T, strict=True)),
            }
            part["within_band"] = within(values[:, extremes], run.grid.band).all(axis=1)
            part["status"] = np.where(observed, OBSERVED, REFUSED)
            part["reason"] = [results.reason(index, arm.recipe, run.grid.seeds[place]) for place in kept.tolist()]
            parts.append(pd.DataFrame({**part, **dict(setting.columns)}, index=range(len(kept))))
    kept_parts = [part for part in parts if len(part)]
    names = [*CELL_COLUMNS, *run.grid.extra_columns]
    return pd.concat(kept_parts, ignore_index=True)[names] if kept_parts else pd.DataFrame(columns=names)


def summary_frame(run: SweepRun) -> pd.DataFrame:
    """The summary over seeds; undefined numbers are NaN."""
    return _frame(list(summary_rows(run.results)), (*SUMMARY_COLUMNS, *run.grid.extra_columns), SUMMARY_COLUMNS[4:10])


def growth_frame(run: SweepRun) -> pd.DataFrame:
    """Growth exponents; undefined numbers are NaN."""
    names = (*GROWTH_COLUMNS, *run.grid.extra_columns)
    return _frame(list(growth_rows(run.results)), names, GROWTH_COLUMNS[4:9])


def _frame(rows: Sequence[Mapping[str, Any]], names: Sequence[str], numbers: Sequence[str]) -> pd.DataFrame:
    table = pd.DataFrame({name: [row[name] for row in rows] for name in names}, columns=list(names))
    return table.astype(dict.fromkeys(numbers, "float64"))
