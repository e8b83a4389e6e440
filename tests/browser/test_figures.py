"""How figures stand in the page: redrawn in place, as wide as their column, with the reader's own view of them kept."""

from __future__ import annotations

import hashlib
import urllib.request
from typing import Any

import plotly
import pytest

from pages.common.chart import ADDRESS, SCRIPT
from tests.browser.conftest import Visit
from tests.browser.harness import Visitor

FIGURE = ".st-key-figure-activation-ratio .depthscope-figure"
STATE = """plot => ({
    x: plot._fullLayout.xaxis.range, shown: plot._fullData.map(one => one.visible), height: plot._fullLayout.height,
    buttons: [...plot.querySelectorAll('.modebar-btn')].map(one => one.dataset.title),
    legend: plot.querySelector('.legend').getBoundingClientRect().bottom - plot.getBoundingClientRect().bottom,
})"""


def shown(tab: Visitor, expression: str) -> Any:
    """What JavaScript says of the first figure, named `plot`."""
    return tab.page.locator(FIGURE).evaluate(f"plot => {expression}")


def test_a_moved_slider_redraws_the_figure_that_stands_there_and_keeps_what_the_reader_did(visitor: Visit) -> None:
    tab = visitor()
    tab.open("/?blocks=6", "Health")
    shown(tab, "{ plot.mark = 'the same'; plot.draws = 0; plot.on('plotly_afterplot', () => plot.draws++); }")
    control = tab.page.locator(f"{FIGURE} .traces", has=tab.page.get_by_text("unscaled", exact=True))
    control.locator(".legendtoggle").click()
    tab.page.wait_for_function(f"document.querySelector('{FIGURE}').draws === 1")
    tab.slide("blocks", 1)
    assert "L = 7 blocks" in tab.chart_title("activation-ratio")
    assert shown(tab, "plot.mark") == "the same"
    assert shown(tab, "plot.draws") == 2
    hidden = "plot._fullData.filter(series => series.visible !== true).map(series => [series.name, series.visible])"
    assert shown(tab, hidden) == [["unscaled", "legendonly"]]
    assert shown(tab, "plot._fullData.find(series => series.name === 'depth-scaled').y.length") == 15


def test_a_zoom_does_not_outlive_another_axis(visitor: Visit) -> None:
    tab = visitor()
    tab.open("/?blocks=6", "Health")
    shown(tab, "window.Plotly.relayout(plot, {'xaxis.range': [2, 7], 'yaxis.range': [-1, 1]})")
    tab.page.locator(".st-key-scale").get_by_text("linear", exact=True).click()
    tab.page.wait_for_function(f"document.querySelector('{FIGURE}')._fullLayout.yaxis.type === 'linear'")
    assert shown(tab, "plot._fullLayout.xaxis.range") == pytest.approx([-0.54, 12.54])


def test_a_figure_out_of_sight_is_drawn_too_after_those_in_sight(visitor: Visit) -> None:
    tab = visitor(viewport={"width": 390, "height": 500})
    tab.open("/?blocks=4", "Health")
    below = tab.page.locator(".st-key-figure-adjoint-ratio .depthscope-figure")
    assert below.evaluate("plot => plot.getBoundingClientRect().top > innerHeight")
    assert "L = 4 blocks" in tab.chart_title("adjoint-ratio")


def test_a_figure_is_as_wide_as_its_column_whatever_becomes_of_the_sidebar(visitor: Visit) -> None:
    tab = visitor()
    tab.open("/", "Health")
    fits = "Math.abs(plot._fullLayout.width - plot.getBoundingClientRect().width) <= 1"
    assert shown(tab, fits)
    before = shown(tab, "plot._fullLayout.width")
    tab.page.locator("[data-testid=stSidebar]").hover()
    tab.page.locator("[data-testid=stSidebarCollapseButton] button").click()
    assert tab.until(lambda: shown(tab, "plot._fullLayout.width") > before + 50)
    assert tab.until(lambda: shown(tab, fits))


def test_without_the_library_the_words_stand_where_the_figure_would(visitor: Visit) -> None:
    tab = visitor()
    tab.page.route("**/plotly-*.min.js", lambda route: route.abort())
    tab.page.goto(tab.address)
    tab.page.locator(FIGURE, has_text="depth-scaled: from 1 at 0 to").wait_for()
    assert tab.page.locator(FIGURE).get_attribute("role") == "figure"
    assert str(tab.page.locator(FIGURE).get_attribute("aria-label")).startswith("Activation ratio")


def test_the_library_is_the_pinned_package_s_own_kept_for_ever(server: str) -> None:
    assert plotly.__version__ in ADDRESS
    with urllib.request.urlopen(server + ADDRESS, timeout=10) as answer:
        body = answer.read()
        assert "immutable" in answer.headers["Cache-Control"]
        assert answer.headers["Content-Type"].startswith("text/javascript")
    assert hashlib.sha256(body).digest() == hashlib.sha256(SCRIPT.read_bytes()).digest()


def test_a_zoom_and_a_hidden_line_outlive_the_slider_and_home_goes_to_the_new_data(visitor: Visit) -> None:
    tab = visitor()
    tab.open("/?blocks=5", "Health")
    figure = tab.page.locator(".st-key-figure-activation-ratio .depthscope-figure")
    figure.locator(".legendtoggle").nth(1).click()
    figure.evaluate("plot => new Promise(done => setTimeout(done, 800))")
    area = figure.locator(".nsewdrag").bounding_box()
    tab.page.mouse.move(area["x"] + 40, area["y"] + 40)
    tab.page.mouse.down()
    tab.page.mouse.move(area["x"] + 160, area["y"] + 140, steps=5)
    tab.page.mouse.up()
    zoomed = figure.evaluate(STATE)
    assert zoomed["shown"][1] == "legendonly"
    assert zoomed["x"][1] < 9

    tab.slide("blocks", 1)
    tab.page.get_by_text("L = 6 blocks").first.wait_for()
    moved = figure.evaluate(STATE)
    assert (moved["x"], moved["shown"]) == (zoomed["x"], zoomed["shown"])

    figure.hover()
    figure.locator("[data-title='Reset axes']").click()
    tab.page.wait_for_function("() => document.querySelector('.depthscope-figure')._fullLayout.xaxis.range[1] > 12")


def test_the_whole_screen_has_the_legend_too_and_no_button_sends_a_figure_away(visitor: Visit) -> None:
    tab = visitor()
    tab.open("/", "Health")
    figure = tab.page.locator(".st-key-figure-activation-ratio .depthscope-figure")
    figure.locator(".legend").wait_for()
    before = figure.evaluate(STATE)
    assert "Fullscreen" in before["buttons"]
    assert not any("Share" in title for title in before["buttons"])
    _to_height(tab, figure, 1000)
    assert figure.evaluate(STATE)["legend"] < 0
    assert tab.overprinted() == []
    _to_height(tab, figure, before["height"])
    assert figure.evaluate(STATE)["legend"] == before["legend"] < 0


def _to_height(tab: Any, figure: Any, height: int) -> None:
    figure.hover()
    figure.locator("[data-title=Fullscreen]").click()
    tab.page.wait_for_function(
        "height => document.querySelector('.depthscope-figure')._fullLayout.height === height", arg=height
    )
    tab.page.wait_for_timeout(300)
