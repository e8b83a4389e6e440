"""Heat maps of a finished figure: coloured cells with their numbers, and the colour bar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from .axes import Axis, Numbers, read_axis
from .text import (
    PIXELS_PER_INCH,
    POINTS,
    Line,
    Run,
    extent,
    font,
    is_bold,
    leading,
    line_extent,
    lines_of,
    wrapped,
    written,
)

# Pixels: the bar's thickness, from it to its numbers, and between what stands side by side.
THICKNESS, TO_NUMBERS, GAP = 12, 5, 8
LABEL, LEAST_LABEL = 11, 6
STEPS = 256


def colors_of(trace: dict[str, Any], values: Numbers) -> Numbers:
    """Return values as RGBA `[..., 4]` on the colour scale of a trace, linear between its stops; NaN is transparent."""
    low, high = limits(trace)
    places = np.array([place for place, _ in trace["colorscale"]])
    stops = np.array([to_rgba(name) for _, name in trace["colorscale"]])
    parts = (values - low) / ((high - low) or 1.0)
    shades = np.stack([np.interp(parts, places, stops[:, channel]) for channel in range(4)], axis=-1)
    shades[~np.isfinite(values)] = 0
    return shades


def limits(trace: dict[str, Any]) -> tuple[float, float]:
    """Return the values at both ends of a trace's colour scale."""
    values = numbers(trace)
    seen = values[np.isfinite(values)]
    low, high = (float(seen.min()), float(seen.max())) if seen.size else (0.0, 1.0)
    return trace.get("zmin", low), trace.get("zmax", high)


def numbers(trace: dict[str, Any]) -> Numbers:
    """Return the cells of a trace as an array `[rows, columns]`; NaN for a cell without a number."""
    return np.array([[np.nan if cell is None else cell for cell in row] for row in trace["z"]], dtype=float)


def draw_cells(axes: Axes, x: Axis, y: Axis, trace: dict[str, Any], paper: str, cell: tuple[float, float]) -> None:
    """Draw a heat map; `cell` is the width and height of one cell in pixels, and wider text is drawn smaller."""
    columns, rows = x.places(trace["x"]), y.places(trace["y"])
    shades = colors_of(trace, numbers(trace))
    corners = (np.append(columns - 0.5, columns[-1] + 0.5), np.append(rows - 0.5, rows[-1] + 0.5))
    gap = trace.get("xgap", 0) * POINTS
    axes.pcolormesh(*corners, shades, edgecolors=paper, linewidth=gap, gid="trace-cells", zorder=2)
    if not trace.get("texttemplate"):
        return
    texts = [[lines_of(text) for text in row] for row in trace["text"]]
    size = _fitting([lines for row in texts for lines in row], cell)
    ink = trace["textfont"]["color"]
    for at, row in zip(rows, texts, strict=True):
        for place, lines in zip(columns, row, strict=True):
            text = "\n".join(map(written, lines))
            axes.text(place, at, text, color=ink, ha="center", va="center", fontproperties=font(size), zorder=5)


def _fitting(texts: Sequence[Sequence[Line]], cell: tuple[float, float]) -> float:
    sizes = [extent(lines, LABEL) for lines in texts]
    width, height = (max((size[side] for size in sizes), default=1.0) or 1.0 for side in (0, 1))
    return float(max(LEAST_LABEL, LABEL * min(1.0, 0.92 * cell[0] / width, 0.95 * cell[1] / height)))


@dataclass(frozen=True)
class Bar:
    """The colour bar of a heat map, below the axes or to their right."""

    trace: dict[str, Any]
    ink: str

    @property
    def lying(self) -> bool:
        """True if the bar is below the axes."""
        return bool(self.trace["colorbar"].get("orientation") == "h")

    def across(self, length: float) -> float:
        """Return the pixels that the bar needs across its length, with its numbers and title."""
        lines = self.title_lines(length)
        if self.lying:
            return THICKNESS + TO_NUMBERS + leading((Run(""),), LABEL) + extent(lines, 12)[1] + GAP
        widest = max(line_extent(tick.lines[0], LABEL)[0] for tick in self._axis.ticks)
        return 2 * GAP + THICKNESS + TO_NUMBERS + widest + GAP + extent(lines, 12)[1]

    @property
    def _axis(self) -> Axis:
        own = self.trace["colorbar"]
        settings = {key: own[key] for key in ("tickvals", "ticktext") if key in own}
        return read_axis({**settings, "range": list(limits(self.trace))}, [], "x")

    def draw(self, figure: Figure, box: tuple[float, float, float, float]) -> None:
        """Draw the bar into `box`: left, bottom, width and height as fractions of the figure."""
        low, high = limits(self.trace)
        span = (high - low) or 1.0
        axes = figure.add_axes(box, gid="bar")
        shades = colors_of(self.trace, low + span * (np.arange(STEPS) + 0.5) / STEPS)
        image = shades[None, :, :] if self.lying else shades[:, None, :]
        reach = (low, low + span, 0, 1) if self.lying else (0, 1, low, low + span)
        axes.imshow(image, extent=reach, aspect="auto", origin="lower", interpolation="nearest")
        for spine in axes.spines.values():
            spine.set_visible(False)
        pixels = box[2] * figure.get_figwidth() if self.lying else box[3] * figure.get_figheight()
        shown = self._kept(pixels * PIXELS_PER_INCH)
        axis, other = (axes.xaxis, axes.yaxis) if self.lying else (axes.yaxis, axes.xaxis)
        other.set_ticks([])
        if not self.lying:
            axes.yaxis.tick_right()
        axis.set_ticks([at for at, _ in shown], [written(line) for _, line in shown], color=self.ink)
        axis.set_tick_params(length=0, pad=TO_NUMBERS * POINTS)
        for label, (_, line) in zip(axis.get_ticklabels(), shown, strict=True):
            label.set_fontproperties(font(LABEL, is_bold(line)))

    def _kept(self, length: float) -> list[tuple[float, Line]]:
        """Return the numbers that do not overlap on a bar of this length, bold ones first."""
        axis = self._axis
        ranked = sorted(((tick.at, tick.lines[0]) for tick in axis.ticks), key=lambda one: not is_bold(one[1]))
        kept: list[tuple[float, Line]] = []
        for at, line in ranked:
            room = [(self._reach(line) + self._reach(other)) / 2 + GAP for _, other in kept]
            apart = [abs(axis.part(at) - axis.part(place)) * length for place, _ in kept]
            if all(space >= need for space, need in zip(apart, room, strict=True)):
                kept.append((at, line))
        return sorted(kept, key=lambda one: one[0])

    def _reach(self, line: Line) -> float:
        width, height = line_extent(line, LABEL)
        return 1.1 * width if self.lying else height

    def title_lines(self, width: float) -> list[Line]:
        """Return the title of the bar as lines, wrapped to a width in pixels."""
        return wrapped(lines_of(self.trace["colorbar"].get("title", {}).get("text")), width, 12)
