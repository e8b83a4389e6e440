"""Figures of the studies beside the observed decoders: histograms, propagation, parameters by role, judged ratios."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from core.figures.axes import log_axis, whole_ticks
from core.figures.style import PALETTES, Theme, figure, layout, legend_entry, level, plain, strip, stroke
from core.health.band import DEFAULT_BAND, Band
from core.views.row_figures import bar_figure

PATTERNS = ("", "/", "x")


def histogram_figure(table: pd.DataFrame, *, theme: Theme = "light") -> go.Figure:
    """Percent of all weights in each bin, one group of bars a population, told apart by colour and hatching."""
    chart = layout("Weights by bin", "weight", "percent of all weights", theme=theme)
    traces = []
    for index, (name, rows) in enumerate(table.groupby("population", sort=False)):
        look = stroke(index, theme)
        hatching: dict[str, Any] = {"shape": PATTERNS[index % 3], "fgcolor": look.color}
        if index:
            hatching |= {"bgcolor": PALETTES[theme].paper, "size": 6, "solidity": 0.4}
        traces.append(
            {
                "type": "bar",
                "x": [f"{low:g} to {high:g}" for low, high in zip(rows["from"], rows["to"], strict=True)],
                "y": rows["percent"].tolist(),
                "customdata": rows["count"].tolist(),
                "name": plain(str(name)),
                "marker": {"color": look.color, "pattern": hatching},
                "hovertemplate": "%{x}<br>%{customdata} weights, %{y:.4g} %",
            }
        )
    chart["xaxis"] |= {"type": "category", "tickangle": -45}
    chart["margin"] |= {"b": 96}
    chart["legend"] |= {"x": 1, "xanchor": "right", "y": 1.02, "yanchor": "bottom"}
    return figure(traces, {**chart, "barmode": "group"})


def propagation_figure(table: pd.DataFrame, *, theme: Theme = "light") -> go.Figure:
    """Expected signal variance over layers, a line a population; zero has no place on the logarithmic axis."""
    chart = layout("Expected propagation, under independence", "layer", "expected variance", theme=theme, log_y=True)
    chart["xaxis"] |= whole_ticks(table["layer"])
    chart["yaxis"] |= log_axis(table["expected_variance"])
    traces = []
    for index, (name, rows) in enumerate(table.groupby("population", sort=False)):
        look = stroke(index, theme)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "x": rows["layer"].tolist(),
                "y": [value if value > 0 else None for value in rows["expected_variance"].tolist()],
                "name": plain(str(name)),
                "line": {"color": look.color, "dash": look.dash, "width": 2},
                "marker": {"symbol": look.marker, "color": look.color, "size": 8},
                "hovertemplate": "layer %{x}<br>%{y:.6g}",
            }
        )
    return figure(traces, chart)


def role_figure(table: pd.DataFrame, *, theme: Theme = "light") -> go.Figure:
    """Coordinates of every name pattern as horizontal bars, in draw order from the top."""
    return bar_figure(
        table["pattern"].tolist(), table["coordinates"].tolist(), title="Parameters by tensor", axis="coordinates",
        beside=table["share"].tolist(), hover="%{y}<br>%{x:,} coordinates, %{customdata:.2%}", theme=theme,
    )  # fmt: skip


def judged_figure(
    table: pd.DataFrame, band: Band = DEFAULT_BAND, *, title: str = "Supplied ratios", theme: Theme = "light"
) -> go.Figure:
    """Ratios as markers over the band, a marker shape a verdict."""
    colors = PALETTES[theme]
    chart = layout(title, "site", "ratio, dimensionless", theme=theme, log_y=True)
    chart["xaxis"] |= whole_ticks(table["site"])
    chart["yaxis"] |= log_axis([*table["ratio"], band.lower, band.upper])
    chart["shapes"] = [
        strip(band.lower, band.upper, colors.band),
        *(level(limit, colors.band_edge, "dot") for limit in (band.lower, band.upper)),
    ]
    traces = []
    for index, verdict in enumerate(("within", "above", "below")):
        rows = table[(table["band"] == verdict) & (table["ratio"] > 0)]
        look = stroke(index, theme)
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": rows["site"].tolist(),
                "y": rows["ratio"].tolist(),
                "name": verdict,
                "marker": {"symbol": look.marker, "color": look.color, "size": 10, "line": {"width": 2}},
                "hovertemplate": "site %{x}<br>%{y:.6g}",
            }
        )
    # A third of a page sets the legend's entries one under the other.
    chart["margin"] |= {"b": 148}
    chart["height"] = 420
    traces.append(legend_entry(f"band {band.lower:g} to {band.upper:g}", colors.band_edge, "dot", colors.band))
    return figure(traces, chart)
