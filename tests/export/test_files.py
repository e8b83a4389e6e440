"""Files hold exact numbers, start no formula, load nothing and are the same bytes each time."""

from __future__ import annotations

import csv
import io
import json
import re
from base64 import b64decode, b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import StorageError
from core.export.csv import csv_text, defused, write_tables
from core.export.html import html_report
from core.export.json import figure_json, json_text
from core.export.manifest import Export, SavedSetting
from core.export.observe import observe_contents, observe_report
from core.export.pictures import IMAGES, image, write_figures
from core.export.report import report_html
from core.figures.sites import ratio_figure
from core.health.report import observe_document
from core.health.request import ObserveRequest
from core.health.seeds import observe_seeds
from core.tables.observe import observe_tables, site_table

EXTREMES = [1.3e-8, 5e-324, 1.7976931348623157e308, 0.1 + 0.2, -0.0, 1e-200, 123456789.123456789]


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_every_float_of_a_csv_reads_back_to_the_bit(values: list[float]) -> None:
    text = csv_text(pd.DataFrame({"value": values}))
    assert [float(row["value"]) for row in rows_of(text)] == values


def test_extreme_numbers_missing_values_and_lines_of_a_csv() -> None:
    text = csv_text(pd.DataFrame({"value": [*EXTREMES, np.nan, np.inf]}))
    found = [row["value"] for row in csv.DictReader(io.StringIO(text), skipinitialspace=False)]
    assert [float(cell) for cell in found[: len(EXTREMES)]] == EXTREMES
    assert text.endswith("inf\n")
    assert "\r" not in text
    assert json.loads(json_text(pd.DataFrame({"v": [np.nan, np.inf, 1e-320]}))) == [
        {"v": None},
        {"v": "inf"},
        {"v": 1e-320},
    ]


@pytest.mark.parametrize("start", list("=+-@＝＋－＠\t\r\n"))
@pytest.mark.parametrize("lead", ["", " ", "\u00a0", "\ufeff", "  "])
def test_text_that_a_spreadsheet_would_run_is_defused(lead: str, start: str) -> None:
    cell = f"{lead}{start}1+1"
    assert defused(cell) == "'" + cell
    table = pd.DataFrame({cell: [cell]})
    assert rows_of(csv_text(table)) == [{"'" + cell: "'" + cell}]


@given(st.text())
def test_no_text_cell_of_a_csv_begins_like_a_formula(text: str) -> None:
    cell = str(defused(text))
    assert cell == text or cell == "'" + text
    assert not cell.strip().startswith(tuple("=+-@＝＋－＠"))


def test_negative_numbers_stay_numbers() -> None:
    assert csv_text(pd.DataFrame({"v": [-1.5], "n": [-2]})) == "v,n\n-1.5,-2\n"


def test_json_rows_hold_the_table_in_full(document: dict[str, Any]) -> None:
    table = site_table(document)
    assert json.loads(json_text(table)) == table.to_dict("records")


def test_tables_are_written_a_file_each_and_a_bad_folder_is_a_sentence(
    document: dict[str, Any], tmp_path: Path
) -> None:
    tables = observe_tables(document)
    written = write_tables(tmp_path / "out", tables)
    assert sorted(path.name for path in written) == sorted(f"{name}.csv" for name in tables)
    assert (tmp_path / "out" / "sites.csv").read_text(encoding="utf-8") == csv_text(tables["sites"])
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be written"):
        write_tables(tmp_path / "file", tables)


def scripts_and_policy(page: str) -> tuple[list[str], str]:
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    return re.findall(r"<script>(.*?)</script>", page, re.DOTALL), policy.group(1)


def test_a_page_with_a_figure_allows_exactly_its_own_scripts_and_no_request(document: dict[str, Any]) -> None:
    scripts, policy = scripts_and_policy(html_report("Ratio", {}, {"Ratio": ratio_figure(site_table(document))}))
    digests = {f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in scripts}
    assert len(scripts) == 2
    assert policy.startswith("default-src 'none'; ")
    sources = re.search(r"script-src ([^;]*)", policy)
    assert sources is not None
    assert set(sources.group(1).split()) == digests
    assert "connect-src" not in policy
    assert "'unsafe-eval'" not in policy


