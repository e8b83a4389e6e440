"""What a chart consists of: lines with points, ribbons (areas between two lines) and strips across the whole chart.

These are frozen values that depend on no theme or library; `core.figures.traces` turns them into Plotly traces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..decoder.splitmix64 import FloatArray
from ..health.band import Band
from .style import Style, place_style

# `series` is a line with markers in its style's own dash, `thin` the same without markers, `steps` one with a level
# per point, filled to 0.
Look = Literal["measured", "predicted", "points", "bars", "series", "thin", "steps"]
# A few values are all told in words, more by their ends and extremes.
TOLD_IN_FULL = 8
FILL_OPACITY = 0.13


@dataclass(frozen=True, kw_only=True)
class Line:
    """One series of a chart: `x` are numbers or names, `y` numbers.

    Without a `style`, `index` is its place in the default styles. The hover text is the template `hover`, with `labels`
    or `x`. `keys` identify the points when they are clicked. `error` is how far error bars reach below and above each
    point. If `y` is a transform of other numbers, `values` are these, for the alternative text. A line without a name
    is not in the legend or the text; a line without points is only an entry of the legend.
    """

    name: str
    x: Sequence[Any]
    y: Sequence[float | None]
    index: int = 0
    look: Look = "measured"
    style: Style | None = None
    labels: Sequence[Any] = ()
    keys: Sequence[Any] = ()
    hover: str = ""
    group: str = ""
    rank: int = 0
    width: float = 2
    error: tuple[Sequence[float], Sequence[float]] | None = None
    error_on: Literal["x", "y"] = "y"
    in_legend: bool = True
    values: Sequence[float] | None = None

    @classmethod
    def of(cls, table: pd.DataFrame, x: str, y: str, name: str, index: int = 0, look: Look = "measured") -> Line:
        """Return the line with the columns `x` and `y` of a table, in the order of the rows."""
        return cls(name=name, x=table[x].tolist(), y=table[y].tolist(), index=index, look=look)

    @classmethod
    def each(cls, table: pd.DataFrame, key: str, x: str, y: str, look: Look = "measured") -> list[Line]:
        """Return a list of lines with the columns `x` and `y` of a table, one per value of the column `key`."""
        groups = enumerate(table.groupby(key, sort=False))
        return [cls.of(rows, x, y, str(name), index, look) for index, (name, rows) in groups]

    @classmethod
    def labelled(
        cls, table: pd.DataFrame, x: str, y: str, name: str, style: Style, look: Look = "series", **options: Any
    ) -> Line:
        """Return the line with the columns `x` and `y` of a table in a given style.

        Its hover text is the column `label` if there is one, else the name and value of `x`. `options` are further
        fields.
        """
        labels = table["label"] if "label" in table else table[x].map(lambda place: f"{x} {place}")
        line = cls.of(table, x, y, name, look=look)
        return replace(line, style=style, labels=labels.tolist(), **options)

    @property
    def drawn_as(self) -> Style:
        """The line's style, by default that of its `index`."""
        return self.style or place_style(self.index)

    @property
    def listed(self) -> bool:
        """True if the line is in the legend."""
        return bool(self.name) and self.in_legend

    def drawable(self, log_x: bool, log_y: bool) -> npt.NDArray[np.bool_]:
        """Return a boolean mask of the points that axes of these kinds, logarithmic or linear, can show."""
        shown = has_place(np.asarray(self.y, dtype=float), log_y)
        return shown & has_place(np.asarray(self.x, dtype=float), True) if log_x else shown

    def seen(self, axis: Literal["x", "y"]) -> list[float]:
        """Return the numbers that the axis `x` or `y` must cover, including the ends of error bars."""
        values = [value for value in getattr(self, axis) if value is not None]
        if self.error is None or self.error_on != axis:
            return values
        below, above = self.error
        return [
            end for value, low, high in zip(values, below, above, strict=True) for end in (value - low, value + high)
        ]

    def undrawn(self, log_x: bool, log_y: bool) -> list[str]:
        """Return the points that the axes cannot show, each as text; empty for a line without a name."""
        values = np.asarray(self.y, dtype=float)
        hidden = np.flatnonzero(~self.drawable(log_x, log_y)).tolist() if self.name else ()
        return [f"{self.name} at {place(self.x[row])}, {values[row]:g}" for row in hidden]

    def told(self, rows: Sequence[str] = ()) -> str:
        """Return the line as text: all values if there are at most eight, else both ends, the smallest and the largest.

        `rows` are the names of rows if the chart has any; then the text has the name of each point's row with its `x`.
        """
        values = np.asarray(self.y if self.values is None else self.values, dtype=float)
        if rows:
            cells = ", ".join(f"{x:.4g} of {rows[-int(row)]}" for row, x in zip(values, self.x, strict=True))
            return f"{self.name}: {cells}"
        if len(values) <= TOLD_IN_FULL:
            cells = ", ".join(f"{value:.4g} at {place(x)}" for x, value in zip(self.x, values, strict=True))
            return f"{self.name}: {cells or 'no value'}"
        finite = values[np.isfinite(values)]
        extremes = f", least {finite.min():.4g}, greatest {finite.max():.4g}" if len(finite) else ""
        return (
            f"{self.name}: from {values[0]:.4g} at {place(self.x[0])} to {values[-1]:.4g} at "
            f"{place(self.x[-1])}{extremes}"
        )


