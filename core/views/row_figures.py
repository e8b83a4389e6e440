"""Figures with one row a name: bars, growth exponents with their intervals, and what code bases do under a name.

The names of points stand above their rows, so that long ones need no margin and a telephone shows them whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from core.figures.style import PALETTES, Theme, figure, layout, plain, stroke
from core.views.figures import Quantity
from core.views.lines import log_axis, series_stroke

ROW_PIXELS = 48
GROWTH_TITLES = {
    "largest_activation_ratio": "Growth of the largest activation ratio",
    "input_adjoint_ratio": "Growth of the input's adjoint ratio",
}


def bar_figure(
    names: Sequence[str],
    values: Sequence[float],
    *,
    title: str,
    axis: str,
    beside: Sequence[float],
    hover: str,
    written: str = "",
    theme: Theme = "light",
) -> go.Figure:
    """A horizontal bar a name, the first on top. `hover` and `written` are templates that may use `beside`."""
    chart = layout(title, axis, "", theme=theme, height=140 + 24 * len(names))
    chart["yaxis"] |= {"type": "category", "automargin": True, "autorange": "reversed"}
    chart["margin"] = {"l": 8, "r": 16, "t": 48, "b": 56}
    trace: dict[str, Any] = {
        "type": "bar", "orientation": "h", "x": list(values), "y": [plain(name) for name in names],
        "customdata": list(beside), "marker": {"color": stroke(0, theme).color}, "hovertemplate": hover,
    }  # fmt: skip
    if written:
        trace |= {"texttemplate": written, "textposition": "outside", "cliponaxis": False}
        chart["margin"] |= {"r": 72}
    return figure([trace], {**chart, "showlegend": False})


def growth_figure(
    growth: pd.DataFrame, quantity: str, *, order: Sequence[str] = (), theme: Theme = "light"
) -> go.Figure:
    """Fitted exponents of depth with their 95 % intervals, derived ones as crosses, a row a recipe."""
    rows = growth[(growth["quantity"] == quantity) & growth["exponent"].notna()]
    names = list(dict.fromkeys(rows["recipe"]))
    colors = PALETTES[theme]
    chart = _rows_layout(names, GROWTH_TITLES[quantity], "exponent p of ratio ~ L<sup>p</sup>", theme)
    chart["shapes"] = [_upright(0.0, colors.muted)]
    traces = []
    for row in rows[rows["kind"] == "fit"].to_dict("records"):
        name = str(row["recipe"])
        look = series_stroke(name, order, theme)
        value, low, high = (row[key] for key in ("exponent", "lower95", "upper95"))
        error = {
            "type": "data", "symmetric": False, "array": [high - value], "arrayminus": [value - low],
            "color": look.color, "thickness": 2, "width": 6,
        }  # fmt: skip
        point = _points([value], [-names.index(name)], look.color, look.marker, name)
        traces.append(point | {"error_x": error, "showlegend": False})
    derived = rows[rows["kind"] == "derived"]
    places = [-names.index(name) for name in derived["recipe"]]
    cross = _points(derived["exponent"].tolist(), places, colors.ink, "x-thin", "derived law")
    cross["marker"] |= {"line": {"width": 2, "color": colors.ink}}
    return figure([*traces, _points([None], [None], colors.muted, "circle", "fit with 95 % interval"), cross], chart)


def drift_figure(drift: pd.DataFrame, quantity: Quantity = "activation", *, theme: Theme = "light") -> go.Figure:
    """The largest ratio under the law that is declared and under the one that the code has, a row a code base."""
    names = [f"{recipe} in {base}" for recipe, base in zip(drift["recipe"], drift["code_base"], strict=True)]
    colors = PALETTES[theme]
    declared, found = (drift[f"{which}_{quantity}_ratio"].tolist() for which in ("declared", "variant"))
    chart = _rows_layout(names, f"Largest {quantity} ratio", "ratio, median over seeds", theme)
    chart["xaxis"] |= {"type": "log", **log_axis([*declared, *found])}
    places = [-index for index in range(len(names))]
    between: dict[str, list[float | None]] = {"x": [], "y": []}
    for low, high, place in zip(declared, found, places, strict=True):
        between["x"] += [low, high, None]
        between["y"] += [place, place, None]
    bridge = {
        "type": "scatter", "mode": "lines", **between, "line": {"color": colors.muted, "width": 2}, "hoverinfo": "skip",
        "showlegend": False,
    }  # fmt: skip
    dots = [
        _points(declared, places, colors.series[0], "circle-open", "as declared"),
        _points(found, places, colors.series[1], "diamond", "as in the code"),
    ]
    return figure([bridge, *dots], chart)


def _rows_layout(names: Sequence[str], title: str, x_title: str, theme: Theme) -> dict[str, Any]:
    chart = layout(title, x_title, "", theme=theme, height=140 + ROW_PIXELS * max(1, len(names)))
    chart["yaxis"] |= {"visible": False, "range": [-len(names) + 0.5, 0.8], "fixedrange": True}
    chart["margin"] |= {"l": 12, "t": 44, "b": 90}
    chart["legend"] |= {"yref": "container", "y": 0.01, "yanchor": "bottom"}
    chart["annotations"] = [
        {
            "xref": "paper", "x": 0, "xanchor": "left", "y": -index, "yshift": 19, "text": plain(name),
            "showarrow": False, "align": "left", "font": {"size": 12, "color": PALETTES[theme].muted},
            # No line of the grid strikes a name through.
            "bgcolor": PALETTES[theme].paper, "borderpad": 1,
        }
        for index, name in enumerate(names)
    ]  # fmt: skip
    return chart


def _points(
    xs: Sequence[float | None], ys: Sequence[float | None], color: str, symbol: str, name: str
) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "markers", "x": list(xs), "y": list(ys), "name": plain(name),
        "marker": {"symbol": symbol, "size": 10, "color": color, "line": {"width": 2, "color": color}},
        "hovertemplate": "%{x:.6g}",
    }  # fmt: skip


def _upright(x: float, color: str) -> dict[str, Any]:
    line = {"color": color, "dash": "longdash", "width": 1}
    return {
        "type": "line", "xref": "x", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1, "layer": "below",
        "line": line,
    }  # fmt: skip
