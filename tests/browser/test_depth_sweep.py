"""The sweep's page in a real browser: run, cancel, repeat, links, clicks and keys, themes and screens, files."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from threading import Semaphore

import pandas as pd
import pytest

from core.sweep.grid import SweepGrid
from core.sweep.interactive import InteractiveSweep
from core.sweep.store import Store
from pages.depth_sweep.tabs import TABS
from tests.benchmarks.sweep_page_latency import LIMIT, cancelled, run_long
from tests.browser.conftest import Visit
from tests.browser.harness import BACKGROUNDS, Visitor

NARROW = {"width": 390, "height": 844}
SMALL = "sweep_blocks=1,2,4&sweep_seeds=0:6"


def opened(tab: Visitor, query: str) -> Visitor:
    return tab.open(f"/depth_sweep?{query}", "Depth sweep")


def run(tab: Visitor) -> Visitor:
    """Press Run where anything is missing, and wait until nothing is."""
    if tab.page.locator(".st-key-sweep-run").count():
        tab.page.locator(".st-key-sweep-run button").click()
    return finished(tab)


def finished(tab: Visitor) -> Visitor:
    """Wait until no cell is missing."""
    tab.page.get_by_text("Complete:").wait_for()
    tab.settle()
    return tab


def core_files(place: Path, grid: SweepGrid) -> dict[str, bytes]:
    """The files of a grid by the core alone."""
    with Store.open(place / "cells.sqlite") as store:
        sweep = InteractiveSweep(grid, store, Semaphore(1))
        sweep.start()
        while sweep.running:
            sweep.advance(10)
        return {name: sweep.file(name) for name in ("sweep.csv", "summary.csv", "sweep.parquet")}


def test_a_linked_sweep_runs_and_its_files_are_the_cores(visitor: Visit, tmp_path: Path) -> None:
    tab = run(opened(visitor(), f"{SMALL}&sweep_view=Rows+and+refusals"))
    expected = core_files(tmp_path, SweepGrid(blocks=(1, 2, 4), seeds=tuple(range(6))))
    assert tab.download("file-sweep-csv").read_bytes() == expected["sweep.csv"]
    table = pd.read_csv(io.BytesIO(expected["sweep.csv"]))
    assert len(table) == 2 * 6 * (3 + 5 + 9)
    assert "sweep_seeds=0" in tab.page.url


@pytest.mark.heavy
def test_parquet_and_summary_are_the_cores_too(visitor: Visit, tmp_path: Path) -> None:
    tab = run(opened(visitor(), f"{SMALL}&sweep_recipes=gpt2&sweep_view=Rows+and+refusals"))
    expected = core_files(tmp_path, SweepGrid(blocks=(1, 2, 4), seeds=tuple(range(6)), recipes=("gpt2",)))
    for name in ("summary.csv", "sweep.parquet"):
        assert tab.download(f"file-{name.replace('.', '-')}").read_bytes() == expected[name]


@pytest.mark.heavy
def test_cancel_answers_within_a_second_and_partial_results_stay(visitor: Visit) -> None:
    """By the server's processor, which other work hardly moves; `tests.benchmarks.sweep_page_latency` has the clock."""
    spent = []
    tab = visitor()
    for attempt in range(3):
        run_long(tab, attempt)
        spent.append(cancelled(tab)[1])
        tab.settle()
        assert tab.chart_title("largest-activation").startswith("Largest activation ratio")
    assert sorted(spent)[1] < LIMIT


@pytest.mark.heavy
def test_a_repeat_by_another_visitor_comes_from_the_store(visitor: Visit) -> None:
    query = "sweep_blocks=1,2,4,8,16,32&sweep_seeds=0:64&sweep_recipes=completep"
    run(opened(visitor(), query))
    again = opened(visitor(), query)
    assert again.page.locator(".st-key-sweep-run").count() == 0
    assert again.page.get_by_text("Complete: 768 of 768 cells").count() == 1


@pytest.mark.heavy
def test_two_visitors_at_once_see_their_own_numbers(visitor: Visit) -> None:
    queries = [f"sweep_blocks=1,2,4,8,16,32&sweep_seeds={start}:{start + 200}&sweep_recipes=gpt2" for start in (0, 300)]
    tabs = [opened(visitor(), query) for query in queries]
    for tab in tabs:
        tab.page.locator(".st-key-sweep-run button").click()
    for tab, start in zip(tabs, (0, 300), strict=True):
        finished(tab)
        tab.page.get_by_role("tab", name="Depth by seed").click()
        tab.page.locator(".st-key-figure-heat-largest-activation .gtitle").wait_for()
        tab.settle()
        cells = pd.read_csv(tab.download("download-cells-csv"))
        assert set(cells["seed"]) == set(range(start, start + 200))
        assert len(cells) == 2 * 6 * 200


