"""A chart is a frozen value: it can be read, compared and told without being drawn, and draws what it holds."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pandas as pd
import pytest

from core.figures.chart import Chart, Line, Ribbon, Strip
from core.figures.rows import growth_figure
from core.figures.sites import ratio_figure, token_figure
from core.figures.studies import judged_figure
from core.figures.style import PALETTES, Style, recipe_style
from core.health.band import Band
from core.tables.observe import site_table, token_table


def test_a_figure_is_its_chart_drawn(document: dict[str, Any]) -> None:
    chart = ratio_figure.chart(site_table(document), Band(), "adjoint")
    assert chart == ratio_figure.chart(site_table(document), Band(), "adjoint")
    for theme in PALETTES:
        drawn = ratio_figure(site_table(document), Band(), "adjoint", theme=theme)
        assert drawn.to_dict() == chart(theme=theme).to_dict()
        for line, trace in zip(chart.lines, drawn.data, strict=False):
            assert list(line.y) == list(trace.y)
    with pytest.raises(FrozenInstanceError):
        chart.title = "other"  # type: ignore[misc]


def test_a_chart_tells_and_lists_what_its_own_lines_hold(document: dict[str, Any]) -> None:
    table = site_table(document)
    table.loc[1, "activation_ratio"] = 0.0
    chart = ratio_figure.chart(table)
    assert chart.undrawn == ["depth-scaled at 1, 0"]
    assert ratio_figure.chart(table, log=False).undrawn == []
    assert chart.alt.startswith("Activation ratio (L = 8 blocks, seed 4701). depth-scaled: from 1 at 0 to ")
    assert "unscaled: " in chart.alt


def test_styles_have_the_theme_s_colours_and_nothing_else_changes() -> None:
    for theme in PALETTES:
        style = recipe_style("gpt2", 1)
        stroke = style.stroke(theme)
        assert style.stroke(theme) == stroke
        assert (style.marker, style.dash) == (stroke.marker, stroke.dash)
        assert Style("muted").stroke(theme).color == PALETTES[theme].muted


def test_the_legend_fills_rows_of_fifty_characters_and_the_axes_keep_their_size(document: dict[str, Any]) -> None:
    short, long = ratio_figure(site_table(document)).layout, token_figure(token_table(document)).layout
    assert short.height - long.height == short.margin.b - long.margin.b == 20 * (2 - 5)


def test_a_nameless_line_is_drawn_and_stands_in_no_legend_and_in_no_words() -> None:
    lines = [Line(name="", x=[0, 1, None], y=[1.0, -1.0, None]), Line(name="seen", x=[0], y=[1.0])]
    chart = Chart(title="T", lines=lines, x_title="x", y_title="y")
    assert (chart.names, chart.undrawn, chart.alt) == (["seen"], [], "T. seen: 1 at 0.")
    assert list(chart().data[0].y) == [1.0, None, None]
    assert chart().data[0].showlegend is False


def test_an_axis_shows_ribbons_error_bars_and_limits_that_are_near() -> None:
    line = Line(name="a", x=[1.0], y=[10.0], error=([9.0], [90.0]))
    ribbon = Ribbon(x=[1.0, 2.0], low=[0.5, 0.0], high=[1.0, 2.0], style=Style(0))
    strips = [Strip(1e-4, 300.0, "band", near=True)]
    axis = Chart(title="", lines=[line], ribbons=[ribbon], strips=strips, x_title="", y_title="")().layout.yaxis
    low, high = (10**end for end in axis.range)
    assert 0.1 < low < 0.5
    assert 300 < high < 1000
    assert list(Chart(title="", lines=[line], ribbons=[ribbon], x_title="", y_title="")().data[0].x) == [1.0, 1.0]


def test_what_has_no_point_has_no_entry_in_the_legend() -> None:
    judged = judged_figure(pd.DataFrame({"site": [0], "ratio": [1.0], "band": ["within"]}))
    assert [trace.name for trace in judged.data] == ["within", "band 0.01 to 100"]
    row = {"recipe": "gpt2", "quantity": "input_adjoint_ratio", "kind": "fit", "exponent": 0.1, "lower95": 0.0}
    growth = growth_figure(pd.DataFrame([{**row, "upper95": 0.2}]), "input_adjoint_ratio")
    assert [trace.name for trace in growth.data] == ["gpt2", "fit with 95 % interval"]
