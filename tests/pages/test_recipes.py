"""The page Recipes shows the core's numbers, warns where recipes are chosen, and computes the open view alone."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from core.compare.card import card
from core.compare.combinations import combination_report
from core.compare.difference import difference_table
from core.decoder.config import DecoderConfig
from core.health.report import observe_document
from core.health.request import ObserveRequest
from core.recipes.catalogue import RECIPES
from core.recipes.variants import VARIANTS
from core.sweep.allowance import Allowance
from pages.recipes import controls
from pages.recipes.tabs import TABS
from tests.pages.conftest import ROOT, Open
from tests.pages.support import assert_no_trace, figures, sentences

PAGE = str(ROOT / "pages" / "recipes" / "recipes.py")
FEW = {"compare": ["unscaled", "gpt2"], "seeds": "3"}


def opened(open_app: Open, **parameters: str | list[str]) -> AppTest:
    """The page as a link with these parameters opens it; those of the shared sidebar are read on the way."""
    own = {control.name for control in controls.CONTROLS} | {"compare_view"}
    app = open_app(**{name: value for name, value in parameters.items() if name not in own})
    for name in own & parameters.keys():
        app.query_params[name] = parameters[name]
    return app.switch_page(PAGE).run()


def lines(figure: dict[str, object]) -> dict[str, list[float]]:
    """Values of a figure by the names in its legend."""
    return {trace["name"]: trace["y"] for trace in figure["data"] if trace.get("name")}  # type: ignore[index, attr-defined]


def texts(app: AppTest) -> str:
    """All markdown of the page, backslashes taken out."""
    return "\n".join(element.value for element in app.markdown).replace("\\", "")


def test_the_page_opens_with_six_recipes_at_the_sidebars_depth(open_app: Open) -> None:
    app = opened(open_app)
    assert_no_trace(app)
    assert app.title[0].value == "Recipes"
    assert app.multiselect(key="compare").value == list(controls.COMPARED.default)
    activation, adjoint = figures(app)
    assert "L = 8 blocks, medians over 32 seeds" in activation["layout"]["title"]["text"]
    documents = [observe_document(ObserveRequest(seed=4701 + index)) for index in range(32)]
    for figure, quantity in ((activation, "activation"), (adjoint, "adjoint")):
        ratios = [[site[f"{quantity}_ratio"] for site in one["initialized"]["sites"]] for one in documents]
        np.testing.assert_allclose(lines(figure)["depth-scaled"], np.median(ratios, axis=0), rtol=1e-9)
    overview = next(table.value for table in app.dataframe if "law" in table.value.columns)
    assert overview["recipe"].tolist() == list(controls.COMPARED.default)


def test_the_page_has_no_recipe_of_its_sidebar(open_app: Open) -> None:
    app = opened(open_app, **FEW)
    assert "recipe" not in [element.key for element in app.selectbox]
    assert "blocks" in [element.key for element in app.slider]


def test_the_sidebar_sets_the_decoder(open_app: Open) -> None:
    app = opened(open_app, **FEW, blocks="3", width="8", heads="2", kv_heads="2")
    assert_no_trace(app)
    config = DecoderConfig(blocks=3, width=8, heads=2, kv_heads=2)
    documents = [observe_document(ObserveRequest(config=config, seed=4701 + i, recipe="gpt2")) for i in range(3)]
    ratios = [[site["activation_ratio"] for site in one["initialized"]["sites"]] for one in documents]
    np.testing.assert_allclose(lines(figures(app)[0])["gpt2"], np.median(ratios, axis=0), rtol=1e-9)
    app.slider(key="blocks").set_value(5).run()
    assert "L = 5 blocks" in figures(app)[0]["layout"]["title"]["text"]


def test_a_combination_shows_its_computed_warnings(open_app: Open) -> None:
    app = opened(open_app, compare=["lns+gpt2", "unscaled"], seeds="2", compare_view="Contracts")
    assert_no_trace(app)
    report = combination_report(ObserveRequest(recipe="lns+gpt2"))
    assert report.warnings
    shown = sentences(app, "warning")
    for warning in report.warnings:
        assert f"**lns+gpt2** {warning.sentence}" in shown
    captions = [element.value.replace("\\", "") for element in app.caption]
    assert any(report.effects[0].place in caption for caption in captions)


def test_warnings_stand_in_every_view(open_app: Open) -> None:
    for view in TABS:
        app = opened(open_app, compare=["t-fixup", "gpt2"], seeds="2", compare_depths="1,2", compare_view=view)
        assert_no_trace(app)
        assert sentences(app, "warning")[0].startswith("**t-fixup** T-Fixup sets encoder-decoder weights")


@pytest.mark.parametrize(
    ("chosen", "sentence"),
    [
        (["gpt2", "![x](http://example.invalid/a.png)"], "The recipe '![x](http://example.invalid/a.png)' is unknown"),
        (["gpt2", "unscaled+gpt2"], "unscaled+gpt2 is gpt2, which is chosen already."),
        (["gpt2", "deepnorm+peri-norm"], "both change the graph"),
    ],
)
def test_a_name_that_is_no_recipe_is_one_sentence_and_the_others_stay(
    open_app: Open, chosen: list[str], sentence: str
) -> None:
    app = opened(open_app, compare=chosen, seeds="2")
    assert_no_trace(app)
    assert sentence in sentences(app)[0]
    assert len(sentences(app)) == 1
    assert next(iter(lines(figures(app)[0]))) == "gpt2"


def test_without_a_recipe_the_page_asks_for_one(open_app: Open) -> None:
    app = opened(open_app)
    app.multiselect(key="compare").set_value([]).run()
    assert_no_trace(app)
    assert sentences(app, "info") == ["Choose at least one recipe above."]
    assert not figures(app)


def test_cards_have_a_diagram_laws_and_words_and_say_why_a_recipe_is_refused(open_app: Open) -> None:
    app = opened(open_app, compare=["deepnorm", "admin", "t-fixup"], compare_view="Contracts")
    assert_no_trace(app)
    assert [element.value for element in app.subheader][:3] == [
        "DeepNorm, decoder only", "Admin", "T-Fixup",
    ]  # fmt: skip
    assert len(figures(app)) == 2
    laws = next(table.value for table in app.dataframe if "law" in table.value.columns)
    row = laws[laws["acts on"] == "shortcut coefficient"].iloc[0]
    assert row["factor, first block"] == pytest.approx(16**0.25)
    words = texts(app)
    for sentence in (*card("deepnorm").traps, *card("admin").assumes, *card("t-fixup").state):
        assert sentence in words
    assert "decoder factor: 0.343295" in words
    assert card("t-fixup").refusal in sentences(app, "warning")


def test_a_recipe_that_needs_more_blocks_says_so_beside_the_others(open_app: Open) -> None:
    app = opened(open_app, compare=["gpt2", "deepscalelm"], seeds="2", blocks="1")
    assert_no_trace(app)
    assert any("needs at least 2 blocks" in sentence for sentence in sentences(app, "warning"))
    assert "gpt2" in lines(figures(app)[0])
    assert "deepscalelm" not in lines(figures(app)[0])


def test_depths_growth_and_shares_are_the_sweeps(open_app: Open) -> None:
    app = opened(open_app, **FEW, compare_depths="1,2,4", compare_view="Against depth")
    assert_no_trace(app)
    largest, _, share, growth, _ = figures(app)
    ratios = [
        [
            max(
                site["activation_ratio"]
                for site in observe_document(ObserveRequest(config=DecoderConfig(blocks=blocks), seed=4701 + index))[
                    "same_base_unscaled_control"
                ]["sites"]
            )
            for index in range(3)
        ]
        for blocks in (1, 2, 4)
    ]
    np.testing.assert_allclose(lines(largest)["unscaled"], np.median(ratios, axis=1), rtol=1e-9)
    np.testing.assert_allclose(lines(share)["unscaled"], np.mean((np.array(ratios) <= 100), axis=1))
    slope = np.polyfit(np.log(np.repeat([1.0, 2.0, 4.0], 3)), np.log(np.ravel(ratios)), 1)[0]
    (point,) = (trace for trace in growth["data"] if trace["name"] == "unscaled")
    assert point["x"][0] == pytest.approx(slope, rel=1e-9)


@pytest.mark.parametrize(
    ("depths", "sentence"),
    [
        ("1,x", "Depths holds 'x', which is not a whole number"),
        ("", "empty place"),
        ("0", "blocks"),
        ("1,1", "stands twice"),
        ("1,2,3,4,5,6,7,8,9,10,11,12,13", "13 depths are asked for; give at most 12"),
        ("99999", "99999"),
    ],
)
def test_depths_that_cannot_run_are_one_sentence(open_app: Open, depths: str, sentence: str) -> None:
    app = opened(open_app, **FEW, compare_depths=depths, compare_view="Against depth")
    assert_no_trace(app)
    assert len(sentences(app)) == 1
    assert sentence in sentences(app)[0]


@pytest.mark.parametrize("view", ["Profiles", "Contributions", "Theory", "Against depth", "Drift"])
def test_a_decoder_that_would_hold_the_page_up_is_refused_with_its_cost(
    open_app: Open, view: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the pace of the machine: here a page may take no time at all."""
    monkeypatch.setattr("pages.common.recipe_panel.PATIENCE_SECONDS", 1e-3)
    monkeypatch.setattr("pages.common.sweeps.ALLOWANCE", Allowance(seconds=1e-6))
    sizes = {"width": "512", "heads": "8", "kv_heads": "8", "ff_width": "2048"}
    app = opened(open_app, compare_view=view, compare_depths="16,32", seeds="64", **sizes)
    assert_no_trace(app)
    assert len(sentences(app)) == 1
    assert "take" in sentences(app)[0]
    assert not figures(app)


