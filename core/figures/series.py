"""What charts of several series over seeds share: quantile lines with their ribbons, and the text under a title.

A series has the style of its recipe; `order` lists all series of a page, and distinguishes those of one recipe.
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
    """Return the largest number of seeds behind a row."""
    return int(rows["seeds"].max()) if "seeds" in rows and len(rows) else 0


def told(rows: pd.DataFrame, spread: bool = False) -> str:
    """Return what the lines show: the depth if there is one, the seeds, and whether their quantiles are drawn."""
    depths, seeds = list(dict.fromkeys(rows["blocks"])), seeds_of(rows)
    parts = [f"L = {depths[0]} blocks"] if len(depths) == 1 else []
    parts += [(SPREAD if spread else MEDIAN).format(seeds)] if seeds > 1 else []
    return ", ".join(parts)


def styled_series(rows: pd.DataFrame, order: Sequence[str] = ()) -> Iterator[tuple[str, pd.DataFrame, Style]]:
    """Yield the name, rows and style of each series in order of appearance."""
    for name, found in rows.groupby("recipe", sort=False):
        yield str(name), found, series_style(str(name), order)


def quantile_marks(
    rows: pd.DataFrame, x: str, *, order: Sequence[str] = (), spread: bool = False, column: str = "median"
) -> dict[str, Any]:
    """Return chart fields with one line per recipe at the medians; with `spread`, also ribbons from 5 to 95 % below.

    A recipe without any median has no line.
    """
    known = list(styled_series(rows[rows[column].notna().groupby(rows["recipe"]).transform("any")], order))
    return {
        "ribbons": [Ribbon.of(found, x, *OUTER, style, group=name) for name, found, style in known if spread],
        "lines": [Line.labelled(found, x, column, name, style, group=name) for name, found, style in known],
    }


def series_style(name: str, order: Sequence[str] = ()) -> Style:
    """Return the style of a series; its name is its recipe's name and, after a comma, what distinguishes it."""
    recipe = name.partition(", ")[0]
    alike = [one for one in order if one.partition(", ")[0] == recipe]
    return recipe_style(recipe, alike.index(name) if name in alike else 0)
