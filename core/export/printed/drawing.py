"""A finished Plotly figure as PNG, SVG or PDF: all parts are measured first, then placed so that none overlap.

From top to bottom these are title, subject, axes, tick labels, axis title, colour bar and legend. The axes are as high
as in the browser, the width is that of a page, and the height is the sum of the parts. The same figure gives the same
bytes: there is no date, random number, font or setting of the machine in them.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
import plotly.graph_objects as go
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.transforms import Affine2D, Transform

from ..json import plain_figure
from .axes import Axis, read_axis
from .cells import GAP, THICKNESS, Bar, draw_cells
from .looks import color
from .marks import Plot, bar_text, entries
from .notes import draw_annotations, draw_shapes
from .text import (
    FAMILY,
    PIXELS_PER_INCH,
    POINTS,
    Line,
    extent,
    font,
    is_bold,
    leading,
    line_extent,
    lines_of,
    size_of,
    wrapped,
    written,
)
from .ticks import SIZE, TO_TEXT, Labels, below, beside

# Pixels of 1/96 inch: the whole width, the edge, between one thing and the next.
WIDTH, EDGE, BETWEEN = 720.0, 12.0, 8.0
PNG_DPI = 2 * PIXELS_PER_INCH
TITLE, AXIS_TITLE, LEGEND = 15.0, 13.0, 12.0
# No date, which would be another at each time.
METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None},
}  # fmt: skip
SETTINGS: dict[str, Any] = {
    "font.family": [FAMILY], "mathtext.fontset": "dejavusans", "text.hinting": "none", "text.hinting_factor": 1,
    "svg.fonttype": "path", "svg.hashsalt": "depthscope", "pdf.fonttype": 42, "hatch.linewidth": 1.0,
    "axes.unicode_minus": True, "axes.xmargin": 0, "axes.ymargin": 0, "lines.scale_dashes": False,
}  # fmt: skip
# Matplotlib's settings are the process's; one figure at a time is drawn under these.
_ONE_AT_A_TIME = threading.RLock()


def drawing(figure: go.Figure, kind: str) -> bytes:
    """Return a Plotly figure as bytes of the kind "png", "svg" or "pdf". May be called from any thread."""
    with settings():
        target = io.BytesIO()
        drawn(figure).savefig(target, format=kind, dpi=PNG_DPI, metadata=METADATA[kind])
        return target.getvalue()


@contextmanager
def settings() -> Iterator[None]:
    """Use the Matplotlib settings of this module while the block runs, whatever those of the machine are.

    Only one thread at a time can be inside.
    """
    chosen: dict[Any, Any] = {**matplotlib.rcParamsDefault, **SETTINGS}
    chosen = {key: value for key, value in chosen.items() if not key.startswith("backend")}
    with _ONE_AT_A_TIME, matplotlib.rc_context(chosen):
        yield


def drawn(figure: go.Figure) -> Figure:
    """Return a Plotly figure as a Matplotlib figure; call it and save or measure the result inside `settings`."""
    spec = plain_figure(figure)
    page = Figure(figsize=(WIDTH / PIXELS_PER_INCH, 1), dpi=PIXELS_PER_INCH, facecolor=spec["layout"]["paper_bgcolor"])
    FigureCanvasAgg(page)
    _Sheet.of(page, spec["data"], spec["layout"]).compose()
    return page


@dataclass(frozen=True)
class _Sheet:
    page: Figure
    traces: list[dict[str, Any]]
    layout: dict[str, Any]
    x: Axis
    y: Axis

    @classmethod
    def of(cls, page: Figure, traces: list[dict[str, Any]], layout: dict[str, Any]) -> _Sheet:
        traces = [{"type": "scatter", **trace} for trace in traces]
        return cls(page, traces, layout, *(read_axis(layout[f"{one}axis"], traces, one) for one in ("x", "y")))

    @property
    def ink(self) -> str:
        return str(self.layout["font"]["color"])

    @property
    def height(self) -> float:
        """The height of the axes in pixels."""
        margin = self.layout["margin"]
        return float(self.layout["height"] - margin["t"] - margin["b"])

    @property
    def pixels(self) -> Transform:
        """The transform from pixels, counted from the lower left, to the page."""
        return Affine2D().scale(1 / PIXELS_PER_INCH) + self.page.dpi_scale_trans

    def compose(self) -> None:
        """Measure all parts from the bottom to the top, then draw them."""
        heat = next((trace for trace in self.traces if trace["type"] == "heatmap"), None)
        bar = Bar(heat, self.ink) if heat is not None and heat.get("showscale", True) else None
        up = beside(self.y, self.height) if self.y.visible else Labels(())
        y_title = wrapped(self.y.title, self.height, AXIS_TITLE)
        left = EDGE + up.across + (extent(y_title, AXIS_TITLE)[1] + BETWEEN if y_title else 0)
        right = EDGE + self._beyond() + (bar.across(self.height) if bar and not bar.lying else 0)
        down, left, right = self._fitted(left, right)
        width = WIDTH - left - right
        x_title = wrapped(self.x.title, width, AXIS_TITLE)
        bottom = EDGE
        if legend := self._legend():
            bottom += legend + BETWEEN
        bar_bottom = bottom
        bottom += bar.across(width) + BETWEEN if bar and bar.lying else 0
        title_bottom = bottom
        bottom += extent(x_title, AXIS_TITLE)[1] + down.across
        title = wrapped(lines_of(self.layout["title"]["text"]), WIDTH - 2 * EDGE, TITLE)
        top = bottom + self.height + (BETWEEN if title else 0)
        whole = top + extent(title, TITLE)[1] + EDGE
        self.page.set_size_inches(WIDTH / PIXELS_PER_INCH, whole / PIXELS_PER_INCH)
        axes = self._axes((left, bottom, width, self.height), whole)
        self._marks(axes, heat, (width, self.height))
        self._ticks(axes, down, up)
        self._write(x_title, left + width / 2, title_bottom, AXIS_TITLE, "center")
        self._write(y_title, EDGE, bottom + self.height / 2, AXIS_TITLE, "center", upright=True)
        self._write(title, EDGE, top, TITLE, "left")
        if bar:
            box = (left, bar_bottom, width, bottom) if bar.lying else (left + width, bottom, 0.0, self.height)
            self._bar(bar, box, whole)

    def _beyond(self) -> float:
        """Return the room needed to the right of the axes for the numbers beside bars."""
        bars = [trace for trace in self.traces if trace["type"] == "bar" and "texttemplate" in trace]
        texts = [bar_text(value) for trace in bars for value in trace["x"]]
        return max((line_extent(lines_of(text)[0], LEGEND)[0] + BETWEEN for text in texts), default=0.0)

    def _fitted(self, left: float, right: float) -> tuple[Labels, float, float]:
        """Return the labels below the axes, and margins that hold the parts of them beyond the axes."""
        if not self.x.visible:
            return Labels(()), left, right
        labels = below(self.x, WIDTH - left - right)
        left, right = max(left, EDGE + labels.before), max(right, EDGE + labels.after)
        return below(self.x, WIDTH - left - right), left, right

    def _legend(self) -> float:
        """Draw the legend at the bottom of the page, in as many columns as fit; returns its height."""
        found = entries(self.traces, self.layout.get("showlegend"))
        if not found:
            return 0.0
        room = WIDTH - 2 * EDGE - 3.2 * LEGEND
        names = ["\n".join(map(written, wrapped(lines_of(name), room, LEGEND))) for _, name in found]
        for columns in range(min(4, len(names)), 0, -1):
            legend = Legend(
                self.page, [handle for handle, _ in found], names, ncols=columns, loc="lower left", frameon=False,
                bbox_to_anchor=(EDGE, EDGE), bbox_transform=self.pixels, prop=font(LEGEND), labelcolor=self.ink,
                borderpad=0, borderaxespad=0, handlelength=2.4, handletextpad=0.6, columnspacing=1.6, labelspacing=0.45,
            )  # fmt: skip
            legend.set_figure(self.page)
            box = legend.get_window_extent(self.page.canvas.get_renderer())  # type: ignore[attr-defined]
            if box.width <= WIDTH - 2 * EDGE:
                break
        self.page.legends.append(legend)
        return float(box.height)

    def _axes(self, box: tuple[float, float, float, float], whole: float) -> Axes:
        left, bottom, width, height = box
        axes = self.page.add_axes(
            (left / WIDTH, bottom / whole, width / WIDTH, height / whole),
            facecolor=self.layout["plot_bgcolor"],
            gid="axes",
        )
        for axis, scale in ((self.x, axes.set_xscale), (self.y, axes.set_yscale)):
            scale("log" if axis.kind == "log" else "linear")
        axes.set_axisbelow(True)
        return axes

    def _marks(self, axes: Axes, heat: dict[str, Any] | None, size: tuple[float, float]) -> None:
        if heat is not None:
            cell = size[0] / max(len(heat["x"]), 1), size[1] / max(len(heat["y"]), 1)
            draw_cells(axes, self.x, self.y, heat, self.layout["plot_bgcolor"], cell)
        Plot(axes, self.x, self.y).draw(self.traces)
        draw_shapes(axes, self.layout.get("shapes", ()))
        draw_annotations(axes, self.x, self.y, self.layout.get("annotations", ()), self.layout["font"])
        axes.set_xlim(*self.x.ends)
        axes.set_ylim(*self.y.ends)

    def _ticks(self, axes: Axes, down: Labels, up: Labels) -> None:
        """Draw ticks with their labels, grid and the two axis lines; nothing for a hidden axis."""
        for side, own, axis, labels in (("bottom", self.x, axes.xaxis, down), ("left", self.y, axes.yaxis, up)):
            axis.set_ticks([], minor=True)
            texts = ["\n".join(map(written, tick.lines)) for tick in labels.ticks]
            axis.set_ticks([tick.at for tick in labels.ticks], texts, color=self.ink, fontproperties=font(SIZE))
            axes.spines[side].set(color=own.settings.get("linecolor", "none"), visible=own.visible)
            length = 5 * POINTS
            axis.set_tick_params(length=length, pad=(TO_TEXT - 5) * POINTS, color=own.settings.get("tickcolor", "none"))
            if own.visible and own.settings.get("showgrid"):
                axis.grid(True, color=own.settings["gridcolor"], linewidth=POINTS)
        for label in axes.get_xticklabels() if down.angle else ():
            label.set(rotation=down.angle, ha="right", va="top", rotation_mode="anchor")
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)

    def _bar(self, bar: Bar, box: tuple[float, float, float, float], whole: float) -> None:
        """Draw the colour bar with its title, below the axis title or to the right of the axes."""
        left, bottom, width, height = box
        if bar.lying:
            lines = bar.title_lines(width)
            at = bottom + bar.across(width) - THICKNESS
            bar.draw(self.page, (left / WIDTH, at / whole, width / WIDTH, THICKNESS / whole))
            self._write(lines, left, bottom, LEGEND, "left")
            return
        bar.draw(self.page, ((left + 2 * GAP) / WIDTH, bottom / whole, THICKNESS / WIDTH, height / whole))
        lines = bar.title_lines(height)
        self._write(lines, WIDTH - EDGE - extent(lines, LEGEND)[1], bottom + height / 2, LEGEND, "center", upright=True)

    def _write(self, lines: list[Line], x: float, y: float, size: float, align: str, *, upright: bool = False) -> None:
        """Draw lines under each other above a place or, if `upright`, rotated and side by side to its right."""
        at = x if upright else y + extent(lines, size)[1]
        for line in lines:
            step = leading(line, size)
            at += step if upright else -step
            place = (at - 0.25 * step, y) if upright else (x, at + 0.25 * step)
            turned: dict[str, Any] = {"ha": "right", "va": "center", "rotation": 90} if upright else {"ha": align}
            self.page.text(
                *place, written(line), transform=self.pixels, fontproperties=font(size_of(line, size), is_bold(line)),
                color=color(self.ink), **turned,
            )  # fmt: skip
