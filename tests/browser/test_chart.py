"""The figure in the page: what a reader did to it outlives new data, and it is whole at every size."""

from __future__ import annotations

from typing import Any

from tests.browser.conftest import Visit

STATE = """plot => ({
    x: plot._fullLayout.xaxis.range, shown: plot._fullData.map(one => one.visible), height: plot._fullLayout.height,
    buttons: [...plot.querySelectorAll('.modebar-btn')].map(one => one.dataset.title),
    legend: plot.querySelector('.legend').getBoundingClientRect().bottom - plot.getBoundingClientRect().bottom,
})"""


def test_a_zoom_and_a_hidden_line_outlive_the_slider_and_home_goes_to_the_new_data(visitor: Visit) -> None:
    tab = visitor()
    tab.open("/?blocks=5", "Residual health")
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
    tab.open("/", "Residual health")
    figure = tab.page.locator(".st-key-figure-activation-ratio .depthscope-figure")
    figure.locator(".legend").wait_for()
    before = figure.evaluate(STATE)
    assert "Fullscreen" in before["buttons"]
    assert not any("Share" in title for title in before["buttons"])
    _to_height(tab, figure, 1000)
    assert figure.evaluate(STATE)["legend"] < 0
    _to_height(tab, figure, before["height"])
    assert figure.evaluate(STATE)["legend"] == before["legend"] < 0


def _to_height(tab: Any, figure: Any, height: int) -> None:
    figure.hover()
    figure.locator("[data-title=Fullscreen]").click()
    tab.page.wait_for_function(
        "height => document.querySelector('.depthscope-figure')._fullLayout.height === height", arg=height
    )
    tab.page.wait_for_timeout(300)
