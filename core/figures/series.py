"""What charts of several series over seeds share: lines of quantiles, ribbons between them, and the text under a title.

A series has the style of its recipe. `order` lists all series of a page; it distinguishes the series of one recipe.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from .chart import Line, Ribbon
from .style import Style, recipe_style

OUTER = ("q05", "q95")
MEDIAN = "medians over {} seeds"
SPREAD = f"{MEDIAN}, 5 to 95 % filled"
DEPTH_AXIS, BLOCK_AXIS = "depth L, blocks", "block, from 0"
# Fields of every chart over seeds, and of one against depth.
TALL: dict[str, Any] = {"plot": 272}
OVER_DEPTH: dict[str, Any] = {"x_title": DEPTH_AXIS, "log_x": True, "ticks_at_points": True, **TALL}
OVER_BLOCKS: dict[str, Any] = {"x_title": BLOCK_AXIS, "whole_x": True, **TALL}


def seeds_of(rows: pd.DataFrame) -> int:
    """Return the largest number in the column `seeds`; 0 if the table has no rows or no such column."""
    return int(rows["seeds"].max()) if "seeds" in rows and len(rows) else 0


def told(rows: pd.DataFrame, spread: bool = False) -> str:
    """Return the text under a title: the depth if there is only one, the number of seeds, and what is filled."""
    depths, seeds = list(dict.fromkeys(rows["blocks"])), seeds_of(rows)
    parts = [f"L = {depths[0]} blocks"] if len(depths) == 1 else []
    parts += [(SPREAD if spread else MEDIAN).format(seeds)] if seeds > 1 else []
    return ", ".join(parts)


def styled_series(rows: pd.DataFrame, order: Sequence[str] = ()) -> Iterator[tuple[str, pd.DataFrame, Style]]:
    """Yield the name, the rows and the style of each series, in order of appearance."""
    for name, found in rows.groupby("recipe", sort=False):
        yield str(name), found, series_style(str(name), order)


def quantile_marks(
    rows: pd.DataFrame, x: str, *, order: Sequence[str] = (), spread: bool = False, column: str = "median"
) -> dict[str, Any]:
    """Return the `lines` and `ribbons` of a chart as a dict: one line per recipe with the medians in `column`.

    `x` is the column of the horizontal axis. If `spread` is True there are ribbons from 5 to 95 % under the lines. A
    recipe without any median has no line.
    """
    known = list(styled_series(rows[rows[column].notna().groupby(rows["recipe"]).transform("any")], order))
    return {
        "ribbons": [Ribbon.of(found, x, *OUTER, style, group=name) for name, found, style in known if spread],
        "lines": [Line.labelled(found, x, column, name, style, group=name) for name, found, style in known],
    }


def series_style(name: str, order: Sequence[str] = ()) -> Style:
    """Return the style of a series; its name is that of its recipe and, after a comma, what distinguishes it."""
    recipe = name.partition(", ")[0]
    alike = [one for one in order if one.partition(", ")[0] == recipe]
    return recipe_style(recipe, alike.index(name) if name in alike else 0)
