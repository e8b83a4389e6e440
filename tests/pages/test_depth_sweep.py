"""The sweep's page estimates before it runs, shows the core's numbers, stops and resumes, and never computes twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.decoder.base_draw import Distribution
from core.decoder.config import DecoderConfig
from core.sweep.grid import SweepGrid
from core.sweep.interactive import InteractiveSweep
from core.sweep.run import SweepRun
from core.sweep.store import Store
from core.tables.sweep import quantile_view, series_table
from pages.depth_sweep import cell, controls, form
from tests.pages.conftest import ROOT, Open
from tests.pages.support import assert_no_trace, change, figures, sentences

PAGE = "pages/depth_sweep/depth_sweep.py"
SMALL = {"sweep_blocks": "1,2,4", "sweep_seeds": "0:6"}
GRID = SweepGrid(blocks=(1, 2, 4), seeds=tuple(range(6)))


@pytest.fixture(autouse=True)
def store_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of the test's own."""
    place = tmp_path / "cells.sqlite"
    monkeypatch.setenv("DEPTHSCOPE_STORE", str(place))
    return place


@pytest.fixture
def expected(tmp_path: Path) -> SweepRun:
    """The same sweep by the core alone, in another store."""
    run = SweepRun(GRID, Store.open(tmp_path / "expected.sqlite"))
    while run.pending:
        run.step(10)
    return run


def press(app: AppTest, key: str) -> AppTest:
    """Press a button; while a sweep runs, run the script again and again as the page's timer does."""
    app.button(key=key).click().run()
    while any(button.key == "sweep-cancel" for button in app.button):
        app.run()
    assert_no_trace(app)
    return app


def line(figure: dict[str, Any], name: str) -> list[float]:
    (found,) = [trace for trace in figure["data"] if trace.get("name") == name and trace.get("customdata")]
    return list(found["y"])


def stored(place: Path) -> int:
    with Store.open(place) as store:
        return store.count()


