"""Every page from the first link to a fresh server to its files and back: numbers, zip, image and manifest.

A page of the menu that has no walk here is opened by its link all the same, and its files are checked where it has any.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from core.decoder.config import DecoderConfig
from core.decoder.fixtures import FIXTURES
from core.export.csv import csv_text
from core.health.band import Band
from core.health.report import observe_document
from core.health.request import ObserveRequest
from core.lab.initializer import init_document
from core.lab.synthetic import synthetic_classifiers
from core.plan.arithmetic import plan_document
from core.plan.presets import PRESETS
from core.tables.guide import glossary_table
from core.tables.observe import site_table
from core.tables.published import compared_table
from core.tables.studies import classifier_table, moment_table, role_table
from pages.common import navigation
from tests.browser.conftest import Visit, assert_clean_log
from tests.browser.harness import Visitor, running_server, visit

pytestmark = pytest.mark.heavy
PAGES = [(entry.name, entry.title) for entry in navigation.ENTRIES.values()]
# A sweep and an audit show nothing before they have run; their own tests look at what they give then.
AFTER_A_RUN = {"depth_sweep", "model_audit"}
# Tours lead to other pages' files and have none themselves.
WITHOUT_FILES = {"tours"}


@dataclass(frozen=True, kw_only=True)
class Walk:
    """A link, a control moved by hand, what the link says then, and the table that must be the core's."""

    query: str
    move: Callable[[Visitor], None]
    link: str
    table: str
    expected: Callable[[], pd.DataFrame]


def slid(key: str, steps: int) -> Callable[[Visitor], None]:
    """Move a slider."""
    return lambda tab: tab.slide(key, steps)


def typed(key: str, text: str) -> Callable[[Visitor], None]:
    """Type into a field and leave it."""

    def move(tab: Visitor) -> None:
        box = tab.page.locator(f".st-key-{key} input")
        box.fill(text)
        box.press("Enter")
        tab.settle()

    return move


def pressed(key: str, name: str) -> Callable[[Visitor], None]:
    """Choose a segment."""

    def move(tab: Visitor) -> None:
        tab.page.locator(f".st-key-{key}").get_by_role("radio", name=name, exact=True).click()
        tab.settle()

    return move


def chosen(key: str, name: str) -> Callable[[Visitor], None]:
    """Choose from a menu."""

    def move(tab: Visitor) -> None:
        tab.page.locator(f".st-key-{key}").get_by_role("combobox").click()
        tab.page.get_by_role("option", name=name, exact=True).click()
        tab.settle()

    return move


def observed() -> pd.DataFrame:
    request = ObserveRequest(config=DecoderConfig(blocks=9), seed=12, recipe="gpt2")
    return site_table(observe_document(request))


def published() -> pd.DataFrame:
    return compared_table({name: observe_document(ObserveRequest(config=config)) for name, config in FIXTURES.items()})


WALKS = {
    "residual_health": Walk(
        query="blocks=5&seed=12&recipe=gpt2", move=slid("blocks", 4), link="blocks=9", table="sites", expected=observed
    ),
    "published_fixtures": Walk(
        query="fixture=narrow-1", move=pressed("fixture", "cpu-bridge"), link="fixture=cpu-bridge", table="compared",
        expected=published,
    ),
    "initialization": Walk(
        query="fan_in=8&init_seed=18446744073709551615", move=typed("fan_out", "12"), link="fan_out=12",
        table="moments", expected=lambda: moment_table(init_document(8, 12, 2**64 - 1)),
    ),
    "laptop_plan": Walk(
        query="model=gpt2", move=lambda tab: tab.settle(), link="width=768", table="roles",
        expected=lambda: role_table(plan_document(PRESETS["gpt2"].request)),
    ),
    "bands": Walk(
        query="lower=0.5", move=typed("upper", "2"), link="upper=2", table="arrays",
        expected=lambda: classifier_table(synthetic_classifiers(band=Band(0.5, 2.0))),
    ),
    "method_and_limits": Walk(
        query="", move=lambda tab: tab.settle(), link="method_and_limits", table="glossary", expected=glossary_table
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "title"), PAGES)
def test_the_first_link_to_a_fresh_server_opens_its_page_and_a_control_moves_its_numbers(
    chromium: Any, tmp_path: Path, name: str, title: str
) -> None:
    walk, log = WALKS.get(name), tmp_path / "log.txt"
    with running_server(log=log) as address, visit(chromium, address) as tab:
        tab.open(f"/{name}?{walk.query if walk else ''}", title)
        assert tab.page.get_by_text("Page not found").count() == 0
        assert tab.page.get_by_role("heading", level=1).all_text_contents() == [title]
        if walk is not None:
            walk.move(tab)
            expected, button = csv_text(walk.expected()), f"download-{walk.table}-csv"
            assert tab.until(lambda: tab.download(button).read_text() == expected)
            assert walk.link in tab.page.url
        assert tab.outside == []
    assert_clean_log(log)


@pytest.mark.parametrize(("name", "title"), [page for page in PAGES if page[0] not in AFTER_A_RUN | WITHOUT_FILES])
def test_the_files_of_a_page_are_whole_and_its_manifest_brings_it_back(visitor: Visit, name: str, title: str) -> None:
    tab = visitor()
    tab.open(f"/{name}?{WALKS[name].query if name in WALKS else ''}", title)
    button = f"download-{name.replace('_', '-')}-zip"
    data = tab.download(button).read_bytes()
    assert tab.download(button).read_bytes() == data
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        files = {file: archive.read(file) for file in archive.namelist()}
    shown = tab.page.evaluate(
        "prefix => [...document.querySelectorAll(`[class*='st-key-${prefix}']`)]"
        ".map(e => [...e.classList].find(c => c.startsWith(`st-key-${prefix}`)).slice(`st-key-${prefix}`.length))",
        "files-of-",
    )
    tables = {place.removeprefix("table-") for place in shown if place.startswith("table-")}
    figures = {place for place in shown if not place.startswith("table-")}
    assert {"report.html", "manifest.json"} <= set(files)
    assert {f"tables/{table}.{kind}" for table in tables for kind in ("csv", "json")} <= set(files)
    assert {f"figures/{figure}.{kind}" for figure in figures for kind in ("html", "json", "svg")} <= set(files)
    # A table behind another fold than its own has its files in the zip all the same.
    own = ".st-key-numbers-{0}, .st-key-download-{0}-csv button:visible"
    within_reach = [table for table in tables if tab.page.locator(own.format(table)).count()]
    assert within_reach
    for table in within_reach:
        assert tab.download(f"download-{table}-csv").read_bytes() == files[f"tables/{table}.csv"]
    for figure in sorted(figures)[:1]:
        assert tab.download(f"download-{figure}-svg").read_bytes() == files[f"figures/{figure}.svg"]
    fresh = visitor()
    fresh.open("/bands" if name != "bands" else "/initialization")
    fresh.restore(files["manifest.json"])
    fresh.page.get_by_role("heading", level=1, name=title, exact=True).wait_for()
    fresh.settle()
    assert fresh.download(button).read_bytes() == data
    assert json.loads(files["manifest.json"])["page"] == name
