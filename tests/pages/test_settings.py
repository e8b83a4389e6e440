"""Presets, reset, pins, manifests: whole settings go in and come back through the same constructors."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl

import pytest
from streamlit.testing.v1 import AppTest

from core.decoder.batch import Batch
from core.decoder.config import DecoderConfig
from core.errors import DepthscopeError
from core.export.manifest import Export, SavedSetting, manifest_text
from core.health.request import ObserveRequest
from core.health.suggestion import suggest
from core.health.suggestion_words import change_text, suggestion_sentences
from pages.common import model, model_controls, navigation, settings
from tests.pages.conftest import ROOT, Open
from tests.pages.support import assert_no_trace, figures, sentences

BATCH = {"inputs": [[0, 5, 7], [9]], "targets": [[5, 7, 1], [1]], "valid": [[True, False, True], [True]]}


def title(app: AppTest) -> str:
    return str(figures(app)[0]["layout"]["title"]["text"])


def test_reset_restores_the_default_model_and_leaves_it_alone_on_a_page_about_something_else(open_app: Open) -> None:
    app = open_app(blocks="3", width="8", ff_width="9", recipe="unscaled")
    assert "L = 3 blocks" in title(app)
    app.switch_page(str(ROOT / "pages/bands/bands.py")).run()
    app.button(key="reset").click().run()
    assert app.session_state["width"] == 8
    app.switch_page(str(ROOT / "pages/residual_health/residual_health.py")).run()
    app.button(key="reset").click().run()
    assert_no_trace(app)
    assert "L = 8 blocks" in title(app)
    assert (app.session_state["recipe"], app.session_state["width"]) == ("depth-scaled", 4)


def test_what_changes_the_verdict_is_told_and_applied_at_a_click(
    open_app: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pages.common.seeds.INLINE_SUGGESTION", 2**40)
    request = ObserveRequest(config=DecoderConfig(blocks=32), recipe="unscaled")
    found = suggest(request, range(4701, 4709))
    assert found.best is not None
    app = open_app(blocks="32", recipe="unscaled", seeds="8", view="Mend it")
    assert_no_trace(app)
    told = next(text.value.replace("\\", "") for text in app.markdown if "would bring" in text.value)
    assert suggestion_sentences(found)[0] in told
    tried = next(table.value for table in app.dataframe if "change" in table.value.columns)
    assert tried["change"].tolist()[0] == change_text(found.best)
    assert len(figures(app)) == 2
    app.button(key="apply-change").click().run()
    assert app.session_state["recipe"] == found.best.change.recipe


def test_up_to_four_runs_are_kept_renamed_hidden_and_carried_by_the_link(open_app: Open) -> None:
    app = open_app()
    for blocks in (2, 3, 4, 5):
        app.slider(key="blocks").set_value(blocks).run()
        app.button(key="pin").click().run()
    assert app.button(key="pin").disabled
    app.session_state["view"] = "Runs"
    app.run()
    assert_no_trace(app)
    names = ["2 × 4, depth-scaled", "3 × 4, depth-scaled", "4 × 4, depth-scaled", "5 × 4, depth-scaled"]
    drawn = [trace for trace in figures(app)[0]["data"] if ":" in (trace["name"] or "")]
    assert [trace["name"].split(":")[0] for trace in drawn] == names
    assert len({trace["line"]["color"] for trace in drawn}) == 4
    app.text_input(key=f"run-name-0-{names[0]}").set_value("short").run()
    app.toggle(key=f"run-shown-1-{names[1]}").set_value(False).run()
    drawn = [trace["name"].split(":")[0] for trace in figures(app)[0]["data"] if ":" in (trace["name"] or "")]
    assert drawn == ["short", *names[2:]]
    assert any("A, 5 × 4, depth-scaled / short" in element.value.columns for element in app.dataframe)
    app.button(key="run-remove-3").click().run()
    link = app.query_params["run"]
    assert [dict(parse_qsl(text))["blocks"] for text in link] == ["2", "3", "4"]
    other = open_app(run=[*link, "name=x&blocks=9999"], view="Runs")
    assert_no_trace(other)
    assert [one.name for one in other.session_state["pins"]] == ["short", *names[1:3]]
    assert "A run of the link was left out: blocks is 9999" in " ".join(sentences(other, "info"))


def manifest(setting: dict[str, Any], **export: Any) -> bytes:
    saved = SavedSetting(setting=setting, batch=export.pop("batch", None))
    return manifest_text(Export(page=export.pop("page", "residual_health"), saved=saved, **export), {}).encode()


class Session(dict[str, Any]):
    """A session's state without a browser."""


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    state = Session()
    monkeypatch.setattr("streamlit.session_state", state)
    return state


