"""The lab pages in a real browser: dark and narrow, linked, played with, downloaded, and toured."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from core.export.csv import csv_text
from core.lab.experiments import experiment
from core.lab.tours import TOURS
from pages.common import navigation
from pages.common.lab_controls import PAGES, LabPage
from tests.browser.conftest import Visit
from tests.browser.harness import Visitor

pytestmark = pytest.mark.heavy
NARROW = {"width": 390, "height": 844}
# A page, one of its experiments, a setting, and a table that the experiment makes.
CASES = [
    (PAGES["signal_lab"], "chain", {"layers": 20, "activation": "tanh", "spread": "xavier"}, "sizes"),
    (PAGES["norm_lab"], "norm-jacobian", {"norm": "rmsnorm", "x": "1,2,3,4,5"}, "jacobian"),
    (PAGES["residual_paths"], "stream-expansion", {"blocks": 4, "recipe": "gpt2"}, "terms"),
]


def address(page: LabPage, name: str, given: dict[str, Any]) -> str:
    """The path and query of an experiment with options."""
    bench = page.bench(name)
    query = {page.selector.name: bench.experiment.label} | {
        bench.controls[key].name: value for key, value in given.items()
    }
    return f"/{page.name}?{urlencode(query)}"


def key(file: str) -> str:
    """The key of a download button as it stands in the page's markup."""
    return "download-" + file.replace(".", "-")


@pytest.mark.parametrize(("page", "name", "given", "table"), CASES)
def test_a_link_in_dark_on_a_telephone_shows_its_numbers_and_gives_them_as_files(
    visitor: Visit, page: LabPage, name: str, given: dict[str, Any], table: str
) -> None:
    tab = visitor(viewport=NARROW, color_scheme="dark")
    tab.open(address(page, name, given), page.title)
    entry = experiment(name)
    options = entry.options(given)
    result = entry.run(options)
    subject = experiment(name).subject(options)
    for file in experiment(name).pictures(result, subject):
        assert subject in tab.chart_title(file)
    first = next(iter(experiment(name).pictures(result, subject)))
    paper = tab.page.locator(f".st-key-figure-{first} .main-svg").first.evaluate("e => e.style.background")
    assert paper == "rgb(14, 17, 23)"
    file = tab.download(key(f"{name}-{table}.csv"))
    assert file.read_text(encoding="utf-8") == csv_text(result.tables[table])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES.values(), ids=lambda page: page.name)
def test_every_experiment_is_accessible(visitor: Visit, page: LabPage, scheme: str) -> None:
    tab = visitor(color_scheme=scheme)
    tab.open(f"/{page.name}", page.title)
    for bench in page.benches:
        tab.page.get_by_role("radio", name=bench.experiment.label, exact=True).click()
        tab.page.get_by_role("heading", level=3, name=bench.experiment.title, exact=True).wait_for()
        tab.settle()
        assert tab.violations() == [], bench.experiment.label


@pytest.mark.parametrize(("page", "name", "given", "table"), CASES)
def test_the_zip_holds_the_experiment_and_its_manifest_brings_it_back(
    visitor: Visit, page: LabPage, name: str, given: dict[str, Any], table: str
) -> None:
    tab = visitor()
    tab.open(address(page, name, given), page.title)
    button = key(f"{page.name.replace('_', '-')}.zip")
    data = tab.download(button).read_bytes()
    assert tab.download(button).read_bytes() == data
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = set(archive.namelist())
        manifest = archive.read("manifest.json")
        stored = archive.read(f"tables/{name}-{table}.csv").decode()
    entry = experiment(name)
    result = entry.run(entry.options(given))
    assert stored == csv_text(result.tables[table])
    for file in experiment(name).pictures(result, ""):
        assert {f"figures/{file}.html", f"figures/{file}.json"} <= names
    assert json.loads(manifest)["record"]["options"] == entry.options(given).document()
    fresh = visitor()
    fresh.open("/bands", "Bands")
    fresh.restore(manifest)
    fresh.page.get_by_role("heading", level=1, name=page.title, exact=True).wait_for()
    fresh.settle()
    assert fresh.download(button).read_bytes() == data


