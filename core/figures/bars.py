"""Figures of horizontal bars, the first name at the top."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from .chart import Drawn
from .style import Theme, layout, plain, stroke
from .style import figure as assembled

BAR_PIXELS = 24
COUNT_TITLES = {"state": "What became of the families", "kind": "Worst finding on the initialization"}


@dataclass(frozen=True, kw_only=True)
class Bars:
    """A figure with one horizontal bar per name.

    `shares` are fractions of the total, which the text templates `hover` and `written` (beside a bar) may show as
    `customdata`.
    """

    title: str
    axis: str
    names: Sequence[str]
    values: Sequence[float]
    shares: Sequence[float]
    hover: str
    written: str = ""

    def __call__(self, *, theme: Theme = "light") -> go.Figure:
        """Return the Plotly figure."""
        chart = layout(self.title, self.axis, "", theme=theme, height=140 + BAR_PIXELS * len(self.names))
        chart["yaxis"] |= {"type": "category", "automargin": True, "autorange": "reversed"}
        chart["margin"] = {"l": 8, "r": 72 if self.written else 16, "t": 48, "b": 56}
        trace: dict[str, Any] = {
            "type": "bar", "orientation": "h", "x": list(self.values), "y": [plain(name) for name in self.names],
            "customdata": list(self.shares), "marker": {"color": stroke(0, theme).color}, "hovertemplate": self.hover,
        }  # fmt: skip
        if self.written:
            trace |= {"texttemplate": self.written, "textposition": "outside", "cliponaxis": False}
        return assembled([trace], {**chart, "showlegend": False})

    @property
    def alt(self) -> str:
        """The title and all bars as text, for readers who cannot see the figure."""
        bars = zip(self.names, self.values, strict=True)
        return f"{self.title}. {'; '.join(f'{name}: {value:,}' for name, value in bars)}."

    @property
    def undrawn(self) -> list[str]:
        """An empty list, since every bar can be drawn."""
        return []


@Drawn
def role_figure(table: pd.DataFrame) -> Bars:
    """Plot the number of parameters of every name pattern, one bar each, in the order in which they are drawn."""
    return Bars(
        title="Parameters by tensor", axis="coordinates", names=table["pattern"].tolist(),
        values=table["coordinates"].tolist(), shares=table["share"].tolist(),
        hover="%{y}<br>%{x:,} coordinates, %{customdata:.2%}",
    )  # fmt: skip


@Drawn
def count_figure(table: pd.DataFrame, name: str) -> Bars:
    """Plot the number of model families per row of a table of counts, one bar each.

    `name` is the column that names the rows, `state` or `kind`.
    """
    return Bars(
        title=COUNT_TITLES[name], axis="families", names=table[name].tolist(), values=table["families"].tolist(),
        shares=table["share"].tolist(), hover="%{y}<br>%{x} families, %{customdata:.1%}", written="%{x}",
    )  # fmt: skip