@pytest.mark.heavy
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_is_accessible_and_fits_a_narrow_screen(visitor: Visit, scheme: str) -> None:
    tab = run(opened(visitor(viewport=NARROW, color_scheme=scheme), SMALL))
    for view in TABS:
        opened(tab, f"{SMALL}&sweep_view={view.replace(' ', '+')}")
        assert tab.page.get_by_role("tab", name=view).get_attribute("aria-selected") == "true"
        assert tab.overflowing() == [], view
        assert tab.overprinted() == [], view
        assert tab.violations() == [], view
    assert tab.background() == BACKGROUNDS[scheme]


@pytest.mark.heavy
def test_a_click_on_a_cell_opens_it_with_its_numbers_and_the_way_back_is_kept(visitor: Visit) -> None:
    tab = run(opened(visitor(), f"{SMALL}&sweep_view=Depth+by+seed"))
    cells = pd.read_csv(tab.download("download-cells-csv"))
    plot = tab.page.locator(".st-key-figure-heat-largest-adjoint .nsewdrag").first
    plot.scroll_into_view_if_needed()
    tab.settle()
    box = plot.bounding_box()
    # Six seeds across, three depths up: seed 4 at two blocks.
    tab.page.mouse.click(box["x"] + box["width"] * 4.5 / 6, box["y"] + box["height"] * 1.5 / 3)
    tab.page.get_by_role("heading", level=1, name="Health", exact=True).wait_for()
    tab.settle()
    assert "L = 2 blocks, seed 4" in tab.chart_title("activation-ratio")
    assert "blocks=2" in tab.page.url
    sites = pd.read_csv(tab.download("download-sites-csv"))
    for arm, rows in sites.groupby("arm"):
        (cell,) = cells[(cells["arm"] == arm) & (cells["seed"] == 4) & (cells["blocks"] == 2)].to_dict("records")
        for quantity in ("activation", "adjoint"):
            assert rows[f"{quantity}_ratio"].max() == pytest.approx(cell[f"largest_{quantity}_ratio"], rel=1e-12)
        assert rows["loss_nats"].iloc[0] == pytest.approx(cell["loss_nats"], rel=1e-12)
    assert sites["arm"].nunique() == 2
    tab.page.get_by_role("link", name="Depth sweep").click()
    tab.page.get_by_role("heading", level=1, name="Depth sweep", exact=True).wait_for()
    tab.page.get_by_text("Complete: 36 of 36 cells").wait_for()


@pytest.mark.heavy
def test_a_cell_is_reached_by_keyboard_alone(visitor: Visit) -> None:
    tab = run(opened(visitor(), f"{SMALL}&sweep_view=Depth+by+seed"))
    tab.page.locator(".st-key-sweep_seed input").focus()
    tab.page.keyboard.press("ArrowDown")
    tab.page.keyboard.press("ArrowDown")
    tab.page.keyboard.press("Enter")
    tab.settle()
    seed = tab.page.locator(".st-key-sweep_seed input").input_value()
    for _ in range(3):
        tab.page.keyboard.press("Tab")
        if tab.page.evaluate("document.activeElement.closest('.st-key-open-cell') !== null"):
            break
    tab.page.keyboard.press("Enter")
    tab.page.get_by_role("heading", level=1, name="Health", exact=True).wait_for()
    tab.settle()
    assert f"L = 4 blocks, seed {seed}" in tab.chart_title("activation-ratio")
    assert seed != "0"


@pytest.mark.heavy
def test_the_zip_holds_every_view_and_its_manifest_restores_the_page(visitor: Visit) -> None:
    tab = run(opened(visitor(), f"{SMALL}&sweep_recipes=gpt2&sweep_band_upper=20"))
    first = tab.download("download-depth-sweep-zip").read_bytes()
    archive = zipfile.ZipFile(io.BytesIO(first))
    assert archive.testzip() is None
    names = set(archive.namelist())
    assert {
        "tables/summary.csv",
        "tables/cells.csv",
        "tables/growth.csv",
        "figures/heat-1-largest-adjoint.html",
    } <= names
    record = json.loads(archive.read("manifest.json"))
    assert record["setting"]["sweep_recipes"] == ["gpt2"]
    assert record["record"]["seeds"] == "0:6"
    other = opened(visitor(), "")
    other.restore(archive.read("manifest.json"))
    other.page.get_by_text("Complete: 36 of 36 cells").wait_for()
    other.settle()
    assert other.page.locator(".st-key-sweep_blocks input").input_value() == "1,2,4"
    assert other.download("download-depth-sweep-zip").read_bytes() == first
