"""What figures of several series share: quantile lines with their fills, layouts with room for the legend, axes, words.

A series has its recipe's look; `order`, all series of a page, tells those of one recipe apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from core.figures.axes import log_range, whole_ticks
from core.figures.style import (
    MARKED_POINTS,
    PALETTES,
    Stroke,
    Theme,
    heading,
    layout,
    legend_entry,
    level,
    plain,
    recipe_stroke,
    strip,
)
from core.health.band import Band

SPREAD = "medians over {} seeds, 5 to 95 % filled"
MEDIAN = "medians over {} seeds"
FILL_OPACITY = 0.13
FEW_DECADES = 2
# Below the axes: the axis title, then the legend, which has room for two entries a row on a telephone.
AXIS_PIXELS, LEGEND_ROW_PIXELS, ENTRIES_A_ROW = 68, 20, 2
PLOT_PIXELS = 336


def lines_layout(
    title: str, x_title: str, y_title: str, entries: int, *, theme: Theme = "light", log_y: bool = True
) -> dict[str, Any]:
    """The common layout with the legend at the foot and as much room as `entries` need on a narrow screen."""
    chart = layout(title, x_title, y_title, theme=theme, log_y=log_y)
    foot = AXIS_PIXELS + LEGEND_ROW_PIXELS * math.ceil(entries / ENTRIES_A_ROW)
    chart["height"] = PLOT_PIXELS + foot
    chart["margin"] |= {"b": foot}
    chart["legend"] |= {"yref": "container", "y": (foot - AXIS_PIXELS) / chart["height"], "tracegroupgap": 0}
    return chart


def titled(title: str, rows: pd.DataFrame, spread: bool = False) -> str:
    """A title over what the lines are: depth where there is one, seeds, and whether their spread is drawn."""
    depths = list(dict.fromkeys(rows["blocks"]))
    parts = [f"L = {depths[0]} blocks"] if len(depths) == 1 else []
    seeds = int(rows["seeds"].max()) if "seeds" in rows and len(rows) else 0
    if seeds > 1:
        parts.append((SPREAD if spread else MEDIAN).format(seeds))
    return heading(title, ", ".join(parts))


def quantile_lines(
    rows: pd.DataFrame,
    x: str,
    *,
    order: Sequence[str] = (),
    spread: bool = False,
    log: bool = True,
    theme: Theme = "light",
) -> list[dict[str, Any]]:
    """One line a recipe at the medians, none without any; with `spread` its 5 to 95 % below it."""
    fills, lines = [], []
    for name, found in rows[rows["median"].notna()].groupby("recipe", sort=False):
        look = series_stroke(str(name), order, theme)
        if spread:
            fills.append(fill(found, x, "q05", "q95", look.color, group=str(name), log=log))
        lines.append(line(found, x, "median", str(name), look, log=log) | {"legendgroup": plain(str(name))})
    return [*fills, *lines]


def series_stroke(name: str, order: Sequence[str] = (), theme: Theme = "light") -> Stroke:
    """The look of a series, whose name is its recipe's and, after a comma, what tells it from others of that recipe."""
    recipe = name.partition(", ")[0]
    alike = [one for one in order if one.partition(", ")[0] == recipe]
    return recipe_stroke(recipe, alike.index(name) if name in alike else 0, theme)


def line(rows: pd.DataFrame, x: str, y: str, name: str, look: Stroke, *, log: bool) -> dict[str, Any]:
    """One series; what the axis cannot show is left out."""
    values = rows[y].to_numpy(dtype=float)
    drawn = np.isfinite(values) & ((values > 0) | (not log))
    labels = rows["label"] if "label" in rows else rows[x].map(lambda place: f"{x} {place}")
    return {
        "type": "scatter",
        "x": rows[x].tolist(),
        "y": [value if shown else None for value, shown in zip(values.tolist(), drawn, strict=True)],
        "customdata": [plain(label) for label in labels],
        "name": plain(name),
        "mode": "lines+markers",
        "line": {"color": look.color, "dash": look.dash, "width": 2},
        "marker": {"symbol": look.marker, "size": 7, "color": look.color, "maxdisplayed": MARKED_POINTS},
        "hovertemplate": "%{customdata}<br>%{y:.6g}",
    }


