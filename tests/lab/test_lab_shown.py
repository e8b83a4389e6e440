"""Every experiment's view: figures that Plotly accepts and that hold the tables' numbers, words, and printed values."""

from __future__ import annotations

import math
import re
from functools import cache

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from core.figures.axes import log_axis
from core.figures.chart import Chart, Line
from core.figures.matrix import Matrix, grid
from core.lab.experiment import Result
from core.lab.experiments import EXPERIMENTS, experiment
from core.lab.options import Options
from core.lab.published import Printed
from core.lab.signal.sigmoid_unit import taken
from core.lab.view import formats, readable, summary_table

# Settings of the printed values that take seconds; they are run with the heavy tests.
SLOW = {("stream-growth", "published"), ("stream-growth", "published, scaled"), ("width-update", "published")}
SETTINGS = [(name, preset) for name in EXPERIMENTS for preset in experiment(name).presets if (name, preset) not in SLOW]


@cache
def ran(name: str, preset: str) -> tuple[Options, Result]:
    entry = experiment(name)
    options = entry.options(preset=preset)
    return options, entry.run(options)


@pytest.mark.parametrize(("name", "preset"), SETTINGS)
def test_pictures_are_valid_in_both_themes_and_words_are_sentences(name: str, preset: str) -> None:
    options, result = ran(name, preset)
    view = experiment(name)
    subject = view.subject(options)
    assert 0 < len(subject) < 90
    reading = view.reading(result.summary)
    assert reading.endswith(".")
    assert "nan" not in reading
    pictures = view.pictures(result, subject)
    assert pictures
    for file, picture in pictures.items():
        assert re.fullmatch(r"[a-z0-9-]+", file)
        for theme in ("light", "dark"):
            figure = go.Figure(picture(theme=theme).to_dict())  # type: ignore[arg-type]
            assert (
                subject in figure.layout.title.text
                or "epsilon 0" in figure.layout.title.text
                or "summed" in picture.alt
            )
        assert picture.alt.endswith(".")
        assert "<" not in picture.alt
        if isinstance(picture, Chart):
            assert picture.y_title
            assert len({(line.name, line.look) for line in picture.lines}) == len(picture.lines)


@pytest.mark.parametrize(("name", "preset"), SETTINGS)
def test_tables_are_shown_in_full_words(name: str, preset: str) -> None:
    _, result = ran(name, preset)
    for key, view in experiment(name).tables.items():
        shown = view.of(result.tables[key])
        assert len(shown)
        assert view.alt.endswith(".")
        assert set(formats(shown)) <= set(shown.columns)
        for column in shown.columns:
            kinds = {type(value) for value in shown[column] if value is not None}
            assert len(kinds) <= 1, column
    assert summary_table(result)["value"].dtype == float


def test_every_table_of_an_experiment_can_be_reached() -> None:
    hidden = {
        (name, key)
        for name, preset in SETTINGS
        for key in ran(name, preset)[1].tables
        if key not in experiment(name).tables
    }
    assert hidden == {("sigmoid-unit", "curve")}


@pytest.mark.parametrize(
    ("name", "picture", "table", "where", "x", "y", "line"),
    [
        ("chain", "chain-sizes", "sizes", "kind == 'measured' and `pass` == 'forward'", "layer", "rms", 0),
        ("chain", "chain-sizes", "sizes", "kind == 'predicted' and `pass` == 'forward'", "layer", "rms", 1),
        ("chain", "chain-sizes", "sizes", "kind == 'measured' and `pass` == 'backward'", "layer", "rms", 2),
        ("chain", "chain-sizes", "sizes", "kind == 'predicted' and `pass` == 'backward'", "layer", "rms", 3),
        ("scaled-residual", "scaled-residual-variance", "additions", "", "addition", "measured_variance", 0),
        ("decoder-variance", "decoder-variance-variance", "additions", "", "addition", "independence_from_input", 1),
        ("decoder-variance", "decoder-variance-correlation", "additions", "", "addition", "correlation", 0),
        ("stream-growth", "stream-growth-rms", "mean", "", "block", "expected_rms", 2),
        ("norm-divergence", "norm-divergence-ratio", "means", "", "mean", "by_the_law", 1),
        ("norm-jacobian", "norm-jacobian-singular-values", "singular_values", "", "index", "singular_value", 0),
        ("jacobian-product", "jacobian-product-bound", "bound", "", "blocks", "norm_bound", 1),
        ("update-geometry", "update-geometry-cosine", "pooled", "", "addition", "cosine", 0),
    ],
)
def test_a_line_holds_its_columns(name: str, picture: str, table: str, where: str, x: str, y: str, line: int) -> None:
    _, result = ran(name, next(iter(experiment(name).presets)))
    rows = result.tables[table].query(where) if where else result.tables[table]
    trace = experiment(name).pictures(result, "setting")[picture](theme="light").data[line]
    assert list(trace.x) == rows[x].tolist()
    assert list(trace.y) == rows[y].tolist()


