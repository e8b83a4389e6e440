"""The landing page shows the core's numbers, obeys its link and answers bad input with one sentence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.decoder.base_draw import Distribution
from core.decoder.config import DecoderConfig
from core.decoder.twin import reduced_twin
from core.export.bundle import bundle_files
from core.export.manifest import Export, SavedSetting
from core.export.observe import observe_contents
from core.export.pictures import IMAGES
from core.figures.sites import ratio_figure
from core.health.band import DEFAULT_BAND
from core.health.report import observe_document
from core.health.request import ObserveRequest
from core.health.seeds import observe_seeds
from core.health.verdict_words import verdict_sentences
from core.sweep.request import uniform_batch
from core.tables.observe import site_table, site_view
from core.tables.seeds import ribbon_table
from pages.common import model, model_controls, twins
from pages.common.outputs import figure_file
from tests.pages.conftest import Open
from tests.pages.support import assert_no_trace, change, downloads, figures, finished, sentences
from tests.support import run_cli


def line(figure: dict[str, Any], name: str) -> list[float]:
    """The values of a figure's line by its name in the legend."""
    (found,) = [trace for trace in figure["data"] if trace.get("name") == name and "lines" in trace.get("mode", "")]
    return list(found["y"])


def verdict(app: AppTest) -> str:
    """The first sentence of the verdict over seeds."""
    heads = (said for kind in ("success", "warning", "error") for said in sentences(app, kind))
    return next(said for said in heads if said.startswith("**"))


def test_the_page_opens_on_the_narrow_eight_block_fixture(open_app: Open) -> None:
    app = open_app()
    assert_no_trace(app)
    assert app.title[0].value == "Health"
    expected = site_table(observe_document(ObserveRequest()))
    tables = [element.value for element in app.dataframe]
    view = next(table for table in tables if "G ratio" in table.columns)
    assert view.to_dict("list") == site_view(expected).to_dict("list")
    drawn = figures(app)
    assert [figure["layout"]["title"]["text"].split("<")[0] for figure in drawn] == [
        "Activation ratio",
        "Adjoint ratio",
    ]
    scaled = expected[expected["arm"] == "initialized"]
    assert line(drawn[0], "depth-scaled") == scaled["activation_ratio"].tolist()
    assert line(drawn[1], "depth-scaled") == scaled["adjoint_ratio"].tolist()
    (said,) = sentences(app, "warning")
    arms = observe_seeds(ObserveRequest(), range(4701, 4733))
    assert said.startswith(f"**{verdict_sentences(arms[0].verdict)[0]}**")
    ribbon = ribbon_table(arms)
    rows = ribbon[(ribbon["recipe"] == "depth-scaled") & (ribbon["quantity"] == "activation")]
    (filled,) = [one for one in drawn[0]["data"] if one.get("name") == "depth-scaled, 5 to 95 % of 32 seeds"]
    assert set(rows["q95"]) | set(rows["q05"]) == set(filled["y"])


def test_the_depth_slider_changes_chart_table_and_verdict(open_app: Open) -> None:
    app = open_app()
    app.selectbox(key="recipe").set_value("unscaled").run()
    app.slider(key="blocks").set_value(64).run()
    assert_no_trace(app)
    assert "L = 64 blocks" in figures(app)[0]["layout"]["title"]["text"]
    assert max(len(element.value) for element in app.dataframe) == 129
    assert verdict(app).startswith("**Outside the band")


@pytest.mark.parametrize(
    ("view", "drawn", "tables"),
    [
        ("Ratios", 2, 3), ("Absolute RMS", 2, 1), ("Contributions", 2, 1), ("Reference site", 2, 1),
        ("The block", 1, 1), ("Mend it", 0, 0), ("Runs", 0, 0),
    ],
)  # fmt: skip
def test_every_view_opens_from_a_link_with_its_figures_and_tables(
    open_app: Open, view: str, drawn: int, tables: int
) -> None:
    app = open_app(view=view, blocks="8", recipe="unscaled", block="7", reference="previous site")
    assert_no_trace(app)
    assert not app.error
    assert len(figures(app)) == drawn
    assert len(app.dataframe) == tables
    if view == "Absolute RMS":
        assert "The loss is the mean over 4 valid targets" in sentences(app, "info")[0]


