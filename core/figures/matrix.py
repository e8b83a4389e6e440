"""Matrices as heat maps with their numbers in the cells, so that colour is never the only information."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .style import HEIGHT, PALETTES, Theme, heading, layout, plain
from .style import figure as assembled

if TYPE_CHECKING:
    import plotly.graph_objects as go

# Blue for negative and vermilion for positive numbers, with the paper between; the ink can be read on all of them.
ENDS: Mapping[Theme, tuple[str, str]] = {"light": ("#8CBFE0", "#F2B48A"), "dark": ("#0B5A8A", "#97460B")}
# Cells with room for a number.
WRITTEN = 8
TOLD = 64


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """A matrix `values` `[rows, columns]` as a heat map; `texts`, if given, replace the numbers in the cells.

    If `diverging` is True, colours are centred on 0; else they run from the smallest to the largest value. Numbers are
    written if no side has more than eight cells.
    """

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float]]
    x_title: str
    y_title: str
    bar_title: str
    subject: str = ""
    texts: Sequence[Sequence[str]] | None = None
    diverging: bool = True

    def __call__(self, *, theme: Theme = "light") -> go.Figure:
        """Return the Plotly figure."""
        chart = layout(heading(self.title, plain(self.subject)), self.x_title, self.y_title, theme=theme, height=HEIGHT)
        chart["margin"] |= {"b": 64, "l": 92, "r": 12 if self._written else 92}
        chart["xaxis"] |= {"type": "category", "showgrid": False, "nticks": 16}
        chart["yaxis"] |= {"type": "category", "showgrid": False, "autorange": "reversed", "nticks": 16}
        return assembled([self._trace(theme)], chart)

    def _trace(self, theme: Theme) -> dict[str, Any]:
        colors, (negative, positive) = PALETTES[theme], ENDS[theme]
        scale: Mapping[str, Any] = {"colorscale": [[0, colors.paper], [1, positive]]}
        if self.diverging:
            reach = float(np.nanmax(np.abs(np.asarray(self.values, dtype=float)))) or 1.0
            ends = [[0, negative], [0.5, colors.paper], [1, positive]]
            scale = {"colorscale": ends, "zmin": -reach, "zmax": reach}
        return {
            "type": "heatmap", "x": [plain(name) for name in self.columns], "y": [plain(name) for name in self.rows],
            "z": [[float(value) for value in row] for row in self.values], "text": self._cells, "xgap": 1, "ygap": 1,
            "textfont": {"color": colors.ink, "size": 11}, "texttemplate": "%{text}" if self._written else "",
            "showscale": not self._written, "hovertemplate": "%{y}, %{x}: %{text}<extra></extra>",
            "colorbar": {"title": {"text": self.bar_title, "side": "right"}, "thickness": 12, "outlinewidth": 0},
            **scale,
        }  # fmt: skip

    @property
    def _written(self) -> bool:
        return self.texts is not None or max(len(self.rows), len(self.columns)) <= WRITTEN

    @property
    def _cells(self) -> Sequence[Sequence[str]]:
        return self.texts or [[f"{value:.3g}" for value in row] for row in self.values]

    @property
    def undrawn(self) -> list[str]:
        """The cells whose number is not finite, as text."""
        return [
            f"{self.rows[row]}, {self.columns[column]}"
            for row, column in np.argwhere(~np.isfinite(np.asarray(self.values, dtype=float)))
        ]

    @property
    def alt(self) -> str:
        """The title and, for up to 64 cells, all cells as text; for more, the smallest and the largest number."""
        under = f" ({self.subject})" if self.subject else ""
        if len(self.rows) * len(self.columns) > TOLD:
            values = np.asarray(self.values, dtype=float)
            extremes = f"least {np.nanmin(values):.3g}, greatest {np.nanmax(values):.3g}"
            return f"{self.title}{under}. {len(self.rows)} rows and {len(self.columns)} columns, {extremes}."
        lines = zip(self.rows, self._cells, strict=True)
        told = "; ".join(f"row {name}: {', '.join(row)}" for name, row in lines).replace("<br>", " ")
        return f"{self.title}{under}. Columns {', '.join(self.columns)}; {told}."


def grid(table: pd.DataFrame, row: str, column: str, value: str) -> tuple[list[Any], list[Any], list[list[Any]]]:
    """Return the names of rows, the names of columns, and the cells as a list of rows, from a long table.

    The names are the values of the columns `row` and `column` in order of appearance, the cells those of `value`.
    """
    rows, columns = list(dict.fromkeys(table[row])), list(dict.fromkeys(table[column]))
    cells = dict(zip(zip(table[row], table[column], strict=True), table[value], strict=True))
    return rows, columns, [[cells[one, other] for other in columns] for one in rows]
