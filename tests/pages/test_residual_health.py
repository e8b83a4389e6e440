"""The landing page shows the core's numbers, obeys its link and answers bad input with one sentence."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from core.decoder.config import DecoderConfig
from core.export.bundle import bundle_files
from core.export.manifest import Export, SavedSetting
from core.export.observe import observe_contents
from core.export.pictures import IMAGES
from core.figures.sites import ratio_figure
from core.health.band import DEFAULT_BAND
from core.health.report import observe_document
from core.health.request import ObserveRequest
from core.tables.observe import site_table, site_view
from pages.common import jobs, settings
from pages.common.outputs import figure_file
from tests.pages.conftest import Open
from tests.pages.support import assert_no_trace, downloads, figures, sentences
from tests.support import run_cli


def test_the_page_opens_on_the_narrow_eight_block_fixture(open_app: Open) -> None:
    app = open_app()
    assert_no_trace(app)
    assert app.title[0].value == "Residual health"
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
    assert drawn[0]["data"][0]["y"] == scaled["activation_ratio"].tolist()
    assert drawn[1]["data"][0]["y"] == scaled["adjoint_ratio"].tolist()
    assert sentences(app, "success")[0].startswith("**Every ratio of the depth-scaled arm lies within the band")


def test_the_depth_slider_changes_chart_table_and_verdict(open_app: Open) -> None:
    app = open_app()
    app.selectbox(key="recipe").set_value("unscaled").run()
    app.slider(key="blocks").set_value(32).run()
    assert_no_trace(app)
    assert "L = 32 blocks" in figures(app)[0]["layout"]["title"]["text"]
    assert max(len(element.value) for element in app.dataframe) == 65
    assert "leaves the band at" in sentences(app, "warning")[0]


@pytest.mark.parametrize(
    ("view", "drawn", "tables"),
    [
        ("Ratios", 2, 2), ("Absolute RMS", 2, 1), ("Contributions", 2, 1), ("Reference site", 2, 1),
        ("The block", 1, 1), ("Mend it", 0, 1), ("Pins", 0, 0),
    ],
)  # fmt: skip
def test_every_view_opens_from_a_link_with_its_figures_and_tables(
    open_app: Open, view: str, drawn: int, tables: int
) -> None:
    app = open_app(view=view, blocks="32", recipe="unscaled", block="31", reference="previous site")
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
    assert figures(app)[0]["data"][0]["y"] == [s["activation_ratio"] for s in expected["initialized"]["sites"]]
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
        (
            {"recipe": "<script>alert(1)</script>"},
            "The recipe '<script>alert(1)</script>' is unknown; all are listed by",
        ),
        ({"recipe": "peri-norm+post-norm"}, "both change the graph"),
        ({"width": "16384", "ff_width": "65536", "blocks": "128"}, "exceed the budget"),
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
        ("width", "99999999999999999999"), ("dtype", "float8"),
    ],
)  # fmt: skip
def test_a_link_that_no_control_can_take_is_named_and_the_default_used(open_app: Open, name: str, value: str) -> None:
    app = open_app(**{name: value})
    assert_no_trace(app)
    notices = sentences(app, "info")
    assert len(notices) == 1
    assert notices[0].startswith(f"The link asks for {name} = ")
    assert len(figures(app)) == 2


def test_a_large_decoder_waits_for_a_click(open_app: Open) -> None:
    app = open_app()
    app.selectbox(key="preset").set_value("GPT-2-small shape, 12 blocks of width 768").run()
    assert_no_trace(app)
    assert sentences(app, "info")[0].startswith("Nothing was run yet. This decoder needs about")
    assert app.button(key="run-it").label == "Run it"
    assert not figures(app)


def test_typed_rows_and_text_are_observed(open_app: Open) -> None:
    app = open_app(batch="rows")
    app.text_input(key="inputs").set_value("0,5;7").run()
    assert "Row 0 has 2 inputs but 4 entries of targets" in sentences(app)[0] or "rows" in sentences(app)[0]
    app.text_input(key="targets").set_value("5,1;9").run()
    assert_no_trace(app)
    assert len(figures(app)) == 2
    app.selectbox(key="batch").set_value("text").run()
    app.text_input(key="text").set_value("").run()
    assert "The text is empty" in sentences(app)[0]


def test_no_module_of_a_page_imports_torch_before_the_first_observation() -> None:
    import subprocess
    import sys

    code = (
        "import sys; import pages.common.decoder_controls, pages.common.cached, core.export.observe; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.heavy
def test_the_gpt2_small_preset_runs_to_its_end_on_request(open_app: Open) -> None:
    """The decoder of 124 million parameters, in a separate process; its numbers are those of a direct call."""
    name = "GPT-2-small shape, 12 blocks of width 768"
    app = open_app()
    app.selectbox(key="preset").set_value(name).run()
    assert sentences(app, "info")[0].startswith("Nothing was run yet.")
    app.button(key="run-it").click().run()
    assert app.button(key="cancel-run").label == "Cancel"
    deadline = time.monotonic() + jobs.LONGEST_SECONDS
    while not figures(app) and time.monotonic() < deadline:
        time.sleep(1)
        app.run()
    assert_no_trace(app)
    assert len(figures(app)) == 2
    expected = observe_document(settings.request_of(SavedSetting(setting=settings.PRESETS[name])))
    ratios = [site["activation_ratio"] for site in expected["initialized"]["sites"]]
    assert figures(app)[0]["data"][0]["y"] == pytest.approx(ratios, rel=1e-4)
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