def test_a_restored_manifest_sets_every_control_exactly(session: Session) -> None:
    setting = {"blocks": 9, "seed64": "18446744073709551615", "recipe": "gpt2", "band_upper": 50.0, "arms": "recipe"}
    pin = SavedSetting(setting={"blocks": 2}, name="two")
    settings.restore(manifest(setting, pins=(pin,)))
    entry = navigation.ENTRIES["residual_health"]
    assert {name: session[name] for name in setting} == setting
    for control in entry.all_controls:
        assert session[control.name] == setting.get(control.name, control.default)
    assert session[settings.PINS][0].setting["blocks"] == 2
    first = Export(page=entry.name, saved=settings.saved(entry.all_controls), pins=settings.pins())
    written = manifest_text(first, {})
    session.clear()
    settings.restore(written.encode())
    again = Export(page=entry.name, saved=settings.saved(entry.all_controls), pins=settings.pins())
    assert manifest_text(again, {}) == written


def test_an_uploaded_batch_travels_in_the_manifest(session: Session) -> None:
    document = Batch.from_document(BATCH).document()
    settings.restore(manifest({"batch": "uploaded"}, batch=document))
    batch = model_controls.chosen_batch({"batch": "uploaded"})
    assert batch.document() == document
    entry = navigation.ENTRIES["residual_health"]
    assert settings.saved(entry.all_controls).batch == document


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (manifest({"blocks": 10**9}), "blocks is 1000000000; it must lie between 1 and 1024."),
        (manifest({"blocks": "8"}), "blocks is '8'; it must be a whole number from 1 to 1024."),
        (manifest({"blocks": True}), "blocks is true; it must be a whole number from 1 to 1024."),
        (manifest({"recipe": "<img src=x>"}), "The recipe '<img' is unknown; all are listed"),
        (manifest({"heads": 3}), "width 4 is not a multiple of heads 3"),
        (manifest({"seed64": "-1"}), "outside 0 to 2^64 - 1"),
        (manifest({"colour": 1}), "The manifest sets 'colour', which its page does not have."),
        (manifest({}, page="../../etc/passwd"), "which this app does not have."),
        (manifest({"batch": "uploaded"}, batch={"inputs": [[1]], "targets": [[1, 2]]}), "1 inputs but 2 entries"),
        (manifest({}, pins=(SavedSetting(setting={"blocks": 0}),)), "blocks is 0; it must lie between 1 and 1024."),
        (manifest({"norm": "none"}), "norm is 'none'; it must be one of rmsnorm, layernorm."),
    ],
)  # fmt: skip
def test_a_manifest_that_no_page_can_take_changes_nothing(session: Session, data: bytes, sentence: str) -> None:
    with pytest.raises(DepthscopeError) as refusal:
        settings.restore(data)
    assert sentence in str(refusal.value)
    assert not session


def test_the_query_names_what_is_not_default_and_a_link_to_a_known_model_makes_it(open_app: Open) -> None:
    query = model.query_of("cpu-bridge")
    assert query == {"blocks": "2", "width": "16", "heads": "2", "kv_heads": "2", "ff_width": "20", "positions": "16"}
    app = open_app(**{name: str(value) for name, value in query.items()})
    assert_no_trace(app)
    assert "L = 2 blocks" in title(app)


def test_uploads_that_are_no_batch_are_one_sentence(session: Session) -> None:
    for data, sentence in (
        (b"not json", "The uploaded batch is not JSON"),
        (b"[" * 1000, "nests deeper"),
        (json.dumps({"inputs": [[1]]}).encode(), "lacks the key targets"),
        (json.dumps({"inputs": [[1]], "targets": [[1]], "x": 1}).encode(), "unknown key 'x'"),
    ):
        model_controls.keep_batch(data)
        with pytest.raises(DepthscopeError, match=sentence):
            model_controls.chosen_batch({"batch": "uploaded"})
    model_controls.keep_batch(json.dumps(BATCH).encode())
    assert model_controls.chosen_batch({"batch": "uploaded"}).valid_count == 3
