"""Charts: lines, bars and points on two axes with reference lines, as frozen values.

A `Chart` is made from tables and draws itself in either theme. It also gives its alternative text, and lists the points
that its axes cannot show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, Protocol, TypeVar

from .axes import log_axis, point_ticks, whole_ticks
from .marks import Line, Look, Ribbon, Strip
from .style import HEIGHT, LINK, PALETTES, Palette, Theme, heading, layout, legend_entry, level, plain, strip
from .style import figure as assembled
from .style import upright as turned
from .traces import line_trace, ribbon_trace

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["Chart", "Drawn", "Line", "Look", "Picture", "Ribbon", "Strip"]

# Below the axes: the axis title, then the legend.
AXIS_ROOM, LEGEND_ROW, LEGEND_EDGE = 62, 20, 12
# Characters of a legend's row on a telephone, and of the symbol before each name.
ROW_CHARACTERS, SYMBOL_CHARACTERS = 50, 7
# Pixels above the axes and between them, where a chart does not say otherwise.
HEAD, PLOT = 64, 212
SLANTED_ROOM, ROW_PIXELS = 40, 48


class Picture(Protocol):
    """Anything that can be shown as a figure: call it with a theme for the Plotly figure.

    `alt` is its alternative text, and `undrawn` lists the points that it cannot draw, as text.
    """

    @property
    def alt(self) -> str: ...

    @property
    def undrawn(self) -> list[str]: ...

    def __call__(self, *, theme: Theme = "light") -> go.Figure: ...


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart of lines and ribbons (filled areas between two lines) on two axes.

    `levels` are horizontal and `places` vertical reference lines, each a value and a name, which may be empty. `strips`
    are shaded ranges. `x_range` and `y_range` are the ranges of linear axes, `y_ticks` maps values to tick texts,
    `y_format` is a tick format, and the vertical axis also covers the values `y_spans`. If `rows` gives names, the
    points of name i are at the height -i. `plot` is the height between the axes in pixels.

    `places_are` is set if the horizontal axis is that of residual sites: the text above the values of all lines at one
    site. All such figures of a page then mark the same site.
    """

    title: str
    lines: Sequence[Line]
    x_title: str
    y_title: str
    subject: str = ""
    ribbons: Sequence[Ribbon] = ()
    strips: Sequence[Strip] = ()
    levels: Sequence[tuple[float, str]] = ()
    places: Sequence[tuple[float, str]] = ()
    log_x: bool = False
    log_y: bool = True
    whole_x: bool = False
    names_on_x: bool = False
    slanted_x: bool = False
    ticks_at_points: bool = False
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    y_ticks: Mapping[float, str] | None = None
    y_format: str = ""
    y_spans: Sequence[float] = ()
    rows: Sequence[str] = ()
    legend: bool = True
    plot: int = PLOT
    places_are: str = ""

    def __call__(self, *, theme: Theme = "light") -> go.Figure:
        """Return the Plotly figure."""
        colors = PALETTES[theme]
        chart = layout(heading(self.title, plain(self.subject)), self.x_title, self.y_title, theme=theme)
        self._make_room(chart)
        chart["xaxis"] |= self._x_axis()
        chart["yaxis"] |= self._y_axis()
        if self.places_are:
            chart |= {"meta": {LINK: "x"}, "hovermode": "x unified"}
            chart["xaxis"] |= {"unifiedhovertitle": {"text": self.places_are}}
        chart["shapes"] = self._shapes(colors)
        chart["annotations"] = [_row_name(name, index, colors) for index, name in enumerate(self.rows)]
        traces = [ribbon_trace(ribbon, self.log_y, theme) for ribbon in self.ribbons]
        traces += [line_trace(line, line.drawable(self.log_x, self.log_y), theme) for line in self.lines]
        traces += [legend_entry(plain(one.name), colors.band_edge, "dot", colors.band) for one in self.strips]
        traces += [legend_entry(plain(name), colors.muted, "longdash") for _, name in self.levels if name]
        traces += [legend_entry(plain(name), colors.ink, "dot") for _, name in self.places if name]
        return assembled(traces, chart)

    @property
    def undrawn(self) -> list[str]:
        """The points that the axes cannot show, as text: undefined, infinite, or not positive on a logarithmic axis."""
        return [text for line in self.lines for text in line.undrawn(self.log_x, self.log_y)]

    @property
    def alt(self) -> str:
        """The title, then all lines as text, for readers who cannot see the chart."""
        words = "; ".join(line.told(self.rows) for line in self.lines if line.name and len(line.x))
        under = f" ({self.subject})" if self.subject else ""
        return f"{self.title}{under}. {words or 'no value'}."

    @property
    def names(self) -> list[str]:
        """The entries of the legend."""
        marks = [*(ribbon.name for ribbon in self.ribbons), *(line.name for line in self.lines if line.listed)]
        references = [one.name for one in self.strips] + [name for _, name in (*self.levels, *self.places)]
        return [name for name in (*marks, *references) if name]

    def _make_room(self, chart: dict[str, Any]) -> None:
        """Give the legend as much room below the axes as it needs on a narrow screen; the axes keep their size."""
        told = self.legend and len(self.names) > 1
        axis = AXIS_ROOM + SLANTED_ROOM * self.slanted_x
        foot = axis + (LEGEND_ROW * _legend_rows(self.names) + LEGEND_EDGE if told else 0)
        chart["height"] = HEAD + foot + (ROW_PIXELS * len(self.rows) or self.plot)
        chart["margin"] |= {"t": HEAD, "b": foot, **({"l": 12} if self.rows else {})}
        chart["showlegend"] = told
        # Hung on the container it wraps at the width of the axes; a telephone would cut it off at the figure's width.
        below = {"yref": "container", "y": (foot - axis) / chart["height"]}
        chart["legend"] |= {**below, "xref": "container", "x": 0, "tracegroupgap": 0}

    def _shapes(self, colors: Palette) -> list[dict[str, Any]]:
        found = []
        for one in self.strips:
            parts = [strip(one.low, one.high, colors.band)]
            parts += [level(limit, colors.band_edge, "dot") for limit in (one.low, one.high)]
            found += [turned(part) if one.upright else part for part in parts]
        found += [level(y, colors.muted, "longdash") for y, _ in self.levels]
        return found + [turned(level(x, colors.ink, "dot")) for x, _ in self.places]

    def _seen(self, axis: Literal["x", "y"]) -> list[float]:
        """Return the numbers that an axis must show."""
        found = [value for line in self.lines for value in line.seen(axis)]
        if axis == "y":
            found += [value for ribbon in self.ribbons for values in (ribbon.low, ribbon.high) for value in values]
            found += self.y_spans
        found += [value for value, _ in (self.levels if axis == "y" else self.places)]
        strips = [one for one in self.strips if one.upright == (axis == "x")]
        return [*found, *(limit for one in strips for limit in one.limits(found))]

    def _x_axis(self) -> dict[str, Any]:
        if self.names_on_x:
            return {"type": "category", **({"tickangle": -45} if self.slanted_x else {})}
        if self.x_range is not None:
            return {"range": list(self.x_range)}
        if self.ticks_at_points:
            return point_ticks(self._seen("x"), self.log_x)
        if self.log_x:
            return log_axis(self._seen("x"))
        return whole_ticks(self._seen("x")) if self.whole_x else {"exponentformat": "power"}

    def _y_axis(self) -> dict[str, Any]:
        if self.rows:
            return {"visible": False, "range": [-len(self.rows) + 0.5, 0.8], "fixedrange": True}
        axis = log_axis(self._seen("y")) if self.log_y else {"exponentformat": "power"}
        axis |= {"tickformat": self.y_format} if self.y_format else {}
        axis |= {"range": list(self.y_range)} if self.y_range is not None else {}
        return axis | ({"tickvals": [*self.y_ticks], "ticktext": [*self.y_ticks.values()]} if self.y_ticks else {})


