"""Choose the ticks of an axis whose labels fit, rotated or not, and measure the room that they need."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from .axes import Axis, Tick
from .text import extent, wrapped

SIZE = 12.0
# Pixels between the texts of neighbours, and from the axis to its texts.
APART, TO_TEXT = 8.0, 8.0
WIDEST, WIDEST_SLANTED = 260.0, 150.0
SLANT = 45.0


@dataclass(frozen=True)
class Labels:
    """The ticks that have a label, the angle of the labels in degrees, and the pixels that the labels need.

    `across` is the room beside the axis, `before` and `after` that beyond its two ends.
    """

    ticks: tuple[Tick, ...]
    angle: float = 0.0
    across: float = 0.0
    before: float = 0.0
    after: float = 0.0


def beside(axis: Axis, length: float) -> Labels:
    """Return the labels to the left of a vertical axis of `length` pixels."""
    ticks = [Tick(tick.at, tuple(wrapped(tick.lines, WIDEST, SIZE))) for tick in axis.ticks]
    sizes = {tick: extent(tick.lines, SIZE) for tick in ticks}
    kept = _few(axis, ticks)
    kept = _clear(axis, kept, {tick: height for tick, (_, height) in sizes.items()}, length)
    widest = max((sizes[tick][0] for tick in kept), default=0.0)
    return Labels(tuple(kept), across=widest + TO_TEXT if kept else 0.0)


def below(axis: Axis, length: float) -> Labels:
    """Return the labels under a horizontal axis of `length` pixels.

    Names that would overlap are rotated; of numbers, fewer are shown.
    """
    ticks = _few(axis, axis.ticks)
    if not ticks:
        return Labels(())
    slanted, flat = axis.settings.get("tickangle") == -45, axis.settings.get("tickangle") == 0
    widths = {tick: extent(tick.lines, SIZE)[0] for tick in ticks}
    named = axis.kind == "category" and not flat and "nticks" not in axis.settings
    clear = _clear(axis, ticks, widths, length)
    if slanted or (named and len(clear) < len(ticks)):
        return _slanted(axis, ticks, length)
    across = max(extent(tick.lines, SIZE)[1] for tick in clear) + TO_TEXT
    before = max(widths[tick] / 2 - axis.part(tick.at) * length for tick in clear)
    after = max(widths[tick] / 2 - (1 - axis.part(tick.at)) * length for tick in clear)
    return Labels(tuple(clear), across=across, before=before, after=after)


def _slanted(axis: Axis, ticks: Sequence[Tick], length: float) -> Labels:
    """Return rotated labels that end at their tick, from the lower left."""
    short = [Tick(tick.at, tuple(wrapped(tick.lines, WIDEST_SLANTED, SIZE))) for tick in ticks]
    sizes = {tick: extent(tick.lines, SIZE) for tick in short}
    turned = math.sin(math.radians(SLANT))
    kept = _clear(axis, short, {tick: sizes[tick][1] / turned for tick in short}, length, gap=2.0)
    reach = {tick: (sizes[tick][0] + sizes[tick][1]) * turned for tick in kept}
    before = max(reach[tick] - axis.part(tick.at) * length for tick in kept)
    return Labels(tuple(kept), SLANT, max(reach.values()) + TO_TEXT, before, 0.0)


def _few(axis: Axis, ticks: Sequence[Tick]) -> list[Tick]:
    """Return at most as many ticks as the axis asks for, evenly spaced."""
    most = axis.settings.get("nticks")
    return list(ticks[:: math.ceil(len(ticks) / most)]) if most and ticks else list(ticks)


def _clear(
    axis: Axis, ticks: Sequence[Tick], sizes: dict[Tick, float], length: float, gap: float = APART
) -> list[Tick]:
    """Return ticks whose labels do not overlap: for names every second, third, ..., else one after another."""
    if axis.kind == "category":
        for step in range(1, len(ticks) + 1):
            chosen = list(ticks[::step])
            if _stand_clear(axis, chosen, sizes, length, gap):
                return chosen
    kept: list[Tick] = []
    for tick in sorted(ticks, key=lambda one: axis.part(one.at)):
        if not kept or _stand_clear(axis, [kept[-1], tick], sizes, length, gap):
            kept.append(tick)
    return kept


def _stand_clear(axis: Axis, ticks: Sequence[Tick], sizes: dict[Tick, float], length: float, gap: float) -> bool:
    pairs = itertools.pairwise(ticks)
    return all(
        abs(axis.part(one.at) - axis.part(other.at)) * length >= (sizes[one] + sizes[other]) / 2 + gap
        for one, other in pairs
    )
