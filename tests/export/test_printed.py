"""Printed figures: no text lies on another or leaves the page, points are the browser's, bytes always the same."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont
from matplotlib.lines import Line2D
from matplotlib.patches import Polygon, Rectangle
from matplotlib.text import Text
from plotly.colors import hex_to_rgb

from core.export.pictures import IMAGES
from core.export.printed.drawing import drawing, drawn, settings
from core.export.printed.text import FAMILY, Run, line_extent, lines_of, wrapped, written
from core.figures.chart import Picture, blank_figure
from core.figures.style import MARKED_POINTS, PALETTES, Theme
from core.sweep.process import use_one_thread
from tests.export.geometry import faults, overlap
from tests.export.pictures import HOSTILE, all_pictures, few


@pytest.fixture(scope="module")
def pictures() -> dict[str, Picture]:
    use_one_thread()
    return few()


@pytest.fixture(scope="module")
def pages(pictures: dict[str, Picture]) -> Iterator[dict[str, tuple[go.Figure, Figure]]]:
    """Each picture as Plotly's figure and as Matplotlib's."""
    with settings():
        yield {name: (figure, drawn(figure)) for name, figure in ((name, one()) for name, one in pictures.items())}


def test_no_text_lies_on_another_or_leaves_the_page(pages: dict[str, tuple[go.Figure, Figure]]) -> None:
    found = {name: faults(page) for name, (_, page) in pages.items()}
    assert not {name: list_ for name, list_ in found.items() if list_}


def test_texts_that_do_overlap_or_leave_are_found() -> None:
    """The check above is one that can fail."""
    page = Figure(figsize=(2, 2), dpi=96)
    FigureCanvasAgg(page)
    page.text(0.1, 0.5, "first")
    page.text(0.15, 0.5, "second")
    page.text(0.9, 0.9, "leaving")
    found = " ".join(faults(page))
    assert "'first' lies on 'second'" in found
    assert "'leaving' leaves" in found
    square = np.array([[0.0, 0], [10, 0], [10, 10], [0, 10]])
    diamond = np.array([[14.0, 7], [21, 14], [14, 21], [7, 14]])
    # Their upright boxes overlap, they themselves do not.
    assert not overlap(square, diamond)
    assert overlap(square, diamond - 2)


def test_what_is_drawn_is_what_plotly_draws(pages: dict[str, tuple[go.Figure, Figure]]) -> None:
    for figure, page in pages.values():
        assert_same_points(figure, page)


def assert_same_points(figure: go.Figure, page: Figure) -> None:
    """Every point of every trace stands at its place, and no other."""
    axes = next(one for one in page.axes if one.get_gid() == "axes")
    for index, trace in enumerate(figure.data):
        own = [one for one in axes.get_children() if str(one.get_gid()).startswith(f"trace-{index}-")]
        if trace.type == "heatmap":
            assert_same_colors(trace, next(one for one in axes.get_children() if isinstance(one, QuadMesh)))
            continue
        names = {axis: categories(figure, axis) for axis in "xy"}
        points = list(zip(placed(trace.x, names["x"]), placed(trace.y, names["y"]), strict=True))
        if trace.type == "bar":
            lying = trace.orientation == "h"
            lengths = [bar.get_width() if lying else bar.get_height() for bar in own_of(own, Rectangle)]
            assert lengths == [value for value in (trace.x if lying else trace.y) if value is not None]
            continue
        lines = {str(one.get_gid()).rpartition("-")[2]: one for one in own if isinstance(one, Line2D)}
        if trace.fill == "toself":
            outline = points if points[:1] == points[-1:] else [*points, points[0]]
            assert [tuple(corner) for one in own_of(own, Polygon) for corner in one.get_xy()] == outline
        elif "lines" in trace.mode and trace.line.shape == "hvh":
            path = list(zip(*lines["line"].get_data(), strict=True))
            assert {y for _, y in path} == {y for _, y in points}
            assert [path[0][0], path[-1][0]] == [points[0][0], points[-1][0]]
        elif "lines" in trace.mode:
            np.testing.assert_array_equal(np.column_stack(lines["line"].get_data()), shown(points, axes))
        if "markers" in trace.mode and trace.marker.opacity != 0:
            dots = [one for one in own_of(own, Line2D) if one.get_gid().endswith("markers")]
            marks = {pair for one in dots for pair in zip(*one.get_data(), strict=True)}
            known = {pair for pair in points if not np.isnan(pair).any()}
            assert marks <= known
            if not trace.marker.maxdisplayed:
                assert len(marks) == len(known)
            elif known:
                assert 0 < len(marks) <= MARKED_POINTS + 1


def own_of(artists: list[Any], kind: type[Any]) -> list[Any]:
    return [one for one in artists if isinstance(one, kind)]


def shown(points: list[tuple[float, float]], axes: Any) -> np.ndarray[Any, Any]:
    """The points, without those that a logarithmic axis has no place for."""
    found = np.array(points, dtype=float).reshape(-1, 2)
    for column, scale in enumerate((axes.get_xscale(), axes.get_yscale())):
        if scale == "log":
            found[~(found[:, column] > 0), column] = np.nan
    return found


def categories(figure: go.Figure, axis: str) -> list[str]:
    """Plotly's categories: those of the layout, then those of the traces in order of appearance."""
    layout = figure.layout[f"{axis}axis"]
    if layout.type != "category":
        return []
    seen = [str(value) for trace in figure.data for value in trace[axis] if value is not None]
    return list(dict.fromkeys([*(layout.categoryarray or ()), *seen]))