def fill(
    rows: pd.DataFrame,
    x: str,
    low: str,
    high: str,
    color: str,
    *,
    group: str = "",
    name: str = "",
    opacity: float = FILL_OPACITY,
    log: bool = False,
) -> dict[str, Any]:
    """The strip between two columns; without a name it has no entry in the legend."""
    values = rows[[low, high]].to_numpy(dtype=float)
    kept = rows[np.isfinite(values).all(axis=1) & ((values > 0).all(axis=1) | (not log))]
    places, lower, upper = (kept[key].tolist() for key in (x, low, high))
    return {
        "type": "scatter", "mode": "lines", "x": [*places, *reversed(places)], "y": [*upper, *reversed(lower)],
        "fill": "toself", "fillcolor": faded(color, opacity), "line": {"width": 0, "color": color}, "hoverinfo": "skip",
        "name": plain(name), "showlegend": bool(name), "legendgroup": plain(group or name),
    }  # fmt: skip


def faded(color: str, opacity: float) -> str:
    """A `#RRGGBB` colour with an opacity."""
    red, green, blue = (int(color[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, {opacity})"


def extent(rows: pd.DataFrame, spread: bool) -> Iterator[float]:
    """Every value that quantile lines draw."""
    for column in ("median", "q05", "q95") if spread else ("median",):
        yield from rows[column]


def band_shapes(band: Band, theme: Theme) -> list[dict[str, Any]]:
    """The band as a strip with its two limits."""
    colors = PALETTES[theme]
    return [
        strip(band.lower, band.upper, colors.band),
        *(level(limit, colors.band_edge, "dot") for limit in (band.lower, band.upper)),
    ]


def band_entry(band: Band, theme: Theme) -> dict[str, Any]:
    """The band's place in the legend."""
    colors = PALETTES[theme]
    return legend_entry(f"band {band.lower:g} to {band.upper:g}", colors.band_edge, "dot", colors.band)


def log_axis(values: Iterable[float]) -> dict[str, Any]:
    """A logarithmic axis around the positive values, with ticks inside the decades where it spans few of them."""
    axis = log_range(values)
    if axis and axis["range"][1] - axis["range"][0] < FEW_DECADES:
        axis["dtick"] = "D2"
    return axis


def near_range(values: Iterable[float], band: Band) -> dict[str, Any]:
    """The logarithmic range around the values; a limit of the band stands in it where it is within a decade."""
    seen = [value for value in values if 0 < value < math.inf]
    if not seen:
        return {}
    near = [limit for limit in (band.lower, band.upper) if min(seen) / 10 <= limit <= max(seen) * 10]
    return log_axis([*seen, *near])


def depth_ticks(depths: pd.Series[int]) -> dict[str, Any]:
    """A logarithmic axis with a tick at every depth that was observed."""
    found = sorted({int(depth) for depth in depths})
    if not found:
        return {}
    low, high = math.log10(found[0]), math.log10(found[-1])
    room = max(0.06, (high - low) / 24)
    return {"type": "log", "tickvals": found, "ticktext": [str(d) for d in found], "range": [low - room, high + room]}


def place_axis(rows: pd.DataFrame, x: str) -> dict[str, Any]:
    """The horizontal axis of sites or blocks, or of depths."""
    return depth_ticks(rows[x]) if x == "blocks" else whole_ticks(rows[x])


def hidden_points(rows: pd.DataFrame, column: str = "median") -> list[str]:
    """Per recipe, how many points a logarithmic axis cannot show, and why."""
    found = []
    for name, part in rows.groupby("recipe", sort=False):
        zero, missing = int((part[column] <= 0).sum()), int(part[column].isna().sum())
        parts = [f"{zero} of {len(part)} points are 0"] if zero else []
        parts += [f"{missing} of {len(part)} undefined"] if missing else []
        found += [f"{name}, {' and '.join(parts)}"] if parts else []
    return found


def described(rows: pd.DataFrame, x: str, what: str, column: str = "median") -> str:
    """A figure of lines in words: every recipe's first and last value."""
    parts = []
    for name, part in rows.groupby("recipe", sort=False):
        seen = part[part[column].notna()]
        if len(seen):
            first, last = seen.iloc[0], seen.iloc[-1]
            parts.append(f"{name} from {first[column]:.4g} at {x} {first[x]} to {last[column]:.4g} at {last[x]}")
    return f"{what}: {'; '.join(parts) or 'no value'}."
