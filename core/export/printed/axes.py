"""An axis of a finished figure: positions of values, range, and ticks with their labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from matplotlib.ticker import MaxNLocator

from .text import Line, Run, lines_of, printable

Kind = Literal["linear", "log", "category"]
Numbers = npt.NDArray[np.float64]
# Room beside the values of an axis that gives no range, in parts of their span; ticks of such an axis at most.
ROOM, TICKS = 0.05, 7
# A number of this size is written as a power of ten.
LARGE, SMALL = 1e5, 1e-4


@dataclass(frozen=True)
class Tick:
    """A tick: its value on the axis, and its label as lines of text."""

    at: float
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Axis:
    """A horizontal or vertical axis; a category has its index in `names` as its value."""

    settings: dict[str, Any]
    kind: Kind
    names: tuple[str, ...]
    ends: tuple[float, float]
    ticks: tuple[Tick, ...]

    @property
    def visible(self) -> bool:
        """True if line, ticks and grid of the axis are drawn."""
        return bool(self.settings.get("visible", True))

    @property
    def title(self) -> list[Line]:
        """The lines of the axis title."""
        return lines_of((self.settings.get("title") or {}).get("text"))

    def places(self, values: Iterable[Any]) -> Numbers:
        """Return values as an array of numbers on the axis; NaN for a value that the axis cannot show."""
        if self.kind == "category":
            known = {name: float(index) for index, name in enumerate(self.names)}
            return np.array([known.get(str(value), np.nan) if value is not None else np.nan for value in values])
        found = np.array([np.nan if value is None else float(value) for value in values], dtype=float)
        return np.where(found > 0, found, np.nan) if self.kind == "log" else found

    def part(self, value: float) -> float:
        """Return the position of a value along the axis, from 0 to 1."""
        low, high = (math.log10(end) if self.kind == "log" else end for end in self.ends)
        at = math.log10(value) if self.kind == "log" else value
        return (at - low) / (high - low)


def read_axis(settings: dict[str, Any], traces: Sequence[dict[str, Any]], letter: Literal["x", "y"]) -> Axis:
    """Return the axis with the Plotly settings `settings` for the traces drawn on it; `letter` is "x" or "y"."""
    kind: Kind = settings.get("type", "linear")
    assert kind in ("linear", "log", "category"), kind
    names = _names(settings, traces, letter) if kind == "category" else ()
    bare = Axis(settings, kind, names, (0.0, 1.0), ())
    ends = _ends(bare, traces, letter)
    return Axis(settings, kind, names, ends, tuple(_ticks(bare, *sorted(ends))))


def _names(settings: dict[str, Any], traces: Sequence[dict[str, Any]], letter: str) -> tuple[str, ...]:
    given = [str(name) for name in settings.get("categoryarray", ())]
    seen = [str(value) for trace in traces for value in trace.get(letter) or () if value is not None]
    return tuple(dict.fromkeys([*given, *seen]))


def _ends(axis: Axis, traces: Sequence[dict[str, Any]], letter: Literal["x", "y"]) -> tuple[float, float]:
    given = axis.settings.get("range")
    if given is not None:
        low, high = (10.0**end if axis.kind == "log" else float(end) for end in given)
        return low, high
    if axis.kind == "category":
        low, high = -0.5, max(len(axis.names), 1) - 0.5
    else:
        low, high = _around([value for trace in traces for value in _seen(axis, trace, letter)], axis.kind == "log")
    return (high, low) if axis.settings.get("autorange") == "reversed" else (low, high)


def _seen(axis: Axis, trace: dict[str, Any], letter: Literal["x", "y"]) -> list[float]:
    """Return the numbers of a trace that its axis must show; bars and filled steps include 0."""
    found = axis.places(trace.get(letter) or ())
    error = trace.get(f"error_{letter}")
    ends = [found] if error is None else [found - np.array(error["arrayminus"]), found + np.array(error["array"])]
    values = [float(value) for part in ends for value in part if math.isfinite(value)]
    upright = trace.get("orientation", "v") == "v"
    bars = trace["type"] == "bar" and (letter == "y") == upright
    based = bars or (letter == "y" and trace.get("fill") == "tozeroy")
    return [*values, 0.0] if values and based and axis.kind == "linear" else values


def _around(values: Sequence[float], log: bool) -> tuple[float, float]:
    if not values:
        return (0.1, 10.0) if log else (0.0, 1.0)
    low, high = min(values), max(values)
    if log:
        room = max(0.15, ROOM * math.log10(high / low))
        return low / 10**room, high * 10**room
    span = high - low or abs(high) or 1.0
    # An axis whose values stand on 0 keeps it as its end.
    return low - ROOM * span * (low != 0), high + ROOM * span * (high != 0)


def _ticks(axis: Axis, low: float, high: float) -> Iterable[Tick]:
    if "tickvals" in axis.settings:
        pairs = zip(axis.settings["tickvals"], axis.settings["ticktext"], strict=True)
        yield from (Tick(float(at), tuple(lines_of(text))) for at, text in pairs if low <= at <= high)
    elif axis.settings.get("showticklabels") is False:
        return
    elif axis.kind == "category":
        for index, name in enumerate(axis.names):
            if low <= index <= high:
                yield Tick(float(index), tuple(lines_of(name)))
    elif axis.kind == "log":
        step = max(1, round(axis.settings.get("dtick", 1)))
        for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1):
            if power % step == 0:
                yield Tick(10.0**power, (_power(power),))
    else:
        found = _round_places(axis.settings, low, high)
        yield from (Tick(at, (line,)) for at, line in zip(found, _number_lines(found, axis.settings), strict=True))


def _round_places(settings: dict[str, Any], low: float, high: float) -> list[float]:
    if "dtick" in settings:
        first, step = settings.get("tick0", 0), settings["dtick"]
        counts = range(math.ceil((low - first) / step), math.floor((high - first) / step) + 1)
        return [first + count * step for count in counts]
    found = MaxNLocator(nbins=TICKS, steps=[1, 2, 5, 10]).tick_values(low, high)
    slack = 1e-9 * (high - low)
    return [float(at) + 0.0 for at in found if low - slack <= at <= high + slack]


def _number_lines(found: Sequence[float], settings: dict[str, Any]) -> list[Line]:
    form, largest = settings.get("tickformat", ""), max(map(abs, found), default=0.0)
    if not form and (largest >= LARGE or 0 < largest < SMALL):
        return [_scientific(at, math.floor(math.log10(largest))) for at in found]
    return [(Run(number_text(at, form)),) for at in found]


def number_text(value: float, form: str) -> str:
    """Return a number as text in one of the d3 formats that the charts use: `+.3~p`, `.0%` or none."""
    if form == "+.3~p":
        return f"{100 * value:+.3g}%"
    if form == ".0%":
        return f"{value:.0%}"
    assert not form, form
    return printable(f"{0.0 if abs(value) < 1e-300 else value:.10g}".replace("-", "−"))


def _power(exponent: int) -> Line:
    if exponent in (0, 1):
        return (Run("1" if exponent == 0 else "10"),)
    return Run("10"), Run(str(exponent).replace("-", "−"), level="sup")


def _scientific(value: float, exponent: int) -> Line:
    if value == 0:
        return (Run("0"),)
    mantissa = f"{value / 10.0**exponent:.6g}".replace("-", "−")
    return Run(f"{mantissa}×10"), Run(str(exponent).replace("-", "−"), level="sup")
