"""Where the texts of a Matplotlib figure stand, as rectangles that may be turned."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.text import Text

Corners = npt.NDArray[np.float64]
# Of a pixel: how letters are rounded.
SLACK = 0.5


def faults(figure: Figure) -> list[str]:
    """Texts that overlap another, or that leave the page."""
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    figure.draw(renderer)
    boxes = {text: corners(text, renderer) for text in figure.findobj(Text) if is_drawn(text)}
    width, height = figure.bbox.size
    found = [
        f"{text.get_text()!r} leaves the page: {box.round(1).tolist()} of {width, height}"
        for text, box in boxes.items()
        if box.min() < -SLACK or box[:, 0].max() > width + SLACK or box[:, 1].max() > height + SLACK
    ]
    pairs = itertools.combinations(boxes.items(), 2)
    return found + [
        f"{a.get_text()!r} lies on {b.get_text()!r}" for (a, one), (b, other) in pairs if overlap(one, other)
    ]


def is_drawn(text: Text) -> bool:
    """Whether letters of it are seen."""
    return bool(text.get_text().strip()) and text.get_visible()


def corners(text: Text, renderer: object) -> Corners:
    """The rectangle around the letters."""
    angle = text.get_rotation()
    if angle % 90:
        # Matplotlib gives the upright box around a turned one.
        text.set_rotation(0)
        found = _rectangle(text, renderer)
        text.set_rotation(angle)
        pivot = text.get_transform().transform(text.get_unitless_position())
        turn = np.radians(angle)
        matrix = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        return np.asarray((found - pivot) @ matrix.T + pivot)
    return _rectangle(text, renderer)


def _rectangle(text: Text, renderer: object) -> Corners:
    box = text.get_window_extent(renderer)  # type: ignore[arg-type]
    return np.array([[box.x0, box.y0], [box.x1, box.y0], [box.x1, box.y1], [box.x0, box.y1]])


def overlap(one: Corners, other: Corners) -> bool:
    """Whether two rectangles have more than an edge in common: no line between them keeps them apart."""
    for box in (one, other):
        for start, end in ((box[0], box[1]), (box[1], box[2])):
            along = (end - start) / np.linalg.norm(end - start)
            a, b = one @ along, other @ along
            if a.max() <= b.min() + SLACK or b.max() <= a.min() + SLACK:
                return False
    return True
