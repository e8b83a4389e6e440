"""The current model: chosen, dropped, pasted or typed once, in every page's bar and URL; no file's name in a link."""

from __future__ import annotations

import json

import pytest
from streamlit.testing.v1 import AppTest

from core.decoder.base_draw import Distribution
from core.decoder.config import DecoderConfig
from core.decoder.parameters import layout
from core.errors import BudgetError
from core.health.pace import REFERENCE
from core.plan.presets import PRESETS
from pages.common import model, model_controls, navigation, twins, uploads
from tests.pages.conftest import ROOT, Open
from tests.pages.support import assert_no_trace, change, sentences

LLAMA = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 5, "num_attention_heads": 4,
    "intermediate_size": 172,
    "vocab_size": 1000, "max_position_embeddings": 128, "initializer_range": 0.05, "tie_word_embeddings": False,
}  # fmt: skip
NANOGPT = "n_layer = 6\nn_head = 2\nn_embd = 64 # narrow\nblock_size = 64\nvocab_size = 500\nbias = False\nlr = 1e-3"


EMPTY = b"\x02" + b"\0" * 7 + b"{}"


def bar(app: AppTest) -> str:
    """The line of the model bar."""
    return str(app.markdown[0].value).replace("\\", "")


def query(app: AppTest) -> dict[str, str]:
    """The page's address."""
    return {name: found[-1] if isinstance(found, list) else found for name, found in app.query_params.items()}


@pytest.mark.parametrize("name", list(model.KNOWN))
def test_every_known_model_is_a_setting_that_its_controls_can_take_and_is_called_by_its_name(name: str) -> None:
    by_name = {control.name: control for control in model_controls.MODEL}
    values = model.KNOWN[name].values
    assert {key: by_name[key].checked(value) for key, value in values.items()} == dict(values)
    request = model_controls.request_of(values)
    assert request.config == model.KNOWN[name].plan.config
    if name in PRESETS:
        assert request.distribution == Distribution(None if name == "laptop" else 0.02)


@pytest.mark.parametrize("entry", navigation.ENTRIES.values(), ids=lambda entry: entry.name)
def test_every_page_carries_the_model_in_its_bar_and_its_address(open_app: Open, entry: navigation.Entry) -> None:
    link = {"blocks": "3", "width": "8", "heads": "4", "kv_heads": "2", "recipe": "gpt2", "seeds": "4"}
    app = open_app(**link).switch_page(str(entry.script)).run()
    assert_no_trace(app)
    parameters = layout(DecoderConfig(blocks=3, width=8, heads=4, kv_heads=2)).parameters
    assert bar(app).startswith("**Your decoder** · 3 × 8 · 4 heads (2 for keys and values)")
    assert f"{parameters:,} parameters · gpt2 · 4 seeds from 4701" in bar(app)
    assert link.items() <= query(app).items()


def test_a_well_known_model_is_chosen_by_its_name(open_app: Open) -> None:
    app = change(open_app("pages/laptop_plan/laptop_plan.py"), "Choose")
    app.selectbox(key="choose-model").set_value("llama-3.1-405b").run()
    assert_no_trace(app)
    assert bar(app).startswith("**Llama 3.1 405B** · 126 × 16384 · 128 heads (8 for keys and values)")
    assert app.metric[0].value == "405,853,388,800"
    assert query(app)["base_std"] == "0.02"


def test_a_decoder_that_is_named_for_its_recipe_loses_the_name_with_it(open_app: Open) -> None:
    app = open_app(model="broken")
    assert bar(app).startswith("**Broken: 32 blocks, unscaled**")
    app.selectbox(key="recipe").set_value("gpt2").run()
    assert bar(app).startswith("**Chapter decoder** · 32 × 4")


def dropped(open_app: Open, name: str, data: bytes) -> AppTest:
    app = open_app(str(ROOT / "pages/laptop_plan/laptop_plan.py"))
    change(app, "Drop files").file_uploader(key="model-files").set_value([(name, data, "application/json")]).run()
    return app


def test_a_dropped_config_is_the_model_of_every_page_and_its_name_stays_here(open_app: Open) -> None:
    app = dropped(open_app, "secret-project.json", json.dumps(LLAMA).encode())
    assert_no_trace(app)
    assert not app.error
    assert bar(app).startswith("**Your config.json** · 5 × 64 · 4 heads")
    link = query(app)
    assert "secret" not in json.dumps(link)
    assert (link["base_std"], link["recipe"], link["batch"], link["tied"]) == ("0.05", "unscaled", "random", "false")
    again = open_app(**link)
    assert_no_trace(again)
    assert bar(again) == bar(app)
    assert query(again) == link


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"model_type": "gpt2", "n_layer": 1000000000}', "mine.json"),
        (json.dumps({"model_type": "![x](http://example.invalid/a.png)<img>"}).encode(), "mine.json"),
        (json.dumps({**LLAMA, "num_hidden_layers": 4000}).encode(), "blocks is 4000; it must lie between 1 and 1024."),
        (json.dumps({**LLAMA, "initializer_range": -1}).encode(), "initializer_range"),
        (b'{"a":' + b"[" * 100_000, "nests deeper"),
        (b'{"model_type": "gpt2", "n_embd": NaN}', "holds the literal NaN"),
        (b"not json", "is not JSON"),
    ],
    ids=["depth", "markup", "deep", "spread", "nested", "nan", "text"],
)
def test_a_config_that_cannot_be_is_one_sentence_with_its_name_and_the_model_stays(
    open_app: Open, data: bytes, words: str
) -> None:
    app = dropped(open_app, "mine.json", data)
    app.run() if not app.error else None
    assert bar(app).startswith("**Chapter decoder narrow-8** · 8 × 4")
    change(app, "Drop files")
    assert_no_trace(app)


