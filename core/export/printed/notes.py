"""Draw the shapes and annotations of a finished figure: lines and strips across the axes, and boxes of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.offsetbox import AnnotationBbox, TextArea, VPacker
from matplotlib.patches import Rectangle
from matplotlib.transforms import Transform, blended_transform_factory

from .axes import Axis
from .looks import color, stroke
from .text import POINTS, font, is_bold, lines_of, size_of, written

BELOW, ABOVE = 1, 6
ANCHORS = {"left": 0.0, "center": 0.5, "right": 1.0, "bottom": 0.0, "middle": 0.5, "top": 1.0, "auto": 0.5}
SIDES: dict[str, Literal["left", "right"]] = {"left": "left", "right": "right"}


def draw_shapes(axes: Axes, shapes: Sequence[dict[str, Any]]) -> None:
    """Draw the lines and strips of a Plotly layout; a coordinate relative to the paper is a fraction of the axes."""
    for index, shape in enumerate(shapes):
        x, y = ((shape[f"{side}0"], shape[f"{side}1"]) for side in "xy")
        options: dict[str, Any] = {
            "transform": _transform(axes, shape), "zorder": BELOW if shape.get("layer") == "below" else ABOVE,
            "gid": f"shape-{index}",
        }  # fmt: skip
        artist: Artist
        if shape["type"] == "rect":
            filling: dict[str, Any] = {"facecolor": color(shape["fillcolor"]), "edgecolor": "none", "linewidth": 0}
            artist = Rectangle((x[0], y[0]), x[1] - x[0], y[1] - y[0], **filling, **options)
        else:
            artist = Line2D(x, y, **stroke(shape["line"]), **options)
        axes.add_artist(artist)


def draw_annotations(axes: Axes, x: Axis, y: Axis, notes: Sequence[dict[str, Any]], default: dict[str, Any]) -> None:
    """Draw the boxes of text of a Plotly layout, with background and border; `default` is the font of the figure."""
    for note in notes:
        own = {**default, **note.get("font", {})}
        side = ANCHORS[note.get("xanchor", "auto")]
        lines: list[Artist] = [
            TextArea(
                written(line),
                textprops={
                    "fontproperties": font(size_of(line, own["size"]), is_bold(line)), "color": color(own["color"]),
                },
            )
            for line in lines_of(note["text"])
        ]  # fmt: skip
        packed = VPacker(children=lines, align=SIDES.get(note.get("align", ""), "center"), pad=0, sep=1.5)
        place = [
            note[one] if note.get(f"{one}ref") == "paper" else _place(axis, note[one]) for one, axis in _pair(x, y)
        ]
        paper, border = note.get("bgcolor"), note.get("bordercolor")
        box = AnnotationBbox(
            packed, (place[0], place[1]), xycoords=_transform(axes, note), annotation_clip=False, zorder=ABOVE,
            xybox=(note.get("xshift", 0) * POINTS, note.get("yshift", 0) * POINTS), boxcoords="offset points",
            box_alignment=(side, ANCHORS[note.get("yanchor", "auto")]), frameon=bool(paper or border), fontsize=10,
            pad=note.get("borderpad", 1) * POINTS / 10,
            bboxprops={
                "facecolor": color(paper) if paper else "none", "edgecolor": color(border) if border else "none",
                "linewidth": note.get("borderwidth", 1) * POINTS,
            },
        )  # fmt: skip
        axes.add_artist(box)


def _pair(x: Axis, y: Axis) -> tuple[tuple[str, Axis], tuple[str, Axis]]:
    return ("x", x), ("y", y)


def _place(axis: Axis, value: Any) -> float:
    return float(axis.places([value])[0])


def _transform(axes: Axes, one: dict[str, Any]) -> Transform:
    """Return the transform of data coordinates, or of fractions of the axes in directions relative to the paper."""
    across, up = (axes.transAxes if one.get(f"{side}ref") == "paper" else axes.transData for side in "xy")
    return blended_transform_factory(across, up)
