"""Draw the traces of a finished figure on Matplotlib axes: lines, markers, error bars, areas and bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Polygon

from .axes import Axis, Numbers
from .looks import HATCHES, color, marker, stroke
from .text import POINTS, font

LEFT_BETWEEN_BARS = 0.2


@dataclass(frozen=True)
class Plot:
    """Matplotlib axes to draw on, with the two axes of the Plotly figure."""

    axes: Axes
    x: Axis
    y: Axis

    def draw(self, traces: Sequence[dict[str, Any]]) -> None:
        """Draw scatter and bar traces in their order; the `gid` of each artist contains the index of its trace."""
        bars = [index for index, trace in enumerate(traces) if trace["type"] == "bar"]
        thinned = 0
        for index, trace in enumerate(traces):
            if trace["type"] == "bar":
                self._bars(trace, bars.index(index), len(bars), f"trace-{index}")
            elif trace["type"] == "scatter":
                self._scatter(trace, thinned, f"trace-{index}")
                thinned += "markers" in trace.get("mode", "") and bool(trace["marker"].get("maxdisplayed"))

    def _scatter(self, trace: dict[str, Any], before: int, name: str) -> None:
        x, y = self.x.places(trace["x"]), self.y.places(trace["y"])
        mode = trace.get("mode", "lines+markers")
        if trace.get("fill") == "toself":
            for corners in _parts(np.column_stack([x, y])):
                self.axes.add_patch(Polygon(corners, closed=True, gid=f"{name}-area", **_filling(trace), zorder=2))
        if "lines" in mode and trace["line"].get("width", 2):
            along, up = (x, y) if trace["line"].get("shape") != "hvh" else self._steps(x, y)
            if trace.get("fill") == "tozeroy":
                self.axes.fill_between(along, up, 0, gid=f"{name}-area", **_filling(trace), zorder=2)
            self.axes.add_line(Line2D(along, up, gid=f"{name}-line", zorder=3, **stroke(trace["line"])))
        for axis in ("x", "y"):
            if error := trace.get(f"error_{axis}"):
                self._errors(x, y, axis, error, name)
        if "markers" in mode:
            self._markers(x, y, trace["marker"], before, name)

    def _steps(self, x: Numbers, y: Numbers) -> tuple[Numbers, Numbers]:
        """Return the corners of a step line with one level per point.

        Steps are midway on the axis, logarithmic or not.
        """
        log = self.x.kind == "log"
        places = np.log(x) if log else x
        middles = (places[1:] + places[:-1]) / 2
        edges = np.exp(middles) if log else middles
        return np.concatenate([x[:1], np.repeat(edges, 2), x[-1:]]), np.repeat(y, 2)

    def _errors(self, x: Numbers, y: Numbers, axis: str, error: dict[str, Any], name: str) -> None:
        reach: dict[str, Any] = {f"{axis}err": np.array([error["arrayminus"], error["array"]], dtype=float)}
        drawn = self.axes.errorbar(
            x, y, **reach, fmt="none", ecolor=color(error["color"]), zorder=3,
            elinewidth=error["thickness"] * POINTS, capsize=error["width"] * POINTS / 2,
            capthick=error["thickness"] * POINTS,
        )  # fmt: skip
        drawn.lines[2][0].set_gid(f"{name}-error")

    def _markers(self, x: Numbers, y: Numbers, own: dict[str, Any], before: int, name: str) -> None:
        if own.get("opacity", 1) == 0:
            return
        shown = np.isfinite(x) & np.isfinite(y)
        shown &= self._thinned(x, y, own.get("maxdisplayed", 0), before)
        looks: dict[tuple[Any, ...], list[int]] = {}
        for row in np.flatnonzero(shown).tolist():
            look = tuple(_of(own.get(key), row) for key in ("symbol", "size", "color"))
            looks.setdefault(look, []).append(row)
        for (symbol, size, paint), rows in looks.items():
            if size:
                style = marker(symbol or "circle", size, paint, own.get("line") or {})
                self.axes.add_line(Line2D(x[rows], y[rows], gid=f"{name}-markers", zorder=4, **style))

    def _thinned(self, x: Numbers, y: Numbers, most: int, before: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return which points keep their marker: `most`, spread like Plotly's `maxdisplayed` within the axes."""
        if not most:
            return np.ones(len(x), dtype=bool)
        (left, right), (low, high) = sorted(self.x.ends), sorted(self.y.ends)
        inside = np.flatnonzero((x >= left) & (x <= right) & (y >= low) & (y <= high))
        step = max(1, math.ceil(len(inside) / most))
        first = math.floor(before * step / 3 + math.floor(before / 3) * step / 7.1 + 0.5)
        kept = np.zeros(len(x), dtype=bool)
        kept[inside[(np.arange(len(inside)) + first) % step == 0]] = True
        return kept

    def _bars(self, trace: dict[str, Any], place: int, count: int, name: str) -> None:
        lying = trace.get("orientation") == "h"
        width = (1 - LEFT_BETWEEN_BARS) / count
        across, along = (self.y, self.x) if lying else (self.x, self.y)
        places, lengths = across.places(trace["y" if lying else "x"]), along.places(trace["x" if lying else "y"])
        places = places + (place - (count - 1) / 2) * width * (_spacing(places) if across.kind != "category" else 1)
        thick = width * (_spacing(places) if across.kind != "category" else 1)
        draw = self.axes.barh if lying else self.axes.bar
        for at, length in zip(places, lengths, strict=True):
            if math.isfinite(at) and math.isfinite(length):
                (bar,) = draw(at, length, thick, zorder=3)
                bar.set(gid=f"{name}-bar", **_hatching(trace["marker"]))
                if "texttemplate" in trace:
                    self._beside(length, at)

    def _beside(self, length: float, at: float) -> None:
        """Draw the bar's number to the right of its end."""
        self.axes.annotate(
            bar_text(length), (length, at), (4 * POINTS, 0), textcoords="offset points", va="center", ha="left",
            fontproperties=font(12), annotation_clip=False,
        )  # fmt: skip


