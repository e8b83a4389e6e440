"""The survey's tables: what is counted, filtered and ordered, beside plain loops over its file."""

from __future__ import annotations

import csv
from collections import Counter
from typing import Any

import plotly.graph_objects as go
import pytest

from core.audit.initialization.findings import VERDICTS
from core.audit.survey import COLUMNS
from core.audit.survey_table import SHIPPED, shipped_survey
from core.export.csv import csv_text
from core.figures.audit import depth_ratio_figure
from core.figures.bars import count_figure
from core.tables.survey import (
    NOT_JUDGED,
    OFF_FIRST,
    ORDERS,
    TITLES,
    chosen,
    column_table,
    headline,
    kind_table,
    ordered,
    rule_view,
    state_table,
    survey_table,
    survey_view,
    unproved_table,
)


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return shipped_survey()[0]


@pytest.fixture(scope="module")
def file() -> list[dict[str, str]]:
    """The file, read with nothing of this project."""
    with open(SHIPPED / "survey.csv", newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_the_table_is_the_file(rows: list[dict[str, Any]]) -> None:
    table = survey_table(rows)
    assert list(table.columns) == list(COLUMNS)
    assert csv_text(table) == (SHIPPED / "survey.csv").read_text(encoding="utf-8")


def test_no_column_mixes_types(rows: list[dict[str, Any]]) -> None:
    """Numbers with gaps are nullable numbers; text columns hold text alone."""
    view = survey_view(rows)
    for name in view.columns:
        if view[name].dtype not in ("float64", "Int64"):
            assert {type(value) for value in view[name]} == {str}, name


def test_counts_are_those_of_the_file(rows: list[dict[str, Any]], file: list[dict[str, str]]) -> None:
    states = Counter(row["identity"] or ("not run" if row["built"] == "true" else "not built") for row in file)
    assert {row.state: row.families for row in state_table(rows).itertuples() if row.families} == dict(states)
    kinds = Counter(row["kind"] or NOT_JUDGED for row in file)
    assert {row.kind: row.families for row in kind_table(rows).itertuples()} == dict(kinds)
    assert state_table(rows)["share"].sum() == pytest.approx(1.0)
    unproved = unproved_table(rows)
    assert set(unproved["family"]) == {row["family"] for row in file if row["identity"] != "proved"}
    assert all(unproved["reason"])
    assert set(rule_view(rows)["family"]) == {
        row["family"] for row in file if row["kind"] not in ("", "no-rule-declared")
    }


def test_the_headline_says_shares_of_all_families() -> None:
    row = dict.fromkeys(COLUMNS)
    rows = [{**row, "built": True, "identity": "proved"}, {**row, "built": True}, {**row, "built": False}]
    found = headline(rows, {"depths": [2, 4], "date": "2026-01-02"})
    assert found == {
        "Families": "3", "Built": "2 (67%)", "Proved": "1 (33%)", "Blocks": "2 and 4", "Date": "2026-01-02",
    }  # fmt: skip
    assert [row["state"] for row in state_table(rows).to_dict("records") if row["families"]] == [
        "proved", "not run", "not built",
    ]  # fmt: skip


def test_filters_join(rows: list[dict[str, Any]], file: list[dict[str, str]]) -> None:
    assert chosen(rows) == rows
    found = {row["family"] for row in chosen(rows, text=" GEMMA ", state="proved", kind="no-rule-declared")}
    expected = {
        row["family"]
        for row in file
        if "gemma" in " ".join((row["family"], row["class"], row["rule"], row["reason"])).lower()
        and (row["identity"], row["kind"]) == ("proved", "no-rule-declared")
    }
    assert found == expected
    assert found
    assert chosen(rows, text="no such family") == []


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_keeps_the_rows_and_puts_gaps_last(rows: list[dict[str, Any]], order: str) -> None:
    found = ordered(list(reversed(rows)), order)
    name, falling = ORDERS[order]
    values = [row[name] for row in found]
    present = [value for value in values if value is not None]
    assert values == present + [None] * (len(values) - len(present))
    assert present == sorted(present, reverse=falling)
    assert sorted(row["family"] for row in found) == sorted(row["family"] for row in rows)


def test_what_is_off_stands_before_what_is_not(rows: list[dict[str, Any]], file: list[dict[str, str]]) -> None:
    found = ordered(list(reversed(rows)), OFF_FIRST)
    assert sorted(row["family"] for row in found) == sorted(row["family"] for row in file)
    unproved = {row["family"] for row in file if row["identity"] != "proved"}
    off = {row["family"] for row in file if row["kind"] in ("partial", "wrong-fan-in", "range-ignored")} - unproved
    assert off
    assert {row["family"] for row in found[: len(unproved)]} == unproved
    assert {row["family"] for row in found[len(unproved) :][: len(off)]} == off
    assert found == ordered(rows, OFF_FIRST)


def test_every_column_of_the_view_is_explained(rows: list[dict[str, Any]]) -> None:
    assert column_table()["column"].tolist() == list(survey_view(rows).columns)
    named = " ".join(column_table()["in the file"])
    assert all(column in named for column in COLUMNS)
    assert all(meaning for _, meaning in TITLES.values())
    assert set(kind_table(rows)["kind"]) <= {*VERDICTS, NOT_JUDGED}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_figures_hold_the_tables_values(rows: list[dict[str, Any]], theme: Any) -> None:
    for name, table in (("state", state_table(rows)), ("kind", kind_table(rows))):
        bars = go.Figure(count_figure(table, name, theme=theme).to_dict()).data[0]
        assert list(bars.x) == table["families"].tolist()
        assert list(bars.y) == table[name].tolist()
    chart = go.Figure(depth_ratio_figure(survey_table(rows), theme=theme).to_dict())
    drawn = {
        name: (x, y)
        for trace in chart.data
        if trace.mode == "markers"
        for name, x, y in zip(trace.text, trace.x, trace.y, strict=True)
    }
    assert drawn == {
        row["family"]: (row["ratio_shallow"], row["ratio_deep"])
        for row in rows
        if row["ratio_shallow"] is not None and row["ratio_deep"] is not None
    }
    end = chart.layout.xaxis.range[1]
    assert all(0 < value < end for point in drawn.values() for value in point)
