"""The page Survey in a real browser: its link, its file, and a row that opens its family."""

from __future__ import annotations

import csv
import io

import pytest

from core.audit.survey_table import SHIPPED
from tests.browser.conftest import Visit

pytestmark = pytest.mark.heavy
HEAD, ROW = 35, 35


def test_a_link_filters_the_table_and_its_file_is_the_shipped_one(visitor: Visit) -> None:
    tab = visitor()
    tab.open("/survey?survey_state=partial&survey_order=longest", "Survey")
    tab.page.get_by_text("of 196 families. The files hold all of them.").wait_for()
    assert tab.page.locator(".st-key-survey_state input").input_value() == "partial"
    assert tab.download("download-survey-csv").read_bytes() == (SHIPPED / "survey.csv").read_bytes()
    tab.page.get_by_text("The same as a table", exact=True).click()
    shown = csv.DictReader(io.StringIO(tab.download("download-not-proved-csv").read_text()))
    assert all(row["reason"] for row in shown)


def test_typing_leaves_the_families_that_match(visitor: Visit) -> None:
    tab = visitor()
    tab.open("/survey", "Survey")
    box = tab.page.locator(".st-key-survey_text input")
    box.fill("gemma2")
    box.press("Enter")
    tab.page.get_by_text("1 of 196 families. The files hold all of them.").wait_for()
    assert "survey_text" not in tab.page.url


def test_a_ticked_row_opens_its_family_in_the_same_tab(visitor: Visit) -> None:
    tab = visitor()
    tab.open("/survey?survey_state=failed", "Survey")
    tab.page.get_by_text("1 of 196 families").first.wait_for()
    table = tab.page.locator(".st-key-table-survey canvas").first
    place = table.bounding_box()
    assert place is not None
    tab.page.mouse.click(place["x"] + 15, place["y"] + HEAD + ROW / 2)
    tab.page.get_by_role("heading", level=1, name="Audit a model", exact=True).wait_for()
    tab.settle()
    assert "/model_audit?family=reformer" in tab.page.url
