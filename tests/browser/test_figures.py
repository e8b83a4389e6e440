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


def shown(tab: Visitor, expression: str) -> Any:
    """What JavaScript says of the first figure, named `plot`."""
    return tab.page.locator(FIGURE).evaluate(f"plot => {expression}")


def test_a_moved_slider_redraws_the_figure_that_stands_there_and_keeps_what_the_reader_did(visitor: Visit) -> None:
    tab = visitor()
    tab.open("/?blocks=6", "Residual health")
    shown(tab, "{ plot.mark = 'the same'; plot.draws = 0; plot.on('plotly_afterplot', () => plot.draws++); }")
    tab.page.locator(f"{FIGURE} .legendtoggle").nth(1).click()
    tab.page.wait_for_function(f"document.querySelector('{FIGURE}')._fullData[1].visible === 'legendonly'")
    before = shown(tab, "plot.draws")
    tab.slide("blocks", 3)
    assert "L = 9 blocks" in tab.chart_title("activation-ratio")
    assert shown(tab, "plot.mark") == "the same"
    assert shown(tab, "plot.draws - " + str(before)) == 1
    assert shown(tab, "plot._fullData.map(series => series.visible)") == [True, "legendonly", True, True]
    assert shown(tab, "plot.data[0].y.length ?? plot._fullData[0].y.length") == 19


def test_a_zoom_survives_new_data_but_not_another_axis(visitor: Visit) -> None:
    tab = visitor()
    tab.open("/?blocks=6", "Residual health")
    shown(tab, "window.Plotly.relayout(plot, {'xaxis.range': [2, 7], 'yaxis.range': [-1, 1]})")
    tab.slide("blocks", 2)
    assert "L = 8 blocks" in tab.chart_title("activation-ratio")
    assert shown(tab, "plot._fullLayout.xaxis.range") == [2, 7]
    tab.page.locator(".st-key-scale").get_by_text("linear", exact=True).click()
    tab.page.wait_for_function(f"document.querySelector('{FIGURE}')._fullLayout.yaxis.type === 'linear'")
    assert shown(tab, "plot._fullLayout.xaxis.range") == pytest.approx([-0.62, 16.62])


def test_a_figure_is_as_wide_as_its_column_whatever_becomes_of_the_sidebar(visitor: Visit) -> None:
    tab = visitor()
    tab.open("/", "Residual health")
    fits = "Math.abs(plot._fullLayout.width - plot.getBoundingClientRect().width) <= 1"
    assert shown(tab, fits)
    before = shown(tab, "plot._fullLayout.width")
    tab.page.locator("[data-testid=stSidebar]").hover()
    tab.page.locator("[data-testid=stSidebarCollapseButton] button").click()
    assert tab.until(lambda: shown(tab, "plot._fullLayout.width") > before + 50)
    assert tab.until(lambda: shown(tab, fits))


def test_fullscreen_fills_the_screen_and_comes_back(visitor: Visit) -> None:
    tab = visitor()
    tab.open("/", "Residual health")
    size = "[plot._fullLayout.width, plot._fullLayout.height]"
    before = shown(tab, size)
    tab.page.locator(FIGURE).hover()
    tab.page.locator(f"{FIGURE} [data-title=Fullscreen]").click()
    assert tab.until(lambda: shown(tab, size)[0] > 1.5 * before[0])
    tab.page.evaluate("document.exitFullscreen()")
    assert tab.until(lambda: shown(tab, size) == before)


def test_without_the_library_the_words_stand_where_the_figure_would(visitor: Visit) -> None:
    tab = visitor()
    tab.page.route("**/plotly-*.min.js", lambda route: route.abort())
    tab.page.goto(tab.address)
    tab.page.locator(FIGURE, has_text="depth-scaled starts at 1").wait_for()
    assert tab.page.locator(FIGURE).get_attribute("role") == "figure"
    assert "residual sites" in str(tab.page.locator(FIGURE).get_attribute("aria-label"))


def test_the_library_is_the_pinned_package_s_own_kept_for_ever(server: str) -> None:
    assert plotly.__version__ in ADDRESS
    with urllib.request.urlopen(server + ADDRESS, timeout=10) as answer:
        body = answer.read()
        assert "immutable" in answer.headers["Cache-Control"]
        assert answer.headers["Content-Type"].startswith("text/javascript")
    assert hashlib.sha256(body).digest() == hashlib.sha256(SCRIPT.read_bytes()).digest()
