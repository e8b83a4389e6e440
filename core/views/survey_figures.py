"""Figures of the survey: families a state and a kind, and how a depth rule shows between two depths."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from core.figures.style import PALETTES, Theme, figure, layout, legend_below, plain, stroke
from core.views.row_figures import bar_figure

COUNT_TITLES = {"state": "What became of the families", "kind": "Worst finding on the initialization"}
# What the ratio of the deeper model is to that of the smaller one, where writers follow nothing and where a rule.
LINES = {"no depth rule": (1.0, "longdash"), "falls as 1/√L": (2**-0.5, "dot")}


def count_figure(table: pd.DataFrame, name: str, *, theme: Theme = "light") -> go.Figure:
    """Families a row of a table of counts, as bars; `name` is the column that names them, state or kind."""
    families = table["families"].tolist()
    return bar_figure(
        table[name].tolist(), families, title=COUNT_TITLES[name], axis="families", beside=table["share"].tolist(),
        hover="%{y}<br>%{x} families, %{customdata:.1%}", written="%{x}", theme=theme,
    )  # fmt: skip


def depth_ratio_figure(table: pd.DataFrame, *, theme: Theme = "light") -> go.Figure:
    """Writer to reader standard deviation of every family, deeper model against smaller one; `table` has its rows.

    A family whose writers know no depth lies on the line of equal ratios. One that follows (2L)^(-1/2) lies below it,
    by 1/sqrt(2) where the depth doubles.
    """
    rows = table.dropna(subset=["ratio_shallow", "ratio_deep"])
    chart = layout("Writer over reader standard deviation", "smaller model", "deeper model", theme=theme, height=440)
    end = 1.05 * max([*rows["ratio_shallow"], *rows["ratio_deep"]], default=1.0)
    for axis in ("xaxis", "yaxis"):
        chart[axis] |= {"range": [0, end]}
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter", "mode": "lines", "x": [0, end], "y": [0, end * slope], "name": name, "hoverinfo": "skip",
            "line": {"color": PALETTES[theme].muted, "dash": dash, "width": 1.5},
        }
        for name, (slope, dash) in LINES.items()
    ]  # fmt: skip
    for index, (kind, found) in enumerate(rows.groupby("kind", sort=True)):
        look = stroke(index, theme)
        traces.append(
            {
                "type": "scatter", "mode": "markers", "x": found["ratio_shallow"].tolist(),
                "y": found["ratio_deep"].tolist(), "name": plain(str(kind)),
                "text": [plain(name) for name in found["family"]], "customdata": found["family"].tolist(),
                "marker": {"symbol": look.marker, "color": look.color, "size": 9, "line": {"width": 1.5}},
                "hovertemplate": "%{text}<br>%{x:.4g}, deeper %{y:.4g}",
            }
        )  # fmt: skip
    legend_below(chart, traces)
    return figure(traces, chart)
