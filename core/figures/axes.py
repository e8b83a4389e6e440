"""Ranges and ticks of axes: logarithmic around the values, whole numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pandas as pd

NICE_STEPS = (1, 2, 4, 5, 8, 10, 16, 20, 25, 32, 50, 64, 100)


def whole_ticks(places: pd.Series[int]) -> dict[str, Any]:
    """Axis settings with ticks at whole numbers only, about ten of them."""
    last = int(places.max()) if len(places) else 0
    step = next((nice for nice in NICE_STEPS if nice * 10 >= last), math.ceil(last / 10))
    return {"tick0": 0, "dtick": step, "range": [-0.02 * last - 0.3, 1.02 * last + 0.3]}


def log_axis(values: Iterable[float]) -> dict[str, Any]:
    """Settings of a logarithmic axis around the positive finite values, with ticks at round numbers on a short one."""
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
    """Three to seven equal round steps between two positive numbers."""
    power = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = next(digit * power for digit in (10, 5, 2, 1) if digit * power * 3 <= high - low)
    return [step * count for count in range(math.ceil(low / step), math.floor(high / step) + 1)]


def log_range(values: Iterable[float]) -> dict[str, Any]:
    """Axis settings of a logarithmic axis around the positive finite values, with a sixteenth of room on both sides."""
    exponents = [math.log10(value) for value in values if 0 < value < math.inf]
    if not exponents:
        return {}
    low, high = min(exponents), max(exponents)
    room = max(0.15, (high - low) / 16)
    # Ticks stand at whole powers of ten, at most about eight of them.
    return {"range": [low - room, high + room], "dtick": max(1, math.ceil((high - low) / 8))}
