"""Figures of smaller pages: histograms of weights, expected propagation of variance, and classified ratios."""

from __future__ import annotations

import pandas as pd

from ..health.band import DEFAULT_BAND, Band
from .chart import Chart, Drawn, Line, Strip


@Drawn
def histogram_figure(table: pd.DataFrame) -> Chart:
    """Plot the percentage of all weights in each bin, one group of bars per set of weights."""
    lines = [
        Line(
            name=str(name), x=[f"{low:g} to {high:g}" for low, high in zip(rows["from"], rows["to"], strict=True)],
            y=rows["percent"].tolist(), index=index, look="bars", labels=rows["count"].tolist(),
            hover="%{x}<br>%{customdata} weights, %{y:.4g} %",
        )
        for index, (name, rows) in enumerate(table.groupby("population", sort=False))
    ]  # fmt: skip
    return Chart(
        title="Weights by bin", x_title="weight", y_title="percent of all weights", lines=lines, log_y=False,
        names_on_x=True, slanted_x=True,
    )  # fmt: skip


@Drawn
def propagation_figure(table: pd.DataFrame) -> Chart:
    """Plot the expected variance of a signal over layers, one line per set of weights, on a logarithmic axis."""
    lines = Line.each(table, "population", "layer", "expected_variance", "series")
    title = "Expected propagation, under independence"
    return Chart(title=title, x_title="layer", y_title="expected variance", lines=lines, whole_x=True)


@Drawn
def judged_figure(table: pd.DataFrame, band: Band = DEFAULT_BAND, *, title: str = "Supplied ratios") -> Chart:
    """Plot ratios as points over the band, with one marker for each class: within, above or below the band."""
    lines = [
        Line.of(table[table["band"] == verdict], "site", "ratio", verdict, index, "points")
        for index, verdict in enumerate(("within", "above", "below"))
        if (table["band"] == verdict).any()
    ]
    return Chart(
        title=title, x_title="site", y_title="ratio, dimensionless", lines=lines, strips=[Strip.of(band)], whole_x=True
    )
