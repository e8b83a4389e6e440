"""The line charts of the labs: what is measured has a colour, a marker and a solid line, what is predicted a dash.

A `Chart` is made from an experiment's tables and draws itself in either theme. What an axis cannot show is listed, and
the same lines give the alternative text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from core.decoder.splitmix64 import FloatArray
from core.figures.axes import log_axis, log_range, whole_ticks
from core.figures.style import (
    DASHES,
    MARKED_POINTS,
    PALETTES,
    Palette,
    Theme,
    heading,
    layout,
    legend_entry,
    level,
    plain,
    stroke,
)
from core.figures.style import figure as assembled

if TYPE_CHECKING:
    import plotly.graph_objects as go

Look = Literal["measured", "predicted", "points", "bars"]

PATTERNS = ("", "/", ".", "x", "\\", "-")
# A few values are all told in words, more by their ends and extremes.
TOLD_IN_FULL = 8
# Below the axes: the axis title, then the legend, which has room for two short names a row on a telephone.
AXIS_ROOM, LEGEND_ROW, SHORT_NAME = 62, 20, 14


class Picture(Protocol):
    """A figure for a theme, what it says in words, and the points that it cannot draw."""

    @property
    def alt(self) -> str: ...

    @property
    def undrawn(self) -> list[str]: ...

    def __call__(self, *, theme: Theme = "light") -> go.Figure: ...


@dataclass(frozen=True, kw_only=True)
class Line:
    """One series: `x` numbers or names, `y` numbers, `index` its place among the looks."""

    name: str
    x: Sequence[Any]
    y: Sequence[float]
    index: int = 0
    look: Look = "measured"

    @classmethod
    def of(cls, table: pd.DataFrame, x: str, y: str, name: str, index: int = 0, look: Look = "measured") -> Line:
        """The line of two columns, in the order of the rows."""
        return cls(name=name, x=table[x].tolist(), y=table[y].tolist(), index=index, look=look)

    def drawable(self, log_x: bool, log_y: bool) -> npt.NDArray[np.bool_]:
        """Which points have a place on the axes."""
        shown = _has_place(np.asarray(self.y, dtype=float), log_y)
        return shown & _has_place(np.asarray(self.x, dtype=float), True) if log_x else shown

    def told(self) -> str:
        """The series in words."""
        values = np.asarray(self.y, dtype=float)
        if len(values) <= TOLD_IN_FULL:
            cells = ", ".join(f"{value:.4g} at {_place(x)}" for x, value in zip(self.x, values, strict=True))
            return f"{self.name}: {cells or 'no value'}"
        finite = values[np.isfinite(values)]
        extremes = f", least {finite.min():.4g}, greatest {finite.max():.4g}" if len(finite) else ""
        return (
            f"{self.name}: from {values[0]:.4g} at {_place(self.x[0])} to {values[-1]:.4g} at "
            f"{_place(self.x[-1])}{extremes}"
        )


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart of lines; `levels` and `places` are named horizontal and vertical references.

    `y_range`, where given, is that of a linear vertical axis.
    """

    title: str
    lines: Sequence[Line]
    x_title: str
    y_title: str
    subject: str = ""
    log_x: bool = False
    log_y: bool = True
    whole_x: bool = False
    names_on_x: bool = False
    ticks_at_points: bool = False
    y_range: tuple[float, float] | None = None
    legend: bool = True
    levels: Sequence[tuple[float, str]] = ()
    places: Sequence[tuple[float, str]] = ()

    def __call__(self, *, theme: Theme = "light") -> go.Figure:
        """The figure."""
        colors = PALETTES[theme]
        chart = layout(heading(self.title, plain(self.subject)), self.x_title, self.y_title, theme=theme)
        self._make_room(chart)
        chart["yaxis"] |= log_axis(self._all("y")) if self.log_y else {"exponentformat": "power"}
        if self.y_range is not None:
            chart["yaxis"]["range"] = list(self.y_range)
        chart["xaxis"] |= self._x_axis()
        chart["shapes"] = [level(y, colors.muted, "longdash") for y, _ in self.levels]
        chart["shapes"] += [_upright(x, colors) for x, _ in self.places]
        traces = [_trace(line, line.drawable(self.log_x, self.log_y), colors, theme) for line in self.lines]
        traces += [legend_entry(plain(name), colors.muted, "longdash") for _, name in self.levels]
        traces += [legend_entry(plain(name), colors.ink, "dot") for _, name in self.places]
        return assembled(traces, chart)

    def _make_room(self, chart: dict[str, Any]) -> None:
        """Give the legend as much room below the axes as it needs on a narrow screen; the axes keep their size."""
        names = [*(line.name for line in self.lines), *(name for _, name in (*self.levels, *self.places))]
        a_row = 2 if max(map(len, names), default=0) <= SHORT_NAME else 1
        told = self.legend and len(names) > 1
        foot = AXIS_ROOM + (LEGEND_ROW * math.ceil(len(names) / a_row) if told else 0)
        chart["height"] += foot - chart["margin"]["b"]
        chart["margin"]["b"] = foot
        chart["showlegend"] = told
        # Hung on the container it wraps at the width of the axes; a telephone would cut it off at the figure's width.
        chart["legend"] |= {"yref": "container", "y": (foot - AXIS_ROOM) / chart["height"]}

    @property
    def undrawn(self) -> list[str]:
        """The points that the axes cannot show, each as text: missing, infinite, and on a log axis not positive."""
        return [
            f"{line.name} at {_place(line.x[row])}, {float(line.y[row]):g}"
            for line in self.lines
            for row in np.flatnonzero(~line.drawable(self.log_x, self.log_y)).tolist()
        ]

    @property
    def alt(self) -> str:
        """The alternative text: the title, then every line in words."""
        words = "; ".join(line.told() for line in self.lines)
        under = f" ({self.subject})" if self.subject else ""
        return f"{self.title}{under}. {words}."

    def _all(self, axis: Literal["x", "y"]) -> list[float]:
        marks = self.levels if axis == "y" else self.places
        return [*(value for line in self.lines for value in getattr(line, axis)), *(value for value, _ in marks)]

    def _x_axis(self) -> dict[str, Any]:
        if self.names_on_x:
            return {"type": "category"}
        if self.ticks_at_points:
            found = sorted({float(value) for value in self._all("x")})
            named = {"tickmode": "array", "tickvals": found, "ticktext": [f"{value:g}" for value in found]}
            return {"type": "log", **log_range(found), **named} if self.log_x else named
        if self.log_x:
            return log_axis(self._all("x"))
        whole = pd.Series([int(value) for value in self._all("x")]) if self.whole_x else None
        return {"exponentformat": "power"} if whole is None else whole_ticks(whole)