def test_a_link_sets_every_shared_control(open_app: Open) -> None:
    link = {
        "blocks": "1", "seed": "7", "recipe": "gpt2", "width": "8", "heads": "2", "kv_heads": "1", "ff_width": "12",
        "vocabulary": "300", "positions": "9", "seed64": "18446744073709551615", "dtype": "float32",
        "band_lower": "0.5", "band_upper": "20",
    }  # fmt: skip
    app = open_app(**link)
    assert_no_trace(app)
    config = DecoderConfig(blocks=1, width=8, heads=2, kv_heads=1, ff_width=12, vocabulary=300, positions=9)
    expected = observe_document(ObserveRequest(config=config, seed=2**64 - 1, recipe="gpt2", dtype="float32"))
    assert line(figures(app)[0], "gpt2") == [s["activation_ratio"] for s in expected["initialized"]["sites"]]
    assert "band 0.5 to 20" in [trace["name"] for trace in figures(app)[0]["data"]]


@pytest.mark.parametrize(
    ("link", "sentence"),
    [
        ({"heads": "3"}, "width 4 is not a multiple of heads 3"),
        ({"heads": "4", "kv_heads": "4"}, "head_dim 1 is odd"),
        ({"heads": "2", "kv_heads": "2", "width": "6"}, "head_dim 3 is odd"),
        ({"vocabulary": "50"}, "outside the vocabulary of 50"),
        ({"seed64": "-1"}, "The seed -1 is outside 0 to 2^64 - 1"),
        ({"seed64": "18446744073709551616"}, "outside 0 to 2^64 - 1"),
        ({"seed64": "![x](http://example.invalid/a.png)"}, "is not a whole number"),
        ({"recipe": "deepscalelm", "blocks": "1"}, "needs at least 2 blocks"),
        ({"recipe": "t-fixup"}, "T-Fixup sets encoder-decoder weights, and this is a decoder-only stack"),
        ({"width": "16384", "ff_width": "65536", "blocks": "1024", "seeds": "256"}, "Even a narrow twin of these 1024"),
        ({"band_lower": "10", "band_upper": "1"}, "lower limit 10 is above its upper limit 1"),
        ({"batch": "uploaded"}, "a link does not carry"),
    ],
)
def test_a_setting_that_cannot_run_is_one_sentence(open_app: Open, link: dict[str, str], sentence: str) -> None:
    app = open_app(**link)
    assert_no_trace(app)
    found = sentences(app)
    assert len(found) == 1
    assert sentence in found[0]
    assert not figures(app)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("blocks", "1000000000"), ("blocks", "0"), ("blocks", "nan"), ("blocks", "1e400"), ("width", "1e999"),
        ("heads", "-inf"), ("band_lower", "inf"), ("band_upper", "nan"), ("seed", "-3"),
        ("width", "99999999999999999999"), ("dtype", "float8"), ("recipe", "<script>alert(1)</script>"),
        ("recipe", "peri-norm+post-norm"), ("tied", "perhaps"), ("base_std", "-1"),
    ],
)  # fmt: skip
def test_a_link_that_no_control_can_take_is_named_and_the_default_used(open_app: Open, name: str, value: str) -> None:
    app = open_app(**{name: value})
    assert_no_trace(app)
    notices = sentences(app, "info")
    assert len(notices) == 1
    assert notices[0].startswith(f"The link asks for {name} = ")
    assert len(figures(app)) == 2


def test_a_model_too_large_for_an_answer_at_once_is_shown_as_its_twin(open_app: Open) -> None:
    app = open_app(model="gpt2", seeds="2")
    assert_no_trace(app)
    assert not app.error
    true = model.KNOWN["gpt2"].plan.config
    request = ObserveRequest(
        config=true, recipe="gpt2", distribution=Distribution(0.02), batch=uniform_batch(1, 32, true.vocabulary)
    )
    width = twins.answered(request, 2).config.width
    twin = reduced_twin(true, width, vocabulary=1000, positions=64)
    wider = replace(request, config=reduced_twin(true, 2 * width, vocabulary=1000, positions=64))
    assert twins.at_once(replace(request, config=twin), 2)
    assert not twins.at_once(wider, 2)
    expected = observe_document(replace(request, config=twin, batch=uniform_batch(1, 32, 1000)))
    ratios = [site["activation_ratio"] for site in expected["initialized"]["sites"]]
    assert ratios in [trace["y"] for trace in figures(app)[0]["data"]]
    said = next(text.value.replace("\\", "") for text in app.caption if "reduced twin" in text.value)
    assert "width 768 and 124,439,808 parameters" in said
    assert f"at width {width}" in said
    assert verdict(app)