@dataclass(frozen=True, kw_only=True)
class Ribbon:
    """The filled area between the lines `low` and `high` over `x`; without a name it is not in the legend."""

    x: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    style: Style
    name: str = ""
    group: str = ""
    opacity: float = FILL_OPACITY
    rank: int = 0

    @classmethod
    def of(cls, table: pd.DataFrame, x: str, low: str, high: str, style: Style, **options: Any) -> Ribbon:
        """Return the ribbon between the columns `low` and `high` of a table, over the column `x`."""
        places, lower, upper = (table[column].tolist() for column in (x, low, high))
        return cls(x=places, low=lower, high=upper, style=style, **options)

    def drawable(self, log_y: bool) -> npt.NDArray[np.bool_]:
        """Return a boolean mask of the places where the vertical axis can show both ends."""
        return has_place(np.asarray(self.low, dtype=float), log_y) & has_place(
            np.asarray(self.high, dtype=float), log_y
        )


@dataclass(frozen=True)
class Strip:
    """A shaded range of values over the whole width, or, if `upright`, a range of places over the whole height.

    If `near` is True, the axis need not cover a limit that is more than a decade away from all values.
    """

    low: float
    high: float
    name: str
    near: bool = False
    upright: bool = False

    @classmethod
    def of(cls, band: Band, *, near: bool = False, upright: bool = False) -> Strip:
        """Return the strip of a band, named after its limits, such as "band 0.01 to 100"."""
        return cls(band.lower, band.upper, f"band {band.lower:g} to {band.upper:g}", near, upright)

    def limits(self, seen: Sequence[float]) -> list[float]:
        """Return those limits of the strip that the axis must cover; `seen` are the values that the axis shows."""
        positive = [value for value in seen if 0 < value < float("inf")]
        if not self.near:
            return [self.low, self.high]
        return [end for end in (self.low, self.high) if positive and min(positive) / 10 <= end <= max(positive) * 10]


def has_place(values: FloatArray, log: bool) -> npt.NDArray[np.bool_]:
    """Return a boolean mask of the numbers that an axis can show: finite, and positive on a logarithmic axis."""
    finite: npt.NDArray[np.bool_] = np.isfinite(values)
    return finite & (values > 0) if log else finite


def place(x: Any) -> str:
    """Return a place on the horizontal axis, a name or a number, as text."""
    return x if isinstance(x, str) else f"{x:g}"