def test_the_jacobians_cells_are_the_tables() -> None:
    _, result = ran("norm-jacobian", "LayerNorm")
    picture = experiment("norm-jacobian").pictures(result, "")["norm-jacobian-matrix"]
    trace = picture(theme="light").data[0]
    table = result.tables["jacobian"]
    for output, feature, exact in zip(table["output"], table["input"], table["exact"], strict=True):
        assert trace.z[output][feature] == exact
    assert trace.zmin == -trace.zmax
    assert trace.text[0][0] == f"{table['exact'].iloc[0]:.3g}"


def test_several_seeds_are_drawn_as_their_mean() -> None:
    entry = experiment("chain")
    result = entry.run(entry.options({"layers": 3, "width": 8, "seeds": 4}))
    sizes = result.tables["sizes"]
    line = experiment("chain").pictures(result, "")["chain-sizes"].lines[0]  # type: ignore[attr-defined]
    assert line.name == "forward, measured, mean of 4 seeds"
    for layer in range(4):
        drawn = sizes[(sizes["kind"] == "measured") & (sizes["pass"] == "forward") & (sizes["layer"] == layer)]["rms"]
        assert line.y[layer] == pytest.approx(math.fsum(drawn) / 4, rel=1e-14)


def test_measured_and_predicted_differ_by_more_than_colour() -> None:
    _, result = ran("chain", "He with ReLU")
    traces = experiment("chain").pictures(result, "")["chain-sizes"](theme="light").data
    measured, predicted = traces[0::2], traces[1::2]
    assert {trace.mode for trace in measured} == {"lines+markers"}
    assert {trace.mode for trace in predicted} == {"lines"}
    assert len({trace.marker.symbol for trace in measured}) == 2
    assert {trace.line.dash for trace in measured} == {"solid"}
    assert len({trace.line.dash for trace in predicted} | {"solid"}) == 3


@pytest.mark.parametrize("log_y", [True, False])
def test_points_without_a_place_are_left_out_and_listed(log_y: bool) -> None:
    line = Line(name="a<b", x=[0, 1, 2, 3, 4], y=[1.0, 0.0, -2.0, math.inf, math.nan])
    chart = Chart(title="T", lines=[line], x_title="x", y_title="y", log_y=log_y)
    figure = chart(theme="light")
    assert list(figure.data[0].y) == ([1.0, None, None, None, None] if log_y else [1.0, 0.0, -2.0, None, None])
    assert figure.data[0].name == "a&lt;b"
    hidden = ["a<b at 3, inf", "a<b at 4, nan"]
    assert chart.undrawn == (["a<b at 1, 0", "a<b at 2, -2", *hidden] if log_y else hidden)


def test_bars_stay_visible_under_their_hatching() -> None:
    lines = [Line(name=str(index), x=[index], y=[1.0], index=index, look="bars") for index in range(6)]
    for trace in Chart(title="T", lines=lines, x_title="x", y_title="y")(theme="dark").data:
        assert trace.marker.pattern.shape in ("", None) or trace.marker.pattern.bgcolor == trace.marker.color


@pytest.mark.parametrize(
    "ends", [(1.0, 1.02), (0.9, 7.0), (1e-3, 1e-2), (0.0284, 0.0852), (3e-16, 5e-16), (1e-40, 1e60), (2.0, 2.0)]
)
def test_a_logarithmic_axis_has_at_least_three_ticks_within_its_range(ends: tuple[float, float]) -> None:
    axis = log_axis(ends)
    low, high = axis["range"]
    assert low < math.log10(ends[0]) <= math.log10(ends[1]) < high
    if "tickvals" in axis:
        inside = [tick for tick in axis["tickvals"] if low <= math.log10(tick) <= high]
        assert len(inside) == len(axis["tickvals"]) >= 3
        assert [float(text) for text in axis["ticktext"]] == pytest.approx(axis["tickvals"], rel=1e-5)
    else:
        assert (high - low) / axis["dtick"] >= 3


def test_an_axis_without_a_positive_number_is_left_to_plotly() -> None:
    assert "range" not in log_axis([0.0, -1.0, math.nan])


def test_a_matrix_lists_what_it_cannot_colour_and_tells_large_ones_by_their_extremes() -> None:
    small = Matrix(
        title="M", rows=["a"], columns=["b", "c"], values=[[1.0, math.nan]], x_title="x", y_title="y", bar_title="v"
    )
    assert small.undrawn == ["a, c"]
    assert small.alt == "M. Columns b, c; row a: 1, nan."
    names = [str(index) for index in range(20)]
    values = np.arange(400.0).reshape(20, 20).tolist()
    large = Matrix(title="M", rows=names, columns=names, values=values, x_title="x", y_title="y", bar_title="v")
    assert large.alt == "M. 20 rows and 20 columns, least 0, greatest 399."
    assert large(theme="light").data[0].showscale
    assert not small(theme="light").data[0].showscale