def test_typed_rows_and_text_are_observed(open_app: Open) -> None:
    app = change(open_app(batch="rows"), "Input, seeds and band")
    app.text_input(key="inputs").set_value("0,5;7").run()
    assert "inputs has 2 rows but targets has 1" in sentences(app)[0] or "rows" in sentences(app)[0]
    change(app, "Input, seeds and band").text_input(key="targets").set_value("5,1;9").run()
    assert_no_trace(app)
    assert len(figures(app)) == 2
    change(app, "Input, seeds and band").selectbox(key="batch").set_value("text").run()
    change(app, "Input, seeds and band").text_input(key="text").set_value("").run()
    assert "The text is empty" in sentences(app)[0]


def test_no_module_of_a_page_imports_torch_before_the_first_observation() -> None:
    import subprocess
    import sys

    code = (
        "import sys; import pages.common.model_controls, pages.common.cached, core.export.observe; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.heavy
def test_gpt2_small_runs_at_its_true_size_on_request(open_app: Open) -> None:
    """The decoder of 124 million parameters, in a separate process; its numbers are those of a direct call."""
    app = open_app(model="gpt2", seeds="1", dtype="float32")
    app.session_state["true-size"] = True
    app.run()
    assert sentences(app, "info")[-1].startswith("Nothing was run yet.")
    app.button(key="run-it").click().run()
    assert app.button(key="cancel-run").label == "Cancel"
    finished(app)
    assert_no_trace(app)
    expected = observe_document(model_controls.request_of({**model.KNOWN["gpt2"].values, "dtype": "float32"}))
    ratios = [site["activation_ratio"] for site in expected["initialized"]["sites"]]
    assert line(figures(app)[0], "gpt2") == pytest.approx(ratios, rel=1e-4)
    assert len(ratios) == 25


def test_a_combination_is_observed_with_its_warnings(open_app: Open) -> None:
    app = open_app(recipe="gpt2+peri-norm", blocks="4")
    assert_no_trace(app)
    assert len(figures(app)) == 2
    warnings = " ".join(sentences(app, "warning"))
    assert "no effect: gpt2 scales the output and down writers" in warnings
    assert "a norm on the branch output divides their scale out" in warnings
    app.selectbox(key="recipe").set_value("gpt2").run()
    assert "no effect" not in " ".join(sentences(app, "warning"))


def test_a_recipe_that_belongs_elsewhere_is_refused_with_its_reason(open_app: Open) -> None:
    app = open_app(recipe="t-fixup")
    assert_no_trace(app)
    (sentence,) = sentences(app)
    assert "T-Fixup sets encoder-decoder weights, and this is a decoder-only stack" in sentence
    assert not figures(app)


def test_a_figure_s_menu_the_zip_and_the_command_line_give_the_same_files(open_app: Open, tmp_path: Path) -> None:
    app = open_app(blocks="3", view="Ratios")
    labels = downloads(app)
    assert labels["PNG"] == labels["SVG"] == labels["PDF"] == labels["Data as JSON"] == 2
    document = observe_document(ObserveRequest(config=DecoderConfig(blocks=3)))
    outcome = run_cli("observe", "--blocks", 3, "--figures", tmp_path)
    assert (outcome.status, outcome.err) == (0, "")
    picture = ratio_figure.chart(site_table(document), DEFAULT_BAND, "adjoint")
    export = Export(page="residual_health", saved=SavedSetting(setting={}))
    for kind in IMAGES:
        assert figure_file(picture, kind) == (tmp_path / f"adjoint-ratio.{kind}").read_bytes()
    zipped = bundle_files(observe_contents(document), export)["figures/adjoint-ratio.svg"]
    assert zipped == (tmp_path / "adjoint-ratio.svg").read_bytes()
