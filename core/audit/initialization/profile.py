"""Describes the ratios of writers to their rule over the blocks, and what the shape of this sequence means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

# Ratios at most this far apart, in log, count as one level.
FLAT = 0.1


def shape_of(ratios: Sequence[float], *, bare: float | None = None, margin: float = FLAT) -> str:
    """Return the shape of the ratios over the blocks as a phrase, with its numbers and its meaning.

    It begins with `flat`, `step`, `saw-tooth`, `infinite first block`, `rising`, `falling`, `zero`, `irregular` or `no
    writers`. Ratios within `margin` of each other, in log, count as one level. `bare` is the ratio of a writer left at
    the base; None if the ratios are to the base itself.
    """
    margin = max(FLAT, margin)
    if not ratios:
        return "no writers"
    if all(ratio == 0 for ratio in ratios):
        return "zero"
    if not math.isfinite(ratios[0]):
        rest = ratios[1:]
        tail = f", then from {rest[0]:.2f} to {rest[-1]:.2f}" if rest and all(map(math.isfinite, rest)) else ""
        return f"infinite first block{tail}: blocks are counted from 0"
    if not all(math.isfinite(ratio) and ratio > 0 for ratio in ratios):
        return "irregular: zeros or infinities among the blocks"
    logs = [math.log(ratio) for ratio in ratios]
    if max(logs) - min(logs) <= margin:
        return _flat(math.exp(sum(logs) / len(logs)), bare, margin)
    period = _period(logs, margin)
    if period is not None:
        return f"saw-tooth, again every {period} blocks: stages of {period} are counted one by one"
    levels = _levels(logs, margin)
    if 1 < len(levels) <= max(2, len(logs) // 2):
        heights = ", ".join(f"{math.exp(level):.2f}" for level in levels)
        return f"step, at {heights}: parts of the stack follow different depths"
    steps = [later - earlier for earlier, later in pairwise(logs)]
    if all(step <= margin for step in steps):
        return f"falling from {ratios[0]:.2f} to {ratios[-1]:.2f}: the block's own index is counted"
    if all(step >= -margin for step in steps):
        return f"rising from {ratios[0]:.2f} to {ratios[-1]:.2f}: the block's own index is counted"
    return f"irregular, between {min(ratios):.2f} and {max(ratios):.2f}"


def _flat(level: float, bare: float | None, margin: float) -> str:
    if bare is None:
        return f"flat {level:.2f}" + (", the base itself" if abs(math.log(level)) <= margin / 2 else "")
    for value, meaning in (
        (1.0, "as declared"),
        (bare, "the rule is not applied"),
        (math.sqrt(2), "sqrt(2): half the additions are counted, one per block where two were declared"),
        (1 / math.sqrt(2), "1/sqrt(2): twice the additions are counted"),
        (2.0, "2: a quarter of the depth is counted, as by stages of a quarter"),
    ):
        if abs(math.log(level / value)) <= margin / 2:
            return f"flat {level:.2f}, {meaning}"
    return f"flat {level:.2f}"


def _period(logs: Sequence[float], margin: float) -> int | None:
    for period in range(2, len(logs) // 2 + 1):
        repeats = all(abs(logs[i] - logs[i - period]) <= margin for i in range(period, len(logs)))
        if len(logs) % period == 0 and repeats:
            return period
    return None


def _levels(logs: Sequence[float], margin: float) -> list[float]:
    """Return the mean of each run of consecutive blocks on one level, in log."""
    runs = [[logs[0]]]
    for value in logs[1:]:
        if abs(value - runs[-1][0]) <= margin:
            runs[-1].append(value)
        else:
            runs.append([value])
    return [sum(run) / len(run) for run in runs]