def test_theory_is_labelled_derived_and_says_where_no_law_applies(open_app: Open) -> None:
    app = opened(open_app, **FEW, compare_depths="1,2", compare_view="Theory", compare_focus="gpt2")
    assert_no_trace(app)
    assert len(figures(app)) == 4
    assert all("derived" in name or name == "measured" for name in lines(figures(app)[0]))
    errors = next(table.value for table in app.dataframe if "largest error" in table.value.columns)
    assert set(errors["evidence"]) == {"derived"}
    assert set(errors["recipe"]) == {"gpt2"}
    app = opened(open_app, compare=["deepnorm"], compare_depths="1,2", seeds="2", compare_view="Theory")
    assert_no_trace(app)
    assert len(sentences(app, "info")) == 2
    assert not figures(app)


def test_contributions_follow_the_measure_and_tokens_the_recipe(open_app: Open) -> None:
    app = opened(open_app, **FEW, compare_view="Contributions", compare_measure="cosine", compare_focus="gpt2")
    assert_no_trace(app)
    attention, _, tokens, _ = figures(app)
    documents = [observe_document(ObserveRequest(seed=4701 + index, recipe="gpt2")) for index in range(3)]
    cosines = [
        [c["cosine"] for c in one["initialized"]["contributions"] if c["branch"] == "attention"] for one in documents
    ]
    np.testing.assert_allclose(lines(attention)["gpt2"], np.median(cosines, axis=0), rtol=1e-9)
    assert "gpt2, 12 tokens" in tokens["layout"]["title"]["text"]


