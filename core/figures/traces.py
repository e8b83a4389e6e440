"""Turn lines and ribbons into Plotly traces, given as dicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .marks import Line, Ribbon
from .style import DASHES, MARKED_POINTS, PALETTES, Theme, faded, plain

PATTERNS = ("", "/", ".", "x", "\\", "-")
STEP_OPACITY = 0.1
# The looks that Plotly calls something else than a line with markers.
MODES = {"predicted": "lines", "thin": "lines", "points": "markers"}


def line_trace(line: Line, shown: npt.NDArray[np.bool_], theme: Theme) -> dict[str, Any]:
    """Return the trace of a line, of points or of bars; `shown` is a boolean mask, and a point outside it is a gap."""
    xs = [plain(value) if isinstance(value, str) else value for value in line.x]
    ys = [value if kept else None for value, kept in zip(line.y, shown, strict=True)]
    labels = [plain(label) if isinstance(label, str) else label for label in line.labels]
    known = "%{text}" if line.keys else "%{customdata}" if labels else ""
    trace = {
        "x": xs or [None], "y": ys or [None], "name": plain(line.name),
        "hovertemplate": line.hover or (f"{known}<br>%{{y:.6g}}" if known else "%{x}: %{y:.6g}"),
    }  # fmt: skip
    if labels or line.keys:
        trace |= {"customdata": list(line.keys), "text": labels} if line.keys else {"customdata": labels}
    if not line.name:
        trace |= {"hoverinfo": "skip", "hovertemplate": None}
    trace |= {} if line.listed else {"showlegend": False}
    trace |= {"legendgroup": plain(line.group)} if line.group else {}
    trace |= {"legendrank": line.rank} if line.rank else {}
    return trace | (_bars(line, theme) if line.look == "bars" else _scatter(line, theme))


def ribbon_trace(ribbon: Ribbon, log_y: bool, theme: Theme) -> dict[str, Any]:
    """Return the trace of a filled area: along the upper end, then back along the lower one."""
    color = ribbon.style.stroke(theme).color
    kept = np.flatnonzero(ribbon.drawable(log_y)).tolist()
    xs, lower, upper = ([values[row] for row in kept] for values in (ribbon.x, ribbon.low, ribbon.high))
    return {
        "type": "scatter", "mode": "lines", "x": [*xs, *reversed(xs)], "y": [*upper, *reversed(lower)],
        "fill": "toself", "fillcolor": faded(color, ribbon.opacity), "line": {"width": 0, "color": color},
        "hoverinfo": "skip", "name": plain(ribbon.name), "showlegend": bool(ribbon.name),
        "legendgroup": plain(ribbon.group or ribbon.name), **({"legendrank": ribbon.rank} if ribbon.rank else {}),
    }  # fmt: skip


def _bars(line: Line, theme: Theme) -> dict[str, Any]:
    color, shape = line.drawn_as.stroke(theme).color, PATTERNS[line.index % len(PATTERNS)]
    hatching = {"shape": shape, "fgcolor": PALETTES[theme].paper, "bgcolor": color, "solidity": 0.2} if shape else {}
    return {"type": "bar", "marker": {"color": color, "pattern": hatching}}


def _scatter(line: Line, theme: Theme) -> dict[str, Any]:
    look = line.drawn_as.stroke(theme)
    dash = "solid" if line.look == "measured" else look.dash
    stroke = {"color": look.color, "dash": dash, "width": line.width}
    marker: dict[str, Any] = {"symbol": look.marker, "size": 7, "color": look.color, "maxdisplayed": MARKED_POINTS}
    trace = {"type": "scatter", "connectgaps": False, "mode": MODES.get(line.look, "lines+markers")}
    if line.look == "predicted":
        stroke = {"color": PALETTES[theme].ink, "dash": DASHES[1 + line.index % (len(DASHES) - 1)], "width": 1.8}
    if line.look == "points":
        marker |= {"size": 10, "maxdisplayed": 0, "line": {"width": 2, "color": look.color}}
    if line.look == "steps":
        # An empty bin keeps its step and loses its marker.
        marker |= {"size": [7 if value else 0 for value in line.y]}
        stroke |= {"shape": "hvh"}
        trace |= {"fill": "tozeroy", "fillcolor": faded(look.color, STEP_OPACITY)}
    if line.error is not None:
        below, above = line.error
        trace[f"error_{line.error_on}"] = {
            "type": "data", "symmetric": False, "array": list(above), "arrayminus": list(below), "color": look.color,
            "thickness": 2, "width": 6,
        }  # fmt: skip
    return (
        trace
        | ({} if line.look == "points" else {"line": stroke})
        | ({"marker": marker} if trace["mode"] != "lines" else {})
    )
