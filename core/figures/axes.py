"""Ranges and ticks of axes: logarithmic, at integers, at given values, or symmetric about 0."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..decoder.splitmix64 import FloatArray

NICE_STEPS = (1, 2, 4, 5, 8, 10, 16, 20, 25, 32, 50, 64, 100)


def whole_ticks(places: Iterable[float]) -> dict[str, Any]:
    """Return Plotly axis settings with about ten ticks, at integers only, from 0 to the largest of `places`."""
    last = int(max(places, default=0))
    step = next((nice for nice in NICE_STEPS if nice * 10 >= last), math.ceil(last / 10))
    return {"tick0": 0, "dtick": step, "range": [-0.02 * last - 0.3, 1.02 * last + 0.3]}


def log_axis(values: Iterable[float]) -> dict[str, Any]:
    """Return Plotly settings of a logarithmic axis that shows all positive finite values.

    Ticks are at powers of ten, or at round numbers if the range is at most three decades.
    """
    found = {"type": "log", "exponentformat": "power", "dtick": 1, **log_range(values)}
    if "range" not in found:
        return found
    low, high = found["range"]
    if high - low > 3:
        return found
    ticks = [digit * 10.0**power for power in range(math.floor(low), math.ceil(high)) for digit in (1, 2, 5)]
    ticks = [tick for tick in ticks if low <= math.log10(tick) <= high]
    if len(ticks) < 3:
        ticks = _round_steps(10.0**low, 10.0**high)
    return found | {"tickmode": "array", "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}


def _round_steps(low: float, high: float) -> list[float]:
    """Return three to seven equally spaced round numbers between two positive numbers."""
    power = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = next(digit * power for digit in (10, 5, 2, 1) if digit * power * 3 <= high - low)
    return [step * count for count in range(math.ceil(low / step), math.floor(high / step) + 1)]


def log_range(values: Iterable[float]) -> dict[str, Any]:
    """Return the range and tick distance of a logarithmic axis for the positive finite values, with a margin.

    The margin on both sides is a sixteenth of the range, at least 0.15 decades. Empty if there is no such value.
    """
    exponents = [math.log10(value) for value in values if 0 < value < math.inf]
    if not exponents:
        return {}
    low, high = min(exponents), max(exponents)
    room = max(0.15, (high - low) / 16)
    # Ticks stand at whole powers of ten, at most about eight of them.
    return {"range": [low - room, high + room], "dtick": max(1, math.ceil((high - low) / 8))}


def point_ticks(places: Iterable[float], log: bool) -> dict[str, Any]:
    """Return Plotly axis settings with a tick at every value of `places`; the axis is logarithmic if `log` is True."""
    found = sorted({float(value) for value in places})
    ticks = {"tickmode": "array", "tickvals": found, "ticktext": [f"{value:g}" for value in found]}
    return {"type": "log", **log_range(found), **ticks} if log else ticks


def symmetric_log(values: Any) -> Any:
    """Return sign(v) * log10(1 + abs(v)) elementwise: linear near 0, logarithmic far from it, defined everywhere."""
    numbers = np.asarray(values, dtype=float)
    return np.sign(numbers) * np.log10(1 + np.abs(numbers))


def symmetric_ticks(places: FloatArray) -> dict[float, str]:
    """Return ticks for an axis of `symmetric_log` values, as a dict from place to text.

    There are at most nine or so, at 0 and at powers of ten on both sides.
    """
    farthest = math.ceil(np.abs(places[np.isfinite(places)]).max(initial=0.0))
    # Beside thousands, 1 would stand on top of 0.
    powers = range(0 if farthest < 3 else 1, max(1, farthest) + 1, max(1, math.ceil(farthest / 4)))
    marks = [0.0, *(sign * 10.0**power for power in powers for sign in (-1, 1))]
    return {float(symmetric_log(mark)): f"{mark:g}" for mark in marks}
