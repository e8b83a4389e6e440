"""Figures of a sweep: quantile ribbons and paired differences against depth, depth by seed, and one depth's spread.

Each reads a table of `core.views.sweep_tables`, whose column `recipe` names the series; `order` gives them their looks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from core.figures.style import PALETTES, Theme, figure, heading, layout, level, plain
from core.health.band import DEFAULT_BAND, Band
from core.views.lines import (
    MEDIAN,
    band_entry,
    band_shapes,
    depth_ticks,
    faded,
    fill,
    line,
    lines_layout,
    near_range,
    series_stroke,
)
from core.views.recipe_figures import DEPTH_AXIS, DEPTH_TITLES

TITLES = {
    **DEPTH_TITLES,
    "smallest_activation_ratio": ("Smallest activation ratio", "min over sites of A<sub>s</sub> / A<sub>0</sub>"),
    "smallest_adjoint_ratio": ("Smallest adjoint ratio", "min over sites of G<sub>s</sub> / G<sub>2L</sub>"),
    "last_activation_ratio": ("Activation ratio of the last site", "A<sub>2L</sub> / A<sub>0</sub>"),
    "input_adjoint_ratio": ("Adjoint ratio of the input", "G<sub>0</sub> / G<sub>2L</sub>"),
}
OUTER, INNER = ("q05", "q95", 0.12), ("q25", "q75", 0.2)
STEP_OPACITY = 0.1
BOTH, HALF = "medians over {} seeds, 25 to 75 and 5 to 95 % filled", "medians over {} seeds, 25 to 75 % filled"
# With more series the wide ribbons lie over everything, and only the middle halves are drawn.
MOST_WIDE = 4
# Blue below 1, red above, and a jump at each limit of the band: (below, within below 1, 1, within above 1, above).
HEAT_COLORS: dict[Theme, tuple[tuple[str, str], tuple[str, str], tuple[str, str], tuple[str, str]]] = {
    "light": (("#053061", "#2E77B5"), ("#9CC8E2", "#F4F6F8"), ("#F4F6F8", "#F6B795"), ("#D9583F", "#67001F")),
    "dark": (("#BFE3FF", "#56B4E9"), ("#1F4E6E", "#20252E"), ("#20252E", "#7A4A12"), ("#F09B2D", "#FFF0C2")),
}
HEAT_ROW_PIXELS, HEAT_EDGE_PIXELS = 30, 190


def ribbon_figure(
    summary: pd.DataFrame,
    band: Band = DEFAULT_BAND,
    quantity: str = "largest_activation_ratio",
    *,
    order: Sequence[str] = (),
    spread: bool = True,
    theme: Theme = "light",
) -> go.Figure:
    """A ratio against depth, both axes logarithmic: medians, the middle half and nine tenths of seeds, and the band."""
    rows = summary[(summary["quantity"] == quantity) & (summary["seeds"] > 0)]
    title, y_title = TITLES[quantity]
    chart = lines_layout(_headed(title, rows, spread), DEPTH_AXIS, y_title, rows["recipe"].nunique() + 1, theme=theme)
    chart["xaxis"] |= depth_ticks(rows["blocks"])
    chart["yaxis"] |= near_range(rows[_levels(rows, spread)].to_numpy(dtype=float).ravel().tolist(), band)
    chart["shapes"] = band_shapes(band, theme)
    return figure([*_ribbons(rows, order, spread, theme, log=True), band_entry(band, theme)], chart)


def difference_figure(
    differences: pd.DataFrame,
    quantity: str = "largest_activation_ratio",
    *,
    order: Sequence[str] = (),
    spread: bool = True,
    theme: Theme = "light",
) -> go.Figure:
    """Recipe minus control of the same seed against depth, on an axis that is linear near 0 and logarithmic beyond."""
    rows = differences[differences["quantity"] == quantity]
    title = _headed(f"{TITLES[quantity][0]}, recipe minus control", rows, spread)
    chart = lines_layout(title, DEPTH_AXIS, "difference, same seed", rows["recipe"].nunique(), theme=theme, log_y=False)
    levels = ["median", "q05", "q25", "q75", "q95"]
    drawn = rows.assign(
        label=[f"L {blocks}: {value:.6g}" for blocks, value in zip(rows["blocks"], rows["median"], strict=True)],
        **{name: symmetric_log(rows[name]) for name in levels},
    )
    chart["xaxis"] |= depth_ticks(rows["blocks"])
    chart["yaxis"] |= _symmetric_ticks(rows[_levels(rows, spread)].to_numpy(dtype=float))
    chart["shapes"] = [level(0.0, PALETTES[theme].muted, "longdash")]
    traces = [
        trace | ({"hovertemplate": "%{customdata}"} if "customdata" in trace else {})
        for trace in _ribbons(drawn, order, spread, theme, log=False)
    ]
    return figure(traces, chart)


def heat_figure(
    heat: pd.DataFrame,
    band: Band = DEFAULT_BAND,
    *,
    theme: Theme = "light",
) -> go.Figure:
    """One ratio of one series by depth and seed; colours break at the band's limits, and a cross marks what leaves it.

    Every cell is a point too, whose `customdata` is seed, depth and series, so that a click tells which cell it was.
    """
    quantity = str(heat["quantity"].iloc[0]) if len(heat) else "largest_activation_ratio"
    name = str(heat["recipe"].iloc[0]) if len(heat) else ""
    depths = sorted({int(blocks) for blocks in heat["blocks"]})
    seeds = list(dict.fromkeys(heat["seed"]))
    height = HEAT_EDGE_PIXELS + HEAT_ROW_PIXELS * max(2, len(depths))
    chart = layout(heading(TITLES[quantity][0], plain(name)), "seed", "depth L, blocks", theme=theme, height=height)
    category = {"type": "category", "showgrid": False}
    chart["xaxis"] |= {**category, "categoryarray": seeds, "nticks": 12, "tickangle": 0, **_edges(len(seeds))}
    chart["yaxis"] |= {**category, "categoryarray": [str(blocks) for blocks in depths], **_edges(len(depths))}
    chart["margin"] |= {"b": 132}
    chart["legend"] |= {"yref": "container", "y": 0.01, "yanchor": "bottom"}
    colors = PALETTES[theme]
    outside = heat[heat["band"].isin(("below", "above"))]
    cells = _points(heat, "square", colors.paper, 0.0) | {"showlegend": False}
    crosses = _points(outside, "x-thin", colors.ink, 1.0) | {"name": "outside the band"}
    crosses["marker"] |= {"line": {"width": 1.2, "color": colors.paper}, "size": 5}
    key = {
        "type": "scatter", "mode": "markers", "x": [None], "y": [None], "name": "outside the band",
        "marker": {"symbol": "x-thin", "size": 8, "line": {"width": 2, "color": colors.ink}}, "hoverinfo": "skip",
    }  # fmt: skip
    return figure([_heat_map(heat, depths, seeds, band, theme), cells, crosses | {"showlegend": False}, key], chart)


def distribution_figure(
    distribution: pd.DataFrame,
    quantity: str = "largest_activation_ratio",
    band: Band = DEFAULT_BAND,
    *,
    order: Sequence[str] = (),
    theme: Theme = "light",
) -> go.Figure:
    """Share of seeds by ratio at one depth, a stepped line a series, with the band as an upright strip."""
    title, axis = TITLES[quantity]
    blocks = f"L = {distribution['blocks'].iloc[0]} blocks" if len(distribution) else ""
    chart = lines_layout(
        heading(title, blocks), axis, "share of seeds", distribution["recipe"].nunique() + 1, theme=theme, log_y=False
    )
    edges = [*distribution["lower"], *distribution["upper"]]
    chart["xaxis"] |= {"type": "log", "exponentformat": "power", **near_range(edges, band)}
    chart["yaxis"] |= {"tickformat": ".0%", "rangemode": "tozero"}
    chart["shapes"] = [_upright(shape) for shape in band_shapes(band, theme)]
    traces = []
    for name, rows in distribution.groupby("recipe", sort=False):
        look = series_stroke(str(name), order, theme)
        steps = _closed(rows)
        trace = line(steps, "centre", "share", str(name), look, log=False)
        trace["line"] |= {"shape": "hvh"}
        # Empty bins keep their step and lose their marker.
        trace["marker"] |= {"size": [7 if share else 0 for share in steps["share"]]}
        traces.append(
            trace | {"hovertemplate": "%{customdata}", "fill": "tozeroy", "fillcolor": faded(look.color, STEP_OPACITY)}
        )
    return figure([*traces, band_entry(band, theme)], chart)


def symmetric_log(values: Any) -> Any:
    """sign(v) log10(1 + |v|): linear near 0, logarithmic far from it, and defined everywhere."""
    numbers = np.asarray(values, dtype=float)
    return np.sign(numbers) * np.log10(1 + np.abs(numbers))


def heat_sentence(heat: pd.DataFrame, quantity: str) -> str:
    """A heat map in words."""
    seen = heat[heat["ratio"].notna()].sort_values("ratio")
    if not len(seen):
        return f"{TITLES[quantity][0]} by depth and seed: no value."
    worst = seen.iloc[-1]
    counts = heat["band"].value_counts()
    return (
        f"{TITLES[quantity][0]} of {worst['recipe']} by depth and seed: {len(seen)} cells, {counts.get('below', 0)} "
        f"below and {counts.get('above', 0)} above the band; the largest is {worst['ratio']:.4g} at seed "
        f"{worst['seed']} and {worst['blocks']} blocks."
    )


def _headed(title: str, rows: pd.DataFrame, spread: bool) -> str:
    seeds = int(rows["seeds"].max()) if len(rows) else 0
    words = (BOTH if "q05" in _levels(rows, spread) else HALF) if spread and seeds > 1 else MEDIAN
    return heading(title, words.format(seeds))


def _levels(rows: pd.DataFrame, spread: bool) -> list[str]:
    """The columns that are drawn."""
    wide = ["q05", "q95"] if rows["recipe"].nunique() <= MOST_WIDE else []
    return ["median", *wide, "q25", "q75"] if spread else ["median"]


def _ribbons(
    rows: pd.DataFrame, order: Sequence[str], spread: bool, theme: Theme, *, log: bool
) -> Iterator[dict[str, Any]]:
    """Fills first, so that every line lies over every fill; at a single depth bars stand for the middle half."""
    groups = [(str(name), found, series_stroke(str(name), order, theme))
              for name, found in rows.groupby("recipe", sort=False)]  # fmt: skip
    alone = rows["blocks"].nunique() < 2
    if spread and not alone:
        for low, high, opacity in (OUTER, INNER) if "q05" in _levels(rows, spread) else (INNER,):
            for name, found, look in groups:
                yield fill(found, "blocks", low, high, look.color, group=name, opacity=opacity, log=log)
    for name, found, look in groups:
        trace = line(found, "blocks", "median", name, look, log=log) | {"legendgroup": plain(name)}
        if spread and alone:
            trace["error_y"] = {
                "type": "data", "symmetric": False, "array": (found["q75"] - found["median"]).tolist(),
                "arrayminus": (found["median"] - found["q25"]).tolist(), "color": look.color,
            }  # fmt: skip
        yield trace


def _heat_map(
    heat: pd.DataFrame, depths: Sequence[int], seeds: Sequence[str], band: Band, theme: Theme
) -> dict[str, Any]:
    places = {seed: index for index, seed in enumerate(seeds)}
    grid: list[list[float | None]] = [[None] * len(seeds) for _ in depths]
    for seed, blocks, ratio in zip(heat["seed"], heat["blocks"], heat["ratio"], strict=True):
        if ratio > 0 and math.isfinite(ratio):
            grid[depths.index(int(blocks))][places[seed]] = math.log10(ratio)
    found = [value for row in grid for value in row if value is not None]
    low, high = math.log10(band.lower), math.log10(band.upper)
    least, most = min([*found, low]), max([*found, high])
    ticks = sorted({low, high, *range(math.ceil(least), math.floor(most) + 1)})
    return {
        "type": "heatmap", "x": list(seeds), "y": [str(blocks) for blocks in depths], "z": grid, "zmin": least,
        "zmax": most, "colorscale": _scale(least, low, high, most, theme), "xgap": 1, "ygap": 1, "hoverinfo": "skip",
        "colorbar": {
            "orientation": "h", "y": -0.2, "yanchor": "top", "yref": "paper", "thickness": 12, "len": 1,
            "outlinewidth": 0, "tickvals": ticks,
            "ticktext": [f"<b>{10**tick:g}</b>" if tick in (low, high) else f"{10**tick:g}" for tick in ticks],
            "title": {"text": "ratio; <b>the band's limits</b> in bold", "side": "bottom", "font": {"size": 12}},
        },
    }  # fmt: skip


def _scale(least: float, low: float, high: float, most: float, theme: Theme) -> list[list[Any]]:
    """Colours between 0 and 1 with a jump at each limit; 1 has the middle colour where the band holds it."""
    below, under, over, above = HEAT_COLORS[theme]
    middle = min(max(0.0, low), high)
    stops = [(least, below[0]), (low, below[1]), (low, under[0]), (middle, under[1]), (middle, over[0]),
             (high, over[1]), (high, above[0]), (most, above[1])]  # fmt: skip
    # Stops of no width are left out at the ends, where a scale must begin at 0 and end at 1.
    if least == low:
        stops = stops[2:]
    if most == high:
        stops = stops[:-2]
    span = most - least or 1.0
    scale = [[(place - least) / span, color] for place, color in stops]
    scale[0][0], scale[-1][0] = 0.0, 1.0
    return scale


def _points(heat: pd.DataFrame, symbol: str, color: str, opacity: float) -> dict[str, Any]:
    labels = [
        [seed, blocks, plain(name), "refused" if math.isnan(ratio) else f"{ratio:.6g}, {verdict}"]
        for seed, blocks, name, ratio, verdict in zip(
            heat["seed"], heat["blocks"].tolist(), heat["recipe"], heat["ratio"], heat["band"], strict=True
        )
    ]
    marker = {"symbol": symbol, "color": color, "opacity": opacity, "size": 12}
    return {
        "type": "scatter", "mode": "markers", "x": heat["seed"].tolist(), "y": [str(b) for b in heat["blocks"]],
        "customdata": labels, "marker": marker, "selected": {"marker": {"opacity": opacity}},
        "unselected": {"marker": {"opacity": opacity}}, "name": "",
        "hovertemplate": "seed %{customdata[0]}, L = %{customdata[1]}<br>%{customdata[3]}<extra></extra>",
    }  # fmt: skip


def _edges(count: int) -> dict[str, Any]:
    """The range of an axis of categories without room beside the first and the last."""
    return {"range": [-0.5, max(count, 1) - 0.5]}


def _closed(rows: pd.DataFrame) -> pd.DataFrame:
    """The steps of a histogram with an empty bin on both sides, so that the line comes down to 0."""
    first, last = rows.iloc[0], rows.iloc[-1]
    below = float(first["lower"]) * float(first["lower"] / first["centre"])
    above = float(last["upper"]) * float(last["upper"] / last["centre"])
    ends = [below or float(first["lower"]), above if math.isfinite(above) else float(last["upper"])]
    labels = [
        f"{lower:.4g} to {upper:.4g}<br>{seeds} seeds"
        for lower, upper, seeds in zip(rows["lower"], rows["upper"], rows["seeds"], strict=True)
    ]
    return pd.DataFrame(
        {"centre": [ends[0], *rows["centre"], ends[1]], "share": [0.0, *rows["share"], 0.0], "label": ["", *labels, ""]}
    )


def _upright(shape: dict[str, Any]) -> dict[str, Any]:
    """A shape over the width as one over the height."""
    turned = {"xref": "x", "yref": "paper", "x0": shape["y0"], "x1": shape["y1"], "y0": 0, "y1": 1}
    return {**shape, **turned}


def _symmetric_ticks(values: Any) -> dict[str, Any]:
    """At most nine ticks, at 0 and at powers of ten on both sides, and the range around the values and 0."""
    places = symmetric_log(values[np.isfinite(values)])
    low, high = float(min([0.0, *places])), float(max([0.0, *places]))
    room = max(0.1, (high - low) / 16)
    farthest = math.ceil(max(high, -low))
    # Beside thousands, 1 would stand on top of 0.
    powers = range(0 if farthest < 3 else 1, max(1, farthest) + 1, max(1, math.ceil(farthest / 4)))
    marks = [0.0, *(sign * 10.0**power for power in powers for sign in (-1, 1))]
    return {
        "tickvals": [float(symmetric_log(mark)) for mark in marks], "ticktext": [f"{mark:g}" for mark in marks],
        "range": [low - room, high + room],
    }  # fmt: skip
