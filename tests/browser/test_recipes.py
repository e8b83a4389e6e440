"""The page Recipes in a real browser: its link, its views, its downloads, and typing a combination."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from core.health.report import observe_document
from core.health.request import ObserveRequest
from tests.benchmarks.recipe_page_latency import SIX, time_to_depths
from tests.browser.conftest import Visit


def test_a_link_shows_its_recipes_and_typing_adds_a_combination(visitor: Visit) -> None:
    tab = visitor()
    tab.open("/recipes?compare=gpt2&compare=lns%2Bgpt2&seeds=3&blocks=5", "Recipes")
    assert "L = 5 blocks, medians over 3 seeds" in tab.chart_title("activation-ratio")
    assert tab.page.get_by_text("damped twice").count() == 1
    assert_medians(tab.download("download-profiles-csv"))
    box = tab.page.locator(".st-key-compare").get_by_role("combobox")
    box.click()
    box.press_sequentially("peri-norm+gpt2")
    tab.page.get_by_role("option", name="Add: peri-norm+gpt2").wait_for()
    box.press("Enter")
    tab.page.locator(".st-key-figure-activation-ratio .legendtext", has_text="peri-norm+gpt2").wait_for()
    tab.settle()
    assert "compare=peri-norm%2Bgpt2" in tab.page.url


def assert_medians(file: Path) -> None:
    """The downloaded profile holds the median over three seeds of single observations."""
    with open(file, encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["recipe"] == "gpt2" and row["quantity"] == "activation"]
    request = ObserveRequest(recipe="gpt2")
    config = type(request.config)(blocks=5)
    arms = [observe_document(ObserveRequest(recipe="gpt2", config=config, seed=4701 + i)) for i in range(3)]
    for row, *sites in zip(rows, *(arm["initialized"]["sites"] for arm in arms), strict=True):
        middle = sorted(site["activation_ratio"] for site in sites)[1]
        assert abs(float(row["median"]) / middle - 1) < 1e-9


@pytest.mark.heavy
def test_six_recipes_at_five_depths_and_32_seeds_come_to_the_screen_by_themselves(visitor: Visit) -> None:
    """How soon they do is measured by `tests.benchmarks.recipe_page_latency`."""
    tab = visitor()
    time_to_depths(tab, 0)
    assert "32 seeds" in tab.chart_title("share-within")
    for name in SIX:
        assert tab.page.locator(".st-key-figure-share-within .legendtext", has_text=name).count() == 1
    with open(tab.download("download-depths-csv"), encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["quantity"] == "largest_activation_ratio"]
    assert [(row["recipe"], row["blocks"], row["seeds"]) for row in rows] == [
        (name, blocks, "32") for name in SIX for blocks in ("2", "4", "8", "16", "32")
    ]


@pytest.mark.heavy
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("view", "figures"),
    [
        ("Profiles", 2), ("Against depth", 5), ("Contributions", 4), ("Theory", 4), ("Contracts", 2), ("Difference", 2),
        ("Drift", 2),
    ],
)  # fmt: skip
def test_every_view_opens_from_a_link_with_all_its_figures(
    visitor: Visit, view: str, figures: int, scheme: str
) -> None:
    tab = visitor(color_scheme=scheme)
    tab.open(f"/recipes?compare_view={view.replace(' ', '%20')}&compare=gpt2&compare=dyt&seeds=4", "Recipes")
    tab.page.locator(".js-plotly-plot .main-svg").nth(figures - 1).wait_for(state="attached")
    tab.settle()
    assert tab.page.locator(".js-plotly-plot").count() == figures
    assert tab.page.get_by_role("tab", name=view, exact=True).get_attribute("aria-selected") == "true"
    paper = tab.page.evaluate("getComputedStyle(document.querySelector('.js-plotly-plot .main-svg')).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(14, 17, 23)"}[scheme]
    clicked = "Drift" if view != "Drift" else "Contracts"
    tab.page.get_by_role("tab", name=clicked, exact=True).click()
    tab.settle()
    assert f"compare_view={clicked}" in tab.page.url


@pytest.mark.heavy
def test_a_narrow_screen_shows_diagrams_and_labels_whole(visitor: Visit) -> None:
    tab = visitor(viewport={"width": 390, "height": 844})
    tab.open("/recipes?compare_view=Contracts&compare=lns%2Bgpt2&compare=ngpt&compare=parallel", "Recipes")
    tab.page.locator(".js-plotly-plot .main-svg").last.wait_for(state="attached")
    tab.settle()
    cut = tab.page.evaluate(
        "[...document.querySelectorAll('.js-plotly-plot')].flatMap(plot => {"
        " const frame = plot.getBoundingClientRect();"
        " return [...plot.querySelectorAll('.annotation-text')].map(e => [e.textContent, e.getBoundingClientRect()])"
        ".filter(([, r]) => r.left < frame.left || r.right > frame.right).map(([text]) => text); })"
    )
    assert cut == []


@pytest.mark.heavy
@pytest.mark.parametrize("view", ["Contributions", "Theory"])
def test_a_narrow_screen_shows_controls_and_legends_whole(visitor: Visit, view: str) -> None:
    tab = visitor(viewport={"width": 390, "height": 844})
    tab.open(f"/recipes?compare_view={view}&compare=unscaled&compare=gpt2&seeds=4", "Recipes")
    assert tab.overflowing() == []
    assert tab.overprinted() == []