def test_pasted_settings_of_nanogpt_are_the_model(open_app: Open) -> None:
    app = change(open_app(str(ROOT / "pages/bands/bands.py")), "Paste settings")
    app.text_area(key="model-text").set_value(NANOGPT)
    app.button(key="read-text").click().run()
    assert_no_trace(app)
    assert "6 × 64 · 2 heads" in bar(app)
    assert (query(app)["recipe"], query(app)["vocabulary"], query(app)["norm"]) == ("gpt2", "500", "layernorm")


def test_sizes_are_typed_in_the_dialog_alone(open_app: Open) -> None:
    app = open_app()
    assert "width" not in [element.key for element in app.number_input]
    change(app, "Type sizes").number_input(key="width").set_value(16).run()
    assert "8 × 16" in bar(app)
    change(app, "Type sizes").number_input(key="heads").set_value(3).run()
    assert "cannot be built" in bar(app)
    assert sentences(app) == ["width 16 is not a multiple of heads 3; choose heads that divide the width."]


@pytest.mark.parametrize(
    ("page", "link", "line"),
    [
        ("laptop_plan", {"model": "gpt2-xl"}, "**GPT-2 XL** · 48 × 1600"),
        ("laptop_plan", {"model": "own sizes", "plan_width": "64", "plan_heads": "2"}, "8 × 64 · 2 heads"),
        ("recipes", {"compare_seeds": "5"}, "5 seeds from"),
        ("depth_sweep", {"sweep_width": "12"}, "8 × 12"),
    ],
)
def test_links_of_earlier_days_still_set_what_they_said(page: str, link: dict[str, str], line: str) -> None:
    from tests.pages.lab_pages import straight

    app = straight(f"pages/{page}/{page}.py", **link)
    assert_no_trace(app)
    assert line in bar(app)
    assert not link.keys() & query(app).keys() - {"model"}


def test_what_a_link_leaves_out_has_its_default_again(open_app: Open) -> None:
    app = open_app(blocks="3", width="8", seeds="2")
    app.query_params.clear()
    app.query_params["blocks"] = "5"
    app.switch_page(str(ROOT / "pages/recipes/recipes.py")).run()
    assert_no_trace(app)
    assert bar(app).startswith("**Chapter decoder** · 5 × 4")


@pytest.mark.parametrize(
    ("names", "line"),
    [
        (("config.json", "model.safetensors"), "**Your config.json** · 5 × 64"),
        (("model.safetensors",), "**Chapter decoder narrow-8**"),
        (("config.json", "config.json"), "**Chapter decoder narrow-8**"),
        (("config.json", "../model.safetensors"), "**Chapter decoder narrow-8**"),
    ],
)
def test_several_files_are_screened_as_a_folder(open_app: Open, names: tuple[str, ...], line: str) -> None:
    data = {"config.json": json.dumps(LLAMA).encode()}
    files = [(name, data.get(name, EMPTY), "application/octet-stream") for name in names]
    app = open_app(str(ROOT / "pages/bands/bands.py"))
    change(app, "Drop files").file_uploader(key="model-files").set_value(files).run()
    assert_no_trace(app)
    assert bar(app).startswith(line)
    assert (uploads.room().upload is not None) == ("Your config" in line)


@pytest.mark.parametrize("entry", navigation.ENTRIES.values(), ids=lambda entry: entry.name)
def test_no_page_names_an_option_of_the_command_line(open_app: Open, entry: navigation.Entry) -> None:
    app = open_app().switch_page(str(entry.script)).run()
    assert_no_trace(app)
    kinds = ("markdown", "caption", "error", "warning", "info", "success", "code", "title", "subheader", "button")
    shown = [f"{getattr(one, 'label', '')} {one.value}" for kind in kinds for one in getattr(app, kind)]
    assert shown
    assert not [text for text in shown if "--" in text.replace("\\", "").replace("---", "")]


def test_a_deep_model_widens_the_slider_and_has_a_twin_within_a_minute(open_app: Open) -> None:
    app = open_app(blocks="300", width="8", heads="2", kv_heads="2", ff_width="16", seeds="2")
    assert_no_trace(app)
    assert not app.error
    assert app.slider(key="blocks").max == 512
    assert app.slider(key="blocks").value == 300
    app.slider(key="blocks").set_value(5).run()
    assert app.slider(key="blocks").value == 5
    wide = {**model.KNOWN["gpt2"].values, "blocks": 512}
    request = model_controls.request_of(wide)
    found = twins.answered(request, 32)
    assert found.config.blocks == 512
    assert twins.seconds(found, 32, REFERENCE) <= 60
    with pytest.raises(BudgetError, match="choose fewer seeds"):
        twins.answered(request, 256)