def test_the_difference_is_that_of_the_two_cards(open_app: Open) -> None:
    app = opened(open_app, compare=["unscaled", "peri-norm", "gpt2"], compare_view="Difference", compare_to="peri-norm")
    assert_no_trace(app)
    table = app.dataframe[0].value
    expected = difference_table("unscaled", "peri-norm")
    assert table["peri-norm"].tolist() == expected["second"].tolist()
    assert len(figures(app)) == 2
    app.selectbox(key="compare_from").set_value("peri-norm").run()
    assert sentences(app, "info") == ["peri-norm and peri-norm differ in nothing at these sizes."]


def test_the_drift_explorer_names_every_code_base(open_app: Open) -> None:
    app = opened(open_app, **FEW, compare_view="Drift")
    assert_no_trace(app)
    words = texts(app)
    for variant in VARIANTS:
        assert f"**{variant.recipe} in {variant.code_base}**" in words
        assert variant.does in words


def test_only_the_open_view_is_computed(open_app: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a closed view was computed")

    for module, name in (("core.compare.comparison", "compare_recipes"), ("core.compare.drift_table", "drift_table")):
        monkeypatch.setattr(import_module(module), name, refuse)
    app = opened(open_app, compare=["block-indexed", "wang"], seeds="7", compare_view="Contracts")
    assert_no_trace(app)
    assert len(figures(app)) == 2


def test_every_recipe_can_be_chosen() -> None:
    assert controls.COMPARED.options == tuple(known.name for known in RECIPES)
    assert controls.COMPARED.checked(["gpt2+lns"]) == ["lns+gpt2"]


def test_a_sweep_goes_on_slice_by_slice_until_it_is_complete(open_app: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pages.recipes.comparison.SLICE_SECONDS", 0.0)
    app = opened(open_app, **FEW, compare_depths="1,2,3,5", compare_view="Against depth")
    assert_no_trace(app)
    assert all(len(values) == 4 for name, values in lines(figures(app)[0]).items() if name in FEW["compare"])


def test_a_held_sweep_shows_what_has_finished(open_app: Open) -> None:
    app = open_app()
    app.session_state["hold-depths"] = True
    for name, value in {**FEW, "compare_depths": "6,7", "compare_view": "Against depth"}.items():
        app.query_params[name] = value
    app.switch_page(PAGE).run()
    assert_no_trace(app)
    assert len(figures(app)) == 5
    assert app.toggle(key="hold-depths").value is True
    app.toggle(key="hold-depths").set_value(False).run()
    assert_no_trace(app)
    assert lines(figures(app)[0])["gpt2"][1] is not None
