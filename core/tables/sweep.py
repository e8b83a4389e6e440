"""Tables of a sweep for figures and display: named series, heat maps, distributions, differences, refused cells.

All are computed from the tables of `core.sweep`. A series is one recipe, or the control, at one size, dtype and batch;
its name is in the column `recipe`. A cell is one seed of a series at one depth; a refused cell has a reason in place of
numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ..decoder.splitmix64 import FloatArray
from ..health.band import Band
from ..health.columns import INITIALIZED, OBSERVED, REFUSED
from ..recipes.catalogue import CONTROL
from ..sweep.grid import SweepGrid
from ..sweep.results import RATIOS
from ..sweep.summary import ALL_RATIOS, MINUS_CONTROL
from .frame import frame, yes_or_no
from .recipes import LEVEL_TITLES, SHARE_TITLE

# What is looked at, and the activation and adjoint quantity that it means.
STATISTICS = {
    "largest": ("largest_activation_ratio", "largest_adjoint_ratio"),
    "smallest": ("smallest_activation_ratio", "smallest_adjoint_ratio"),
    "far end": ("last_activation_ratio", "input_adjoint_ratio"),
}
DISTRIBUTION_COLUMNS = ("recipe", "blocks", "quantity", "lower", "centre", "upper", "seeds", "share")
REFUSAL_COLUMNS = ("arm", "recipe", "blocks", "cells", "seeds", "reason")
FEWEST_BINS, MOST_BINS = 10, 32
# Half the width of the one bin that holds equal values, as a factor.
ONE_VALUE = 1.05
SHOWN_SEEDS = 8


def axis_names(grid: SweepGrid) -> tuple[str, ...]:
    """Return the names of the fewest columns that tell the settings of a grid at one depth apart."""
    found = {setting.columns for setting in grid.settings}
    kept = list(range(len(grid.extra_columns)))
    for place in reversed(list(kept)):
        without = [index for index in kept if index != place]
        if len({tuple(columns[index] for index in without) for columns in found}) == len(found):
            kept = without
    return tuple(grid.extra_columns[place] for place in kept)


def address_table(grid: SweepGrid) -> pd.DataFrame:
    """Return one row per arm (recipe or control) and setting of a grid, computed or not.

    `setting` is the index of the setting, `made_by` the name of the recipe.
    """
    rows = [
        {"arm": arm.arm, "recipe": arm.recipe, "made_by": arm.recipe, "blocks": setting.config.blocks,
         "setting": index, **dict(setting.columns)}
        for arm in grid.arms
        for index, setting in enumerate(grid.settings)
    ]  # fmt: skip
    return frame(rows, ("arm", "recipe", "made_by", "blocks", "setting", *grid.extra_columns))


def series_table(table: pd.DataFrame, axes: Sequence[str]) -> pd.DataFrame:
    """Return a table of `core.sweep` with the name of the series in the column `recipe`.

    If the unscaled recipe was asked for by name too, it equals the control and its rows are left out.
    """
    kept = table[(table["arm"] != INITIALIZED) | (table["recipe"] != CONTROL)]
    name = kept["recipe"].where(kept["arm"] == INITIALIZED, CONTROL).astype(str)
    for axis in axes:
        name = name + f", {axis.replace('_', ' ')} " + kept[axis].astype(str)
    return kept.assign(recipe=name).reset_index(drop=True)


def series_names(table: pd.DataFrame) -> list[str]:
    """Return the names of the series in a table, in order of appearance."""
    return [str(name) for name in dict.fromkeys(table["recipe"])]


def heat_table(cells: pd.DataFrame, quantity: str, band: Band) -> pd.DataFrame:
    """Return one row per (recipe, seed) cell of a series table: its ratio and its class.

    The class is below, within, above or refused. The ratio of a refused cell is missing.
    """
    ratio = cells[quantity].to_numpy(dtype=float)
    verdict = np.select(
        [np.isnan(ratio), ratio < band.lower, ratio > band.upper], [REFUSED, "below", "above"], "within"
    )
    return cells[["recipe", "seed", "blocks"]].assign(ratio=ratio, band=verdict).reset_index(drop=True)


def distribution_table(cells: pd.DataFrame, blocks: int, quantity: str) -> pd.DataFrame:
    """Return a histogram of one ratio over the seeds at one depth, one row per series and bin.

    Columns are `DISTRIBUTION_COLUMNS`. The bins are equal on a logarithmic axis and shared by all series; there are
    about 2 sqrt(number of seeds). Ratios that are not positive and finite are left out. A bin includes its lower edge,
    the last one both.
    """
    here = cells[(cells["blocks"] == blocks) & (cells["status"] == OBSERVED)]
    here = here[(here[quantity] > 0) & np.isfinite(here[quantity].astype(float))]
    if not len(here):
        return frame([], DISTRIBUTION_COLUMNS)
    seeds = here.groupby("recipe", sort=False)["seed"].count()
    edges = _edges(here[quantity].to_numpy(dtype=float), int(np.ceil(2 * np.sqrt(seeds.max()))))
    parts = []
    for name, values in here.groupby("recipe", sort=False)[quantity]:
        counts, _ = np.histogram(values.to_numpy(dtype=float), edges)
        bins = {"lower": edges[:-1], "centre": np.sqrt(edges[:-1]) * np.sqrt(edges[1:]), "upper": edges[1:]}
        share = counts / len(values)
        parts.append(pd.DataFrame({"recipe": name, **bins, "seeds": counts, "share": share}))
    table = pd.concat(parts, ignore_index=True).assign(blocks=blocks, quantity=quantity)
    return table[list(DISTRIBUTION_COLUMNS)]


def _edges(values: FloatArray, wanted: int) -> FloatArray:
    low, high = float(values.min()), float(values.max())
    if low == high:
        return np.array([low / ONE_VALUE, high * ONE_VALUE])
    edges = np.geomspace(low, high, min(max(wanted, FEWEST_BINS), MOST_BINS) + 1)
    # Rounding of powers may leave the extremes outside.
    edges[0], edges[-1] = low, high
    return np.asarray(edges)


def distribution_view(distribution: pd.DataFrame) -> pd.DataFrame:
    """Return the bins of a `distribution_table` that are not empty, for display."""
    titles = {
        "recipe": "series", "quantity": "ratio", "lower": "from", "upper": "to", "seeds": "seeds", "share": "share",
    }  # fmt: skip
    rows = distribution.loc[distribution["seeds"] > 0, list(titles)]
    return rows.assign(quantity=rows["quantity"].str.replace("_", " ")).rename(columns=titles)


def difference_table(summary: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a summary with the difference between a recipe and the control for the same seed.

    `quantity` has its name without the ending `_minus_control`.
    """
    rows = summary[summary["quantity"].str.endswith(MINUS_CONTROL) & (summary["seeds"] > 0)]
    rows = rows[(rows["arm"] != INITIALIZED) | (rows["recipe"] != CONTROL)]
    return rows.assign(quantity=rows["quantity"].str.removesuffix(MINUS_CONTROL)).reset_index(drop=True)