def _has_place(values: FloatArray, log: bool) -> npt.NDArray[np.bool_]:
    finite: npt.NDArray[np.bool_] = np.isfinite(values)
    return finite & (values > 0) if log else finite


def _trace(line: Line, shown: npt.NDArray[np.bool_], colors: Palette, theme: Theme) -> dict[str, Any]:
    y = [value if kept else None for value, kept in zip(line.y, shown, strict=True)]
    x = [plain(value) if isinstance(value, str) else value for value in line.x]
    trace: dict[str, Any] = {"x": x, "y": y, "name": plain(line.name), "hovertemplate": "%{x}: %{y:.6g}"}
    look = stroke(line.index, theme)
    if line.look == "bars":
        shape = PATTERNS[line.index % len(PATTERNS)]
        pattern = {"shape": shape, "fgcolor": colors.paper, "bgcolor": look.color, "solidity": 0.2} if shape else {}
        return trace | {"type": "bar", "marker": {"color": look.color, "pattern": pattern}}
    trace |= {"type": "scatter", "connectgaps": False}
    if line.look == "predicted":
        dash = DASHES[1 + line.index % (len(DASHES) - 1)]
        return trace | {"mode": "lines", "line": {"color": colors.ink, "dash": dash, "width": 1.8}}
    marker = {"symbol": look.marker, "size": 7, "color": look.color, "maxdisplayed": MARKED_POINTS}
    if line.look == "points":
        return trace | {"mode": "markers", "marker": marker | {"size": 10, "maxdisplayed": 0, "line": {"width": 2}}}
    solid = {"color": look.color, "dash": "solid", "width": 2}
    return trace | {"mode": "lines+markers", "line": solid, "marker": marker}


def _upright(x: float, colors: Palette) -> dict[str, Any]:
    """A vertical line over the whole height, as a shape."""
    line = {"color": colors.ink, "dash": "dot", "width": 1.2}
    return {"type": "line", "xref": "x", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1, "line": line}


def _place(x: Any) -> str:
    return x if isinstance(x, str) else f"{x:g}"