def test_a_grid_keeps_the_order_of_appearance() -> None:
    table = pd.DataFrame({"r": ["b", "b", "a", "a"], "c": ["y", "x", "y", "x"], "v": [1, 2, 3, 4]})
    assert grid(table, "r", "c", "v") == (["b", "a"], ["y", "x"], [[1, 2], [3, 4]])


def test_numbers_too_large_for_a_browsers_table_are_written_out() -> None:
    table = pd.DataFrame({"a": [1.0, 6.39e67], "b": [0.5, 1.5]})
    assert readable(table)["a"].tolist() == ["1", "6.39e+67"]
    assert readable(table)["b"].tolist() == [0.5, 1.5]


def test_steps_taken_hide_what_comes_after() -> None:
    _, result = ran("sigmoid-unit", "saturated")
    for count, points in ((0, 0), (2, 0), (3, 0), (4, 1), (5, 2), (7, 2)):
        part = taken(result, count)
        assert len(part.tables["steps"]) == count
        chart = experiment("sigmoid-unit").pictures(part, "")["sigmoid-unit-curve"]
        assert isinstance(chart, Chart)
        assert [line.look for line in chart.lines].count("points") == points
        assert len(chart.places) == (count >= 3)


@pytest.mark.parametrize(("name", "preset"), [pair for pair in SETTINGS if experiment(pair[0]).published])
def test_printed_values_agree(name: str, preset: str) -> None:
    options, result = ran(name, preset)
    table = experiment(name).published_table(options, result)
    if table is not None:
        assert set(table["agrees"]) == {"yes"}


@pytest.mark.heavy
@pytest.mark.parametrize(("name", "preset"), sorted(SLOW))
def test_slow_printed_values_agree(name: str, preset: str) -> None:
    options, result = ran(name, preset)
    table = experiment(name).published_table(options, result)
    assert table is not None
    assert set(table["agrees"]) == {"yes"}


def test_every_printed_value_is_met_by_some_setting() -> None:
    extra = {"norm-epsilon": [{"norm": norm, "factor": 0.01} for norm in ("layernorm", "rmsnorm")]}
    for name in EXPERIMENTS:
        entry = experiment(name)
        settings = [entry.options(preset=preset) for preset in entry.presets]
        settings += [entry.options(given) for given in extra.get(name, [{}])]
        for figure in entry.published:
            assert any(figure.belongs(options) for options in settings), (name, figure.what)
    for given in extra["norm-epsilon"]:
        options = experiment("norm-epsilon").options(given)
        table = experiment("norm-epsilon").published_table(options, experiment("norm-epsilon").run(options))
        assert table is not None
        assert set(table["agrees"]) == {"yes"}


@pytest.mark.parametrize(
    ("printed", "value", "agrees"),
    [
        ("0.804", 0.80449, True), ("0.804", 0.80451, False), ("6.39e+67", 6.3883e67, True),
        ("0.00087", 0.000864, False), ("208", 207.6, True), ("208", 207.4, False),
        ("1.000", 0.9996, True), ("-0.471", -0.4714, True),
    ],
)  # fmt: skip
def test_agreement_is_to_the_printed_digits(printed: str, value: float, agrees: bool) -> None:
    assert Printed(what="", printed=printed, find=lambda result: 0.0).agrees(value) is agrees


def test_a_printed_value_is_only_shown_for_its_setting() -> None:
    entry = experiment("relu-chain")
    options = entry.options({"layers": 2, "width": 8})
    assert entry.published_table(options, entry.run(options)) is None
    assert experiment("soft-cap").published_table(*ran("soft-cap", "attention")) is None


@pytest.mark.parametrize(
    ("name", "ones"),
    [
        ("norm-placement", {"rows": 1, "seeds": 1}),
        ("decoder-variance", {"blocks": 1}),
        ("residual-ledger", {"blocks": 1}),
        ("linear-chain", {"layers": 1}),
        ("sharded-moments", {"ranks": 1}),
        ("residual-once", {"ranks": 1}),
    ],
)
def test_one_of_a_thing_is_told_in_the_singular(name: str, ones: dict[str, object]) -> None:
    subject = experiment(name).subject(experiment(name).options(ones))
    assert re.search(r"\b1 [a-z]+", subject)
    assert not re.search(r"(?<![\d.])1 [a-z]+s\b", subject)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_notes_speak_to_a_reader_and_name_no_column_of_a_file(name: str) -> None:
    _, result = ran(name, next(iter(experiment(name).presets)))
    assert not [note for note in result.notes if "`" in note or re.search("[a-z]_[a-z]", note)]


def test_the_offsets_of_one_pass_are_ticks_short_enough_for_a_telephone() -> None:
    _, result = ran("one-pass-moments", "usual")
    pictures = experiment("one-pass-moments").pictures(result, "")
    ticks = list(next(iter(pictures.values()))().data[0].x)
    assert ticks[:5] == ["0", "1", "10", "10²", "10³"]
    assert max(map(len, ticks)) <= 3