P = ParamSpec("P")
C = TypeVar("C", bound=Picture)


class Drawn(Generic[P, C]):
    """A function that makes a chart, wrapped so that a call also draws it.

    `ratio_figure(table, theme="dark")` returns the Plotly figure, `ratio_figure.chart(table)` the `Chart`.
    """

    def __init__(self, chart: Callable[P, C]) -> None:
        self.chart, self.__doc__ = chart, chart.__doc__

    def __call__(self, *args: Any, theme: Theme = "light", **options: Any) -> go.Figure:
        """Return the Plotly figure in a theme."""
        return self.chart(*args, **options)(theme=theme)


def blank_figure(*, theme: Theme = "light") -> go.Figure:
    """Return empty axes as a Plotly figure, to show while the content is computed."""
    chart = layout("", "", "", theme=theme, height=HEIGHT)
    for axis in ("xaxis", "yaxis"):
        chart[axis] |= {"range": [0, 1], "showticklabels": False}
    return assembled([], chart)


def _legend_rows(names: Sequence[str]) -> int:
    """Return how many rows a legend of these names has on a narrow screen, filled one after another."""
    rows, left = 0, 0
    for name in names:
        wide = len(name) + SYMBOL_CHARACTERS
        rows, left = (rows, left - wide) if wide <= left else (rows + 1, ROW_CHARACTERS - wide)
    return rows


def _row_name(name: str, index: int, colors: Palette) -> dict[str, Any]:
    """Return a name above its row, where a long one needs no margin and no grid line crosses it."""
    return {
        "xref": "paper", "x": 0, "xanchor": "left", "y": -index, "yshift": 19, "text": plain(name), "showarrow": False,
        "align": "left", "font": {"size": 12, "color": colors.muted}, "bgcolor": colors.paper, "borderpad": 1,
    }  # fmt: skip
