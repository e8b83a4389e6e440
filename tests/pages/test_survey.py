"""The page Survey shows the shipped table, filters and orders it, and opens a family on the audit's page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from core.audit.survey_table import shipped_survey
from core.tables.survey import NOT_JUDGED, survey_view
from pages.common import navigation
from pages.common.widgets import Control
from pages.survey import rows as survey_rows
from tests.pages.conftest import ROOT, Open
from tests.pages.support import assert_no_trace, downloads, figures, sentences

PAGE = str(ROOT / "pages" / "survey" / "survey.py")
ROWS, MANIFEST = shipped_survey()
STUB = """
import streamlit as st
st.title("Audit a model")
st.text(st.session_state.get("family"))
"""


def opened(open_app: Open, **parameters: str) -> AppTest:
    """The page as a link with these parameters opens it."""
    app = open_app()
    for name, value in parameters.items():
        app.query_params[name] = value
    return app.switch_page(PAGE).run()


def families(app: AppTest) -> list[str]:
    """The families in the order of the page's table."""
    return next(table.value for table in app.dataframe if "worst error" in table.value.columns)["family"].tolist()


@pytest.fixture
def audit_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A page in the audit's place that shows the family it was opened with, and has a control left over."""
    script = tmp_path / "model_audit.py"
    script.write_text(STUB)
    family = Control(name="family", label="Family", kind="text", default="")
    left_over = Control(name="model", label="Model", kind="text", default="family")
    entry = replace(navigation.ENTRIES["model_audit"], controls=(family, left_over))
    monkeypatch.setattr(navigation, "ENTRIES", {**navigation.ENTRIES, entry.name: entry})
    real = navigation.Entry.script.fget
    monkeypatch.setattr(navigation.Entry, "script", property(lambda e: script if e == entry else real(e)))


def test_the_page_shows_every_family_and_the_headline(open_app: Open) -> None:
    app = opened(open_app)
    assert_no_trace(app)
    assert not app.error
    assert [title.value for title in app.title] == ["Survey"]
    values = {metric.label: metric.value for metric in app.metric}
    assert values["Families"] == str(len(ROWS))
    assert values["Built"].startswith(f"{MANIFEST['built']} ")
    assert values["Proved"].startswith(f"{MANIFEST['proved']} ")
    assert values["Date"] == MANIFEST["date"]
    assert sorted(families(app)) == sorted(row["family"] for row in ROWS)
    unproved = [row["family"] for row in ROWS if row["identity"] != "proved"]
    assert set(families(app)[: len(unproved)]) == set(unproved)
    app.selectbox(key="survey_order").set_value("smallest writer / reader, deep").run()
    scaled = [row["ratio_deep"] for family in families(app) for row in ROWS if row["family"] == family]
    known = [ratio for ratio in scaled if ratio is not None]
    assert known == sorted(known) == scaled[: len(known)]
    captions = " ".join(str(caption.value) for caption in app.caption).replace("\\", "")
    for name, version in MANIFEST["versions"].items():
        assert f"{name} {version}" in captions
    assert downloads(app)["Everything, as a zip"] == 1


def test_every_family_that_is_not_proved_stands_there_with_its_reason(open_app: Open) -> None:
    app = opened(open_app)
    text = " ".join(str(element.value) for element in app.markdown).replace("\\", "")
    unproved = [row for row in ROWS if row["identity"] != "proved"]
    assert unproved
    for row in unproved:
        assert row["family"] in text
        assert row["reason"] in text


def test_figures_and_tables_hold_the_counts(open_app: Open) -> None:
    ratios, states, kinds = figures(opened(open_app))
    proved = dict(zip(states["data"][0]["y"], states["data"][0]["x"], strict=True))["proved"]
    assert proved == MANIFEST["proved"]
    assert sum(kinds["data"][0]["x"]) == len(ROWS)
    assert "no depth rule" in [trace["name"] for trace in ratios["data"]]


def test_a_link_filters_and_orders(open_app: Open) -> None:
    app = opened(open_app, survey_state="partial", survey_order="largest error")
    assert_no_trace(app)
    expected = sorted((row for row in ROWS if row["identity"] == "partial"), key=lambda r: -r["worst_relative_error"])
    assert families(app) == [row["family"] for row in expected]
    app.selectbox(key="survey_state").set_value("all")
    app.selectbox(key="survey_kind").set_value(NOT_JUDGED).run()
    assert set(families(app)) == {row["family"] for row in ROWS if row["kind"] is None}
    app.selectbox(key="survey_kind").set_value("all")
    app.text_input(key="survey_text").set_value("falcon").run()
    assert families(app)
    assert all("falcon" in row["family"].casefold() for row in ROWS if row["family"] in families(app))
    app.text_input(key="survey_text").set_value("<img src=x>").run()
    assert_no_trace(app)
    assert sentences(app, "info") == ["No family is left by this filter; choose all, or type less."]


def test_a_bad_link_is_said(open_app: Open) -> None:
    app = open_app()
    app.query_params["survey_state"] = "excellent"
    app.switch_page(PAGE).run()
    assert_no_trace(app)
    assert len(families(app)) == len(ROWS)


@pytest.mark.usefixtures("audit_page")
def test_the_button_opens_the_family_on_the_audits_page(open_app: Open) -> None:
    app = opened(open_app)
    app.session_state["model"] = "uploaded"
    app.selectbox(key="survey_family").set_value("gpt2").run()
    app.button(key="open-family").click().run()
    assert_no_trace(app)
    assert [title.value for title in app.title] == ["Audit a model"]
    assert [text.value for text in app.text] == ["gpt2"]
    assert app.session_state["model"] == "family"


@pytest.mark.usefixtures("audit_page")
def test_a_ticked_row_opens_its_family_whatever_the_order(open_app: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    opened_families: list[str] = []
    monkeypatch.setattr(survey_rows, "open_family", opened_families.append)
    shown = list(reversed(ROWS))
    state = {"table-survey": SimpleNamespace(selection=SimpleNamespace(rows=[3]))}
    monkeypatch.setattr(survey_rows.st, "session_state", state)
    callback = survey_rows.opener(shown)
    callback()
    assert opened_families == [survey_view(shown)["family"][3]]
    state["table-survey"].selection.rows = []
    callback()
    assert len(opened_families) == 1