def placed(values: Any, names: list[str]) -> list[float]:
    return [np.nan if v is None else float(names.index(str(v)) if names else v) for v in values]


def assert_same_colors(trace: go.Heatmap, mesh: QuadMesh) -> None:
    """Cells have the colours of the trace's scale."""
    values = np.array([[np.nan if v is None else v for v in row] for row in trace.z], dtype=float)
    low = np.nanmin(values) if trace.zmin is None else trace.zmin
    high = np.nanmax(values) if trace.zmax is None else trace.zmax
    flat = (values.ravel() - low) / (high - low)
    kept = np.isfinite(flat)
    scale = [(place, np.array(hex_to_rgb(name)) / 255) for place, name in trace.colorscale]
    expected = [sampled(scale, part) for part in flat[kept].clip(0, 1)]
    found = mesh.get_facecolor().reshape(-1, 4)[:, :3]
    np.testing.assert_allclose(np.asarray(found)[kept], expected, atol=1e-12)


def sampled(scale: list[tuple[float, Any]], part: float) -> Any:
    """The colour between the stops around a place; a jump belongs to what follows."""
    steps = [pair for pair in itertools.pairwise(scale) if pair[0][0] < pair[1][0]]
    (low, first), (high, last) = next(pair for pair in reversed(steps) if pair[0][0] <= part)
    return first + (last - first) * (part - low) / (high - low)


def test_a_gap_ends_an_area() -> None:
    squares = {"x": [0, 1, 1, 0, None, 2, 3, 3, 2], "y": [0, 0, 1, 1, None, 0, 0, 1, 1]}
    look = {"mode": "lines", "fill": "toself", "fillcolor": "#000000", "line": {"width": 0, "color": "#000000"}}
    figure = blank_figure()
    figure.add_trace({"type": "scatter", **squares, **look})
    with settings():
        areas = own_of(drawn(figure).axes[0].get_children(), Polygon)
    assert [area.get_xy()[:, 0].tolist() for area in areas] == [[0, 1, 1, 0, 0], [2, 3, 3, 2, 2]]


@pytest.mark.parametrize("kind", IMAGES)
def test_the_same_figure_is_the_same_bytes_under_any_settings(pictures: dict[str, Picture], kind: Any) -> None:
    with matplotlib.rc_context({"font.size": 33.0}):
        first = drawing(pictures["heat"](), kind)
        assert matplotlib.rcParams["font.size"] == 33.0
    with matplotlib.rc_context({"font.size": 40, "axes.facecolor": "red", "svg.hashsalt": "x", "savefig.dpi": 10}):
        assert drawing(pictures["heat"](), kind) == first
    assert b"date" not in first.lower()


def test_the_font_is_the_one_that_comes_with_matplotlib() -> None:
    found = Path(findfont(FontProperties(family=[FAMILY]))).resolve()
    assert found.is_relative_to(Path(matplotlib.get_data_path()).resolve())


def test_a_name_is_letters_only(pages: dict[str, tuple[go.Figure, Figure]]) -> None:
    _, page = pages["hostile"]
    texts = " ".join(text.get_text().replace("\n", " ") for text in page.findobj(Text))
    assert r"layers.#.<b>down</b>.weight \$x_1\$ ��" in texts
    assert HOSTILE.count("very_long_name.") == texts.replace(" ", "").count("very_long_name.")


def test_markup_is_read_and_nothing_else() -> None:
    assert lines_of("G<sub>2L</sub> &lt;b&gt;<br><span style='font-size:12px'><b>a</b> b</span>") == [
        (Run("G"), Run("2L", level="sub"), Run(" <b>")),
        (Run("a", bold=True, size=12.0), Run(" b", size=12.0)),
    ]
    assert written(lines_of("$1 A<sub>s</sub>")[0]) == r"\$1 A$_{\mathrm{s}}$"
    assert lines_of("") == []


@given(st.text(st.sampled_from("ab W.é$\\{}_^"), max_size=60), st.floats(40, 400))
def test_a_broken_line_is_as_narrow_as_asked_and_loses_no_letter(text: str, width: float) -> None:
    lines = wrapped([(Run(text),)], width, 12)
    assert all(line_extent(line, 12)[0] <= width for line in lines)
    assert "".join(run.text for line in lines for run in line).replace(" ", "") == text.replace(" ", "")


def test_only_who_draws_imports_matplotlib_and_no_window_is_asked_for() -> None:
    code = (
        "import sys, core.cli, core.export.bundle, core.export.observe, core.command.observe, core.command.lab\n"
        "assert not [name for name in sys.modules if name.startswith('matplotlib')]\n"
        "from core.figures.chart import blank_figure\n"
        "from core.export.printed.drawing import drawing\n"
        "drawing(blank_figure(), 'svg')\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.heavy
@pytest.mark.parametrize("theme", PALETTES)
def test_every_figure_of_every_page_is_whole(theme: Theme) -> None:
    use_one_thread()
    for name, picture in all_pictures():
        figure = picture(theme=theme)
        with settings():
            page = drawn(figure)
            assert not faults(page), name
            assert_same_points(figure, page)


@pytest.mark.heavy
@pytest.mark.parametrize("kind", IMAGES)
def test_every_figure_of_every_page_is_the_same_bytes_twice(kind: str) -> None:
    use_one_thread()
    for name, picture in all_pictures():
        assert drawing(picture(), kind) == drawing(picture(), kind), name