def test_a_slider_changes_figure_sentence_table_and_link(visitor: Visit) -> None:
    tab = visitor()
    tab.open(address(PAGES["signal_lab"], "scaled-residual", {"branches": 30}), "Signal lab")
    assert "L = 30 branches" in tab.chart_title("scaled-residual-variance")
    tab.slide("signal_scaled_residual_branches", 3)
    tab.page.get_by_text("L = 33 branches").first.wait_for()
    assert "L = 33 branches" in tab.chart_title("scaled-residual-correlation")
    assert "signal_scaled_residual_branches=33" in tab.page.url
    file = tab.download(key("scaled-residual-additions.csv"))
    with open(file, encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    expected = experiment("scaled-residual")
    table = expected.run(expected.options({"branches": 33})).tables["additions"]
    assert [float(row["measured_variance"]) for row in rows] == table["measured_variance"].tolist()


def test_the_unit_plays_to_its_end_and_resets(visitor: Visit) -> None:
    tab = visitor()
    tab.open(address(PAGES["signal_lab"], "sigmoid-unit", {"x": 3, "w": 3}), "Signal lab")
    tab.page.locator(".st-key-unit-reset button").click()
    tab.page.get_by_text("Step 0 of 7: predict the logit and the slope").wait_for()
    tab.settle()
    assert tab.page.locator(".st-key-signal_sigmoid_unit_x input").input_value() == "1"
    assert tab.page.locator("[data-testid=stAlert]").count() == 0
    tab.page.locator(".st-key-unit-play button").click()
    tab.page.get_by_text("Step 3 of 7.").wait_for()
    tab.page.get_by_text("Step 7 of 7.").wait_for()
    tab.page.get_by_text("The logit is 0.5 and the slope 0.235").wait_for()


def test_an_experiment_keeps_its_setting_while_others_are_looked_at(visitor: Visit) -> None:
    tab = visitor()
    tab.open("/norm_lab", "Norm lab")
    row = tab.page.locator(".st-key-norm_x input")
    row.fill("2,4,8")
    row.press("Enter")
    tab.settle()
    tab.page.get_by_role("radio", name="Jacobian", exact=True).click()
    tab.page.get_by_text("typed row of 3").first.wait_for()
    tab.settle()
    tab.page.get_by_role("link", name="Residual paths").click()
    tab.page.get_by_role("heading", level=1, name="Residual paths", exact=True).wait_for()
    tab.settle()
    tab.page.get_by_role("link", name="Norm lab").click()
    tab.page.get_by_role("heading", level=1, name="Norm lab", exact=True).wait_for()
    tab.settle()
    assert "typed row of 3" in tab.chart_title("norm-jacobian-matrix")
    query = parse_qs(urlsplit(tab.page.url).query)
    assert query == {"norm_experiment": ["Jacobian"], "norm_x": ["2,4,8"]}


@pytest.mark.parametrize("name", TOURS)
def test_a_tour_is_walked_and_every_stops_link_opens_the_same(visitor: Visit, name: str) -> None:
    tab, other = visitor(), visitor()
    tab.open("/signal_lab", "Signal lab")
    tab.page.locator(f".st-key-tour-{name} button").click()
    steps = TOURS[name].steps
    for index, step in enumerate(steps):
        arrive(tab, step, index)
        # Going to an address is a new session.
        other.page.goto(tab.page.url)
        arrive(other, step, index)
        assert titles(other) == titles(tab)
        if index < len(steps) - 1:
            tab.page.locator(".st-key-tour-next button").click()
    tab.page.locator(".st-key-tour-end button").click()
    tab.page.locator(".st-key-tour").wait_for(state="detached")
    tab.settle()
    assert "tour=" not in tab.page.url


def arrive(tab: Visitor, step: Any, index: int) -> None:
    """Wait until the stop and its page stand there."""
    entry = navigation.ENTRIES[step.page]
    tab.page.locator(".st-key-tour", has_text=f"stop {index + 1} of ").wait_for()
    tab.page.get_by_role("heading", level=1, name=entry.title, exact=True).wait_for()
    tab.settle()
    text = tab.page.locator(".st-key-tour").inner_text()
    assert all(sentence in text for sentence in step.sentences)
    assert f"stop={index + 1}" in tab.page.url


def titles(tab: Visitor) -> list[str]:
    """The titles of all figures."""
    return list(tab.page.locator(".gtitle").all_text_contents())
