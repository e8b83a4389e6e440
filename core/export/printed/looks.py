"""Translate Plotly's colours, dashes and markers into Matplotlib's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from matplotlib.markers import MarkerStyle
from matplotlib.path import Path

from .text import POINTS

Color = tuple[float, float, float, float] | str
HOURGLASS = Path([(-1, 1), (1, 1), (-1, -1), (1, -1), (-1, 1)], closed=True)
BOWTIE = Path([(-1, 1), (-1, -1), (1, 1), (1, -1), (-1, 1)], closed=True)
# The shape by Plotly's name without `-open`, and its size beside the size that Plotly draws it at.
MARKERS: dict[str, tuple[Any, float]] = {
    "circle": ("o", 1.0), "diamond": ("D", 0.9), "square": ("s", 0.9), "triangle-up": ("^", 1.1),
    "triangle-down": ("v", 1.1), "triangle-left": ("<", 1.1), "triangle-right": (">", 1.1), "cross": ("P", 1.1),
    "x": ("X", 1.1), "star": ("*", 1.5), "hexagon": ("h", 1.1), "pentagon": ("p", 1.1),
    "hourglass": (HOURGLASS, 1.0), "bowtie": (BOWTIE, 1.0), "x-thin": ("x", 1.0),
}  # fmt: skip
# Lengths of strokes and gaps, in widths of the line of at least three pixels.
DASHES: dict[str, Sequence[float]] = {
    "dot": (1, 1), "dash": (3, 3), "longdash": (5, 5), "dashdot": (3, 1, 1, 1), "longdashdot": (5, 2, 1, 2),
}  # fmt: skip
# Hatching by Plotly's patterns.
HATCHES = {"": "", "/": "///", ".": "...", "x": "xxx", "\\": "\\\\\\", "-": "---"}


def color(name: str) -> Color:
    """Return a `#RRGGBB` colour unchanged, and an `rgba(...)` colour as four numbers from 0 to 1."""
    found = re.fullmatch(r"rgba\((\d+), (\d+), (\d+), ([\d.]+)\)", name)
    if found is None:
        return name
    red, green, blue = (int(part) / 255 for part in found.groups()[:3])
    return red, green, blue, float(found.group(4))


def stroke(line: dict[str, Any]) -> dict[str, Any]:
    """Return the Matplotlib properties of a Plotly line; widths are converted from pixels to points."""
    width = line.get("width", 2)
    lengths = DASHES.get(line.get("dash", "solid"), ())
    dashes = [part * max(width, 3) * POINTS for part in lengths]
    style: Any = (0, dashes) if dashes else "solid"
    return {"color": color(line["color"]), "linewidth": width * POINTS, "linestyle": style, "dash_capstyle": "butt"}


def marker(symbol: str, size: float, name: str, line: dict[str, Any]) -> dict[str, Any]:
    """Return the Matplotlib properties of a Plotly marker; `size` is in pixels, `name` its colour, `line` its edge."""
    shape, times = MARKERS[symbol.removesuffix("-open")]
    hollow = symbol.endswith("-open")
    edge = line.get("color", name) if line and not hollow else name
    width = line.get("width", 1.4 if hollow or symbol == "x-thin" else 0)
    return {
        "marker": MarkerStyle(shape), "markersize": size * times * POINTS, "linestyle": "none",
        "markerfacecolor": "none" if hollow else color(name), "markeredgecolor": color(edge),
        "markeredgewidth": max(width, 1.2 if hollow or symbol == "x-thin" else 0) * POINTS,
    }  # fmt: skip
