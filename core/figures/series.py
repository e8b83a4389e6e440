"""What charts of several series over seeds share: quantile lines with their ribbons, and the words under a title.

A series has its recipe's look; `order`, all series of a page, distinguishes those of one recipe.
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
    """The most seeds behind a row."""
    return int(rows["seeds"].max()) if "seeds" in rows and len(rows) else 0


def told(rows: pd.DataFrame, spread: bool = False) -> str:
    """What the lines are: depth where there is one, seeds, and whether their spread is drawn."""
    depths, seeds = list(dict.fromkeys(rows["blocks"])), seeds_of(rows)
    parts = [f"L = {depths[0]} blocks"] if len(depths) == 1 else []
    parts += [(SPREAD if spread else MEDIAN).format(seeds)] if seeds > 1 else []
    return ", ".join(parts)


def styled_series(rows: pd.DataFrame, order: Sequence[str] = ()) -> Iterator[tuple[str, pd.DataFrame, Style]]:
    """The rows of each series in order of appearance, with its look."""
    for name, found in rows.groupby("recipe", sort=False):
        yield str(name), found, series_style(str(name), order)


def quantile_marks(
    rows: pd.DataFrame, x: str, *, order: Sequence[str] = (), spread: bool = False, column: str = "median"
) -> dict[str, Any]:
    """One line per recipe at the medians, none without any; with `spread` its 5 to 95 % below it. Fields of a chart."""
    known = list(styled_series(rows[rows[column].notna().groupby(rows["recipe"]).transform("any")], order))
    return {
        "ribbons": [Ribbon.of(found, x, *OUTER, style, group=name) for name, found, style in known if spread],
        "lines": [Line.labelled(found, x, column, name, style, group=name) for name, found, style in known],
    }


def series_style(name: str, order: Sequence[str] = ()) -> Style:
    """The look of a series, whose name is its recipe's and, after a comma, what tells it from others of that recipe."""
    recipe = name.partition(", ")[0]
    alike = [one for one in order if one.partition(", ")[0] == recipe]
    return recipe_style(recipe, alike.index(name) if name in alike else 0)