def bar_text(value: float) -> str:
    """Return the number beside a bar as text."""
    return f"{value:,.10g}"


def entries(traces: Sequence[dict[str, Any]], shown: bool | None) -> list[tuple[Artist, str]]:
    """Return the handles and names of the legend in order; empty if the layout or Plotly's default has no legend."""
    able = [trace for trace in traces if trace["type"] != "heatmap"]
    if shown is False or (shown is None and len(able) < 2):
        return []
    told = [trace for trace in able if trace.get("showlegend", True) and trace.get("name")]
    ordered = sorted(told, key=lambda trace: trace.get("legendrank", 1000))
    return [(_handle(trace), trace["name"]) for trace in ordered]


def _handle(trace: dict[str, Any]) -> Artist:
    if trace["type"] == "bar":
        return Patch(**_hatching(trace["marker"]))
    if trace.get("fill") == "toself":
        return Patch(**_filling(trace))
    mode = trace.get("mode", "lines+markers")
    line = stroke(trace["line"]) if "lines" in mode else {"linestyle": "none"}
    if "markers" in mode:
        own = trace["marker"]
        parts = [_of(own.get(key), 0) for key in ("symbol", "size", "color")]
        drawn = marker(
            parts[0] or "circle", min(parts[1] or 7, 13), parts[2] or own["line"]["color"], own.get("line", {})
        )
        line = {**drawn, **line}
    return Line2D([], [], **line)


def _parts(points: Numbers) -> list[Numbers]:
    """The runs of points between gaps: each is an area by itself."""
    gaps = np.flatnonzero(~np.isfinite(points).all(axis=1))
    parts = np.split(points, gaps)
    return [part[np.isfinite(part).all(axis=1)] for part in parts if np.isfinite(part).all(axis=1).any()]


def _of(value: Any, row: int) -> Any:
    """Return a property of one point; `value` is one for all points or a list with one per point."""
    return value[min(row, len(value) - 1)] if isinstance(value, list | tuple) else value


def _filling(trace: dict[str, Any]) -> dict[str, Any]:
    return {"facecolor": color(trace["fillcolor"]), "edgecolor": "none", "linewidth": 0}


def _hatching(own: dict[str, Any]) -> dict[str, Any]:
    pattern = own.get("pattern") or {}
    hatch = HATCHES[pattern.get("shape", "")]
    edge = color(pattern["fgcolor"]) if hatch else "none"
    return {"facecolor": color(own["color"]), "edgecolor": edge, "hatch": hatch or None, "linewidth": 0}


def _spacing(places: Numbers) -> float:
    """Return the smallest distance of two places, which sets the width of bars as in Plotly."""
    apart = np.diff(np.unique(places[np.isfinite(places)]))
    return float(apart.min()) if len(apart) else 1.0