def test_a_page_of_tables_holds_the_exact_numbers(document: dict[str, Any]) -> None:
    page = html_report("Sites", {"sites": site_table(document)}, {})
    for site in document["initialized"]["sites"]:
        assert f"<td>{site['adjoint_ratio']!r}</td>" in page


def test_the_report_has_verdict_two_figures_and_setting_and_runs_nothing(document: dict[str, Any]) -> None:
    page = observe_report(document)
    assert page == observe_report(document)
    scripts, policy = scripts_and_policy(page)
    assert scripts == []
    assert policy.startswith("default-src 'none'; ")
    assert "script-src" not in policy
    assert '<p class="lead">Every ratio of the depth-scaled arm lies within the band' in page
    assert "<table" not in page
    assert "<dt>blocks</dt><dd>8</dd>" in page
    drawn = [b64decode(data) for data in re.findall(r"data:image/svg\+xml;base64,([^\"]*)", page)]
    figures = observe_contents(document).figures
    assert drawn == [image(figures[f"{quantity}-ratio"], "svg") for quantity in ("activation", "adjoint")]


def test_over_seeds_the_files_begin_with_the_count_and_draw_the_spread(document: dict[str, Any]) -> None:
    seeds = range(4)
    contents = observe_contents(document, observe_seeds(ObserveRequest(), seeds))
    single = [observe_document(ObserveRequest(seed=seed))["initialized"]["sites"] for seed in seeds]
    ratios = np.array([[[site["activation_ratio"], site["adjoint_ratio"]] for site in sites] for sites in single])
    within = int(((ratios >= 0.01) & (ratios <= 100)).all(axis=(1, 2)).sum())
    assert f"{within} of 4 seeds of depth-scaled" in contents.lead
    assert contents.tables["verdicts"]["share_within"][0] == within / 4
    drawn = [
        np.asarray(trace.y, dtype=float) for trace in contents.figures["activation-ratio"].data if trace.y is not None
    ]
    for level in (0.05, 0.95):
        expected = np.quantile(ratios[:, :, 0], level, axis=0)
        assert any(len(y) >= len(expected) and np.isin(expected.round(9), y.round(9)).all() for y in drawn)


def test_a_report_of_much_stays_short() -> None:
    name = "<script>alert(1)</script>"
    export = Export(page=name, saved=SavedSetting(setting={name: name, "base": 10000.0}), query=name)
    page = report_html(name, name, [name * 100] * 40, {}, export)
    assert "<script" not in page
    assert page.count("<p>") == 12 + 1 + 1
    assert "28 more paragraphs" in page
    assert "<dd>10,000</dd>" in page


def test_figures_are_written_as_three_files_each_or_not_at_all(document: dict[str, Any], tmp_path: Path) -> None:
    figures = {"ratio": ratio_figure(site_table(document))}
    written = write_figures(tmp_path / "out", figures)
    assert [path.name for path in written] == ["ratio.png", "ratio.svg", "ratio.pdf"]
    assert [path.read_bytes() for path in written] == [image(figures["ratio"], kind) for kind in IMAGES]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "ratio.pdf").mkdir()
    with pytest.raises(StorageError, match="it is a folder"):
        write_figures(tmp_path / "other", figures)
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["ratio.pdf"]


def test_hostile_names_stay_text_in_a_report(document: dict[str, Any]) -> None:
    name = '</script><script>alert(1)</script><img src="//example.invalid/x">'
    table = site_table(document).head(2).assign(label=name, recipe=name)
    page = html_report(name, {name: table}, {name: ratio_figure(table)}, [name])
    body = page.split("</head>")[1]
    assert "<img" not in body
    assert "<script>alert" not in page
    scripts, _ = scripts_and_policy(page)
    assert len(scripts) == 2


def test_a_report_without_figures_allows_no_script() -> None:
    page = html_report("Numbers", {"t": pd.DataFrame({"a": [1.0]})}, {})
    assert scripts_and_policy(page)[0] == []
    assert "script-src 'none'" in page


def test_figure_files_hold_plain_numbers(document: dict[str, Any]) -> None:
    table = site_table(document)
    figure = ratio_figure(table)
    found = json.loads(figure_json(figure))
    assert found["data"][0]["y"] == table.loc[table["arm"] == "initialized", "activation_ratio"].tolist()
    assert "bdata" not in figure_json(figure)
    assert html_report("Ratio", {}, {"ratio": figure}) == html_report("Ratio", {}, {"ratio": ratio_figure(table)})