def refusal_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Return one row per recipe, depth and reason of refused (recipe, seed) cells, with their number and first seeds.

    Columns are `REFUSAL_COLUMNS`.
    """
    keys = ["arm", "recipe", "blocks", "reason"]
    groups = cells[cells["status"] == REFUSED].groupby(keys, sort=False)["seed"]
    return groups.agg(cells="size", seeds=_first_seeds).reset_index()[list(REFUSAL_COLUMNS)]


def _first_seeds(seeds: pd.Series[str]) -> str:
    return ", ".join(seeds[:SHOWN_SEEDS]) + (", …" if len(seeds) > SHOWN_SEEDS else "")


def stem(quantity: str) -> str:
    """Return the name of a ratio for a file name, such as `largest-activation` for `largest_activation_ratio`."""
    return quantity.removesuffix("_ratio").replace("_", "-")


def quantile_view(table: pd.DataFrame, quantities: Sequence[str]) -> pd.DataFrame:
    """Return the quantiles of some quantities of a summary for display, one row per series, depth and quantity."""
    titles = {
        "recipe": "series", "blocks": "L, blocks", "quantity": "quantity", **LEVEL_TITLES,
        "share_within": SHARE_TITLE, "seeds": "seeds",
    }  # fmt: skip
    rows = table[table["quantity"].isin(quantities) & (table["seeds"] > 0)]
    view = rows[list(titles)].assign(quantity=rows["quantity"].str.replace("_", " "))
    view = view.rename(columns=titles)
    return view if view[SHARE_TITLE].notna().any() else view.drop(columns=SHARE_TITLE)


def share_view(summary: pd.DataFrame) -> pd.DataFrame:
    """Return the share of seeds within the band for all ratios, then for each extreme; one row per series and depth."""
    kept = summary[summary["quantity"].isin((ALL_RATIOS, *RATIOS)) & (summary["seeds"] > 0)]
    wide = kept.pivot_table(
        index=["recipe", "blocks", "seeds"], columns="quantity", values="share_within", sort=False
    )  # fmt: skip
    names = [name for name in (ALL_RATIOS, *RATIOS) if name in wide.columns]
    view = wide[names].reset_index()
    view.columns = pd.Index(["series", "L, blocks", "seeds", *(name.replace("_", " ") for name in names)])
    return view


def cell_view(cells: pd.DataFrame, most: int) -> pd.DataFrame:
    """Return the first `most` (recipe, seed) cells for display."""
    view = cells.head(most)
    return view.assign(within_band=yes_or_no(view["within_band"])).rename(
        columns=lambda name: str(name).replace("_", " ")
    )