def one_pass_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the page stop itself after one slice of one pass, as a person does who presses Cancel."""
    advance = InteractiveSweep.advance

    def stopping(sweep: InteractiveSweep, seconds: float = 0.0) -> None:
        advance(sweep, 0.0)
        sweep.cancel()

    monkeypatch.setattr(InteractiveSweep, "advance", stopping)


def test_an_estimate_stands_before_anything_is_computed(open_app: Open, store_file: Path) -> None:
    app = open_app(PAGE, **SMALL)
    assert_no_trace(app)
    shown = {metric.label: metric.value for metric in app.metric}
    assert shown["Cells"] == shown["To compute"] == "36"
    assert shown["In the store"] == "0"
    assert shown["Table rows"] == str(2 * 6 * (3 + 5 + 9))
    assert shown["Time, one core"].endswith(" s")
    assert not figures(app)
    assert stored(store_file) == 0


def test_a_run_ends_in_the_cores_numbers(open_app: Open, store_file: Path, expected: SweepRun) -> None:
    app = press(open_app(PAGE, **SMALL), "sweep-run")
    assert sentences(app, "success")[0].startswith("Complete: 36 of 36 cells")
    assert stored(store_file) == 36
    summary = series_table(expected.summary(), ())
    drawn = figures(app)
    for figure, quantity in zip(drawn, ("largest_activation_ratio", "largest_adjoint_ratio"), strict=True):
        for name in ("depth-scaled", "unscaled"):
            rows = summary[(summary["recipe"] == name) & (summary["quantity"] == quantity)]
            assert line(figure, name) == rows["median"].tolist()
        assert (figure["layout"]["xaxis"]["type"], figure["layout"]["yaxis"]["type"]) == ("log", "log")
    view = quantile_view(summary, ("largest_activation_ratio", "largest_adjoint_ratio"))
    assert app.dataframe[0].value.to_dict("list") == view.to_dict("list")


def test_a_second_visit_is_answered_from_the_store(open_app: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    press(open_app(PAGE, **SMALL), "sweep-run")
    monkeypatch.setattr(SweepRun, "step", lambda *_: pytest.fail("computed again"))
    app = open_app(PAGE, **SMALL)
    assert_no_trace(app)
    assert sentences(app, "success")[0].startswith("Complete: 36 of 36 cells")
    assert len(figures(app)) == 2


def test_a_cancelled_sweep_shows_what_finished_and_goes_on(
    open_app: Open, store_file: Path, expected: SweepRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        one_pass_at_a_time(patch)
        app = press(open_app(PAGE, **SMALL), "sweep-run")
        assert app.button(key="sweep-run").label == "Continue"
        assert {metric.label: metric.value for metric in app.metric}["To compute"] == "24"
        assert stored(store_file) == 12
        rows = expected.summary()
        rows = rows[(rows["quantity"] == "largest_activation_ratio") & (rows["blocks"] == 4)]
        assert line(figures(app)[0], "depth-scaled") == rows["median"].tolist()[:1]
    press(app, "sweep-run")
    assert sentences(app, "success")[0].startswith("Complete: 36 of 36 cells")


@pytest.mark.parametrize(
    ("view", "titles"),
    [
        ("Depth by seed", ["Largest activation ratio", "Largest adjoint ratio"]),
        ("One depth", ["Largest activation ratio", "Largest adjoint ratio"]),
        ("Within the band", ["Seeds wholly within the band"]),
        ("Growth", ["Growth of the largest activation ratio", "Growth of the input's adjoint ratio"]),
        ("Differences", [f"Largest {which} ratio, recipe minus control" for which in ("activation", "adjoint")]),
        ("Rows and refusals", []),
    ],
)  # fmt: skip
def test_every_view_draws_what_its_name_says(open_app: Open, view: str, titles: list[str]) -> None:
    app = press(open_app(PAGE, sweep_view=view, **SMALL), "sweep-run")
    assert [figure["layout"]["title"]["text"].split("<")[0] for figure in figures(app)] == titles


def test_the_growth_view_labels_fits_and_derived_laws(open_app: Open, expected: SweepRun) -> None:
    app = press(open_app(PAGE, sweep_view="Growth", **SMALL), "sweep-run")
    table = app.dataframe[0].value
    fits = expected.growth().query("kind == 'fit'")
    assert table["fitted"].tolist() == fits["exponent"].tolist()
    assert "derived" in table.columns


def test_refused_cells_are_listed_with_their_reason(open_app: Open) -> None:
    app = press(open_app(PAGE, sweep_recipes="deepscalelm", sweep_view="Rows and refusals", **SMALL), "sweep-run")
    assert "6 refused" in sentences(app, "success")[0]
    assert any(text.startswith("Refused: 6 cells of deepscalelm at L = 1.") for text in sentences(app, "info"))
    assert "needs at least 2 blocks" in app.dataframe[0].value["reason"].iloc[0]


def test_a_link_sets_the_axes_and_the_model_has_everything_else(open_app: Open) -> None:
    axes = {"sweep_blocks": "2,3", "sweep_seeds": "7,18446744073709551615", "sweep_recipes": "gpt2"}
    sizes = {"width": "8", "heads": "2", "kv_heads": "1", "ff_width": "12", "vocabulary": "300", "positions": "9"}
    rest = {
        "base_std": "0.02", "dtype": "float32", "batch": "random", "context": "5", "rows": "2", "band_lower": "0.5",
        "band_upper": "20.0",
    }  # fmt: skip
    assert set(axes) == {control.name for control in controls.AXES}
    app = open_app(**sizes, **rest)
    for name, value in axes.items():
        app.query_params[name] = value
    app.switch_page(str(ROOT / PAGE)).run()
    assert_no_trace(app)
    grid = app.session_state[form.SWEEP][1].grid
    assert (grid.blocks, grid.seeds, grid.recipes) == ((2, 3), (7, 2**64 - 1), ("gpt2",))
    config = DecoderConfig(blocks=1, **{name: int(value) for name, value in sizes.items()})
    assert grid.sizes == (config,)
    assert (grid.dtypes, grid.distribution) == (("float32",), Distribution(0.02))
    assert [batch.inputs.shape for batch in grid.batches] == [(2, 5)]
    assert (grid.band.lower, grid.band.upper) == (0.5, 20.0)


@pytest.mark.parametrize(
    ("link", "sentence"),
    [
        ({"sweep_blocks": "1,1"}, "1 stands twice among the blocks"),
        ({"sweep_blocks": "10000000000000000000000"}, "blocks is 10000000000000000000000; it must lie between 1"),
        ({"sweep_blocks": "<script>alert(1)</script>"}, "which is not a whole number"),
        ({"sweep_seeds": "0:1000000000000"}, "are more than 32,768; give fewer"),
        ({"sweep_seeds": "![x](http://example.invalid/a.png)"}, "is not a whole number"),
        ({"heads": "3"}, "width 4 is not a multiple of heads 3"),
        ({"sweep_recipes": "no-such"}, "The recipe 'no-such' is unknown"),
        ({"band_lower": "10.0", "band_upper": "1.0"}, "lower limit 10 is above its upper limit 1"),
    ],
)
def test_a_link_that_makes_no_sweep_is_one_sentence(open_app: Open, link: dict[str, str], sentence: str) -> None:
    app = open_app(PAGE, **link)
    assert_no_trace(app)
    found = sentences(app)
    assert sentence in found[0]
    assert len(found) == (2 if "sweep_recipes" in link else 1)
    assert not figures(app)


@pytest.mark.parametrize(
    ("link", "sentence"),
    [
        ({"sweep_seeds": "0:32000"}, "448,000 cells and a page takes 32,768"),
        ({"sweep_blocks": "4000"}, "One pass takes about"),
    ],
)
def test_more_than_the_page_grants_is_one_sentence(open_app: Open, link: dict[str, str], sentence: str) -> None:
    app = open_app(PAGE, **link)
    assert_no_trace(app)
    assert any(sentence in text for text in sentences(app))
    assert not [button for button in app.button if button.key == "sweep-run" and not button.disabled]


def test_a_store_that_cannot_be_opened_is_one_sentence(
    open_app: Open, store_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_file.write_text("not a database, and long enough to be looked at as one" * 20)
    app = open_app(PAGE, **SMALL)
    assert_no_trace(app)
    assert len(sentences(app)) == 1
    assert "is not a store of cells" in sentences(app)[0]


def test_another_grid_reads_what_it_shares_and_the_band_alone_computes_nothing(open_app: Open) -> None:
    app = press(open_app(PAGE, **SMALL), "sweep-run")
    app.text_input(key="sweep_seeds").set_value("0:8")
    press(app, "sweep-set")
    assert {metric.label: metric.value for metric in app.metric}["To compute"] == "12"
    app.text_input(key="sweep_seeds").set_value("0:6")
    press(app, "sweep-set")
    change(app, "Input, seeds and band").number_input(key="band_upper").set_value(5.0).run()
    assert sentences(app, "success")[0].startswith("Complete: 36 of 36 cells")
    assert any("within [0.01, 5]" in str(text.value).replace("\\", "") for text in app.markdown)


def test_a_cell_opens_on_residual_health(open_app: Open) -> None:
    app = press(open_app(PAGE, sweep_view="Depth by seed", width="8", heads="2", **SMALL), "sweep-run")
    app.selectbox(key="sweep_depth").set_value("2").run()
    app.selectbox(key="sweep_seed").set_value("5").run()
    press(app, "open-cell")
    assert app.title[0].value == "Health"
    assert "L = 2 blocks, seed 5" in figures(app)[0]["layout"]["title"]["text"]
    assert app.session_state["width"] == 8
    assert app.selectbox(key="recipe").value == "depth-scaled"


def test_a_cell_of_a_combination_opens_with_the_combination(open_app: Open) -> None:
    app = press(open_app(PAGE, sweep_recipes="gpt2+lns", sweep_view="Depth by seed", **SMALL), "sweep-run")
    cells = SweepGrid(blocks=(1, 2, 4), seeds=tuple(range(6)), recipes=("lns+gpt2",))
    press(app, "open-cell")
    assert app.title[0].value == "Health"
    assert app.selectbox(key="recipe").value == cells.recipes[0]
    assert "damped twice" in " ".join(sentences(app, "warning"))


def test_a_large_seed_comes_along(open_app: Open) -> None:
    app = open_app(
        PAGE, sweep_blocks="2", sweep_seeds="18446744073709551615", sweep_view="Depth by seed", batch="random"
    )
    press(press(app, "sweep-run"), "open-cell")
    assert app.title[0].value == "Health"
    assert app.session_state["seed64"] == "18446744073709551615"
    assert app.session_state["batch"] == "random"
    assert "seed 18446744073709551615" in figures(app)[0]["layout"]["title"]["text"]


def test_a_cell_that_residual_health_cannot_show_says_so(open_app: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    bounded = tuple(replace(one, upper=128) if one.name == "blocks" else one for one in cell.shared.MODEL)
    monkeypatch.setattr(cell, "shared", SimpleNamespace(MODEL=bounded, SEED=cell.shared.SEED))
    app = open_app(PAGE, sweep_blocks="1,129", sweep_seeds="1", sweep_view="Depth by seed")
    press(press(app, "sweep-run"), "open-cell")
    assert app.title[0].value == "Depth sweep"
    assert "cannot show that cell. blocks is 129; it must lie between 1 and 128" in sentences(app)[0]


def test_the_sweep_goes_on_where_it_stood_after_another_page(open_app: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    one_pass_at_a_time(monkeypatch)
    app = press(open_app(PAGE, **SMALL), "sweep-run")
    root = Path(__file__).resolve().parents[2]
    app.switch_page(str(root / "pages/residual_health/residual_health.py")).run()
    app.switch_page(str(root / PAGE)).run()
    assert_no_trace(app)
    assert {metric.label: metric.value for metric in app.metric}["In the store"] == "12"
