"""Figures show the table's numbers, are valid Plotly, and tell series apart by more than colour."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from core.figures.sites import ratio_figure, site_figure
from core.figures.style import PALETTES, stroke
from core.health.band import Band
from core.tables.observe import site_table


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("quantity", ["activation", "adjoint"])
def test_ratio_figures_pass_plotlys_own_check_and_hold_every_value(
    document: dict[str, Any], quantity: Any, theme: Any
) -> None:
    table = site_table(document)
    figure = ratio_figure(table, Band(), quantity, theme=theme)
    go.Figure(figure.to_dict())
    lines = [trace for trace in figure.data if trace.customdata is not None]
    assert [line.name for line in lines] == ["depth-scaled", "unscaled"]
    for line, arm in zip(lines, ("initialized", "control"), strict=True):
        assert list(line.y) == table.loc[table["arm"] == arm, f"{quantity}_ratio"].tolist()
    assert figure.layout.yaxis.type == "log"
    assert figure.layout.paper_bgcolor == PALETTES[theme].paper


def test_band_and_reference_are_drawn_and_named_in_the_legend(document: dict[str, Any]) -> None:
    figure = ratio_figure(site_table(document), Band(0.5, 20))
    names = [trace.name for trace in figure.data]
    assert "band 0.5 to 20" in names
    assert "input, ratio 1" in names
    strips = [shape for shape in figure.layout.shapes if shape.type == "rect"]
    assert [(strip.y0, strip.y1) for strip in strips] == [(0.5, 20)]
    assert {shape.y0 for shape in figure.layout.shapes if shape.type == "line"} == {0.5, 20, 1.0}


def test_series_differ_in_colour_marker_and_dash(document: dict[str, Any]) -> None:
    for index in range(6):
        others = [stroke(other) for other in range(6) if other != index]
        mine = stroke(index)
        assert all(mine.color != other.color and mine.marker != other.marker for other in others)
        assert all(mine.dash != other.dash for other in others)
    lines = [trace for trace in ratio_figure(site_table(document)).data if trace.customdata is not None]
    assert lines[0].marker.symbol != lines[1].marker.symbol
    assert lines[0].line.dash != lines[1].line.dash


def test_the_title_names_depth_and_seed(document: dict[str, Any]) -> None:
    title = ratio_figure(site_table(document)).layout.title.text
    assert "L = 8 blocks" in title
    assert "seed 4701" in title


def test_what_a_log_axis_cannot_show_is_left_out_and_listed(document: dict[str, Any]) -> None:
    table = site_table(document)
    table.loc[[1, 2, 3], "activation_rms"] = [0.0, np.inf, np.nan]
    table.loc[4, "activation_rms"] = 1.3e-8
    figure = site_figure(table, "activation_rms", title="RMS", y_title="RMS")
    assert list(figure.data[0].y[:5]) == [table["activation_rms"][0], None, None, None, 1.3e-8]
    titles = {"title": "RMS", "y_title": "RMS"}
    hidden = ["depth-scaled at 1, 0", "depth-scaled at 2, inf", "depth-scaled at 3, nan"]
    assert site_figure.chart(table, "activation_rms", **titles).undrawn == hidden
    assert site_figure.chart(table, "activation_rms", log=False, **titles).undrawn == hidden[1:]


def test_names_from_outside_cannot_become_markup(document: dict[str, Any]) -> None:
    table = site_table(document)
    table["recipe"] = '<img src="http://example.invalid/x.png">'
    table["label"] = "<b>bold</b>"
    text = ratio_figure(table).to_json()
    assert "<img" not in text
    assert "<b>" not in text


def test_the_alternative_text_says_the_extremes(document: dict[str, Any]) -> None:
    text = ratio_figure.chart(site_table(document)).alt
    assert "to 11.28 at 16, least 1" in text
    assert "greatest 12.13" in text
    assert "greatest 33.37" in text


@pytest.mark.parametrize("spread", [1.0, 1.05, 3.0, 1e4])
def test_a_line_of_sites_stands_beside_ticks_however_flat_it_is(document: dict[str, Any], spread: float) -> None:
    table = site_table(document)
    table["activation_rms"] = np.geomspace(0.0284, 0.0284 * spread, len(table))
    axis = site_figure(table, "activation_rms", title="T", y_title="RMS").layout.yaxis
    low, high = axis.range
    ticks = np.log10(axis.tickvals) if axis.tickvals else np.arange(np.ceil(low), high, axis.dtick)
    assert ((low <= ticks) & (ticks <= high)).sum() >= 3
