"""The tower and what is linked with it: point at a site anywhere and all show it, click and its block opens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.decoder.config import DecoderConfig
from core.health.report import observe_document
from core.health.request import ObserveRequest
from tests.browser.conftest import Visit
from tests.browser.harness import Visitor, running_server, visit

TOWER = ".depthscope-tower"
CURVE = ".st-key-figure-activation-ratio .depthscope-figure"
# What of the page shows which site: rows of the tower, lines over curves, rings in the block, the table's frame.
SHOWN = """() => {
  const plot = document.querySelector('.st-key-figure-activation-ratio .depthscope-figure');
  const mark = plot.querySelector('.depthscope-at');
  const x = mark && !mark.hidden && new DOMMatrix(getComputedStyle(mark).transform).m41;
  const axis = plot._fullLayout.xaxis;
  return {
    tower: document.querySelector('.depthscope-tower .where').textContent,
    curve: x === false || x === null ? null : Math.round(axis.p2l(x - axis._offset)),
    values: [...plot.querySelectorAll('.hoverlayer .legendtext')].map(one => one.textContent),
    row: document.querySelector('.depthscope-tower .at').getAttribute('visibility'),
  };
}"""


def at_site(tab: Visitor, site: int) -> dict[str, Any]:
    """What the page shows, once the tower and the curve show a site."""
    tab.page.wait_for_function(
        f"site => {{ const now = ({SHOWN})(); return now.tower.includes(`site ${{site}},`) && now.curve === site; }}",
        arg=site,
    )
    found: dict[str, Any] = tab.page.evaluate(SHOWN)
    return found


def over_row(tab: Visitor, row: int, rows: int, side: float = 0.3) -> tuple[float, float]:
    """The pixel of a row of the upright tower, counted from the input."""
    tab.page.locator(f"{TOWER} svg").scroll_into_view_if_needed()
    box = tab.page.locator(f"{TOWER} svg").bounding_box()
    place = tab.page.evaluate(
        "row => { const p = document.querySelector('.depthscope-tower'); const [a, b] = p.tower.places[row];"
        " return p.frame.along((a + b) / 2); }",
        row,
    )
    return box["x"] + side * box["width"], box["y"] + place


def test_a_site_pointed_at_anywhere_is_shown_everywhere_without_the_server(visitor: Visit) -> None:
    tab = visitor(viewport={"width": 1400, "height": 3600})
    sent: list[Any] = []
    tab.page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(frame)))
    tab.open("/?blocks=8&site=2", "Health")
    sites = observe_document(ObserveRequest())["initialized"]["sites"]
    tab.page.locator(".st-key-numbers-sites summary").click()
    tab.settle()
    before = len(sent)

    tab.page.mouse.move(*over_row(tab, 5, 17))
    found = at_site(tab, 5)
    assert found["tower"] == "Here: site 5, block 2, after attention"
    assert found["row"] == "visible"
    assert len(found["values"]) == 2
    assert f"{sites[5]['activation_ratio']:.6g}" in found["values"][0]

    axes = tab.page.locator(f"{CURVE} .nsewdrag").bounding_box()
    place = tab.page.locator(CURVE).evaluate("plot => plot._fullLayout.xaxis.l2p(11)")
    tab.page.mouse.move(axes["x"] + place, axes["y"] + 60)
    assert at_site(tab, 11)["tower"] == "Here: site 11, block 5, after attention"

    block = tab.page.locator(".st-key-figure-chosen-block .depthscope-figure")
    dot = block.evaluate(
        "plot => { const s = plot._fullData.find(one => one.customdata); const b = plot.getBoundingClientRect();"
        " const {xaxis: x, yaxis: y} = plot._fullLayout;"
        " return [b.left + x._offset + x.d2p(s.x[1]), b.top + y._offset + y.d2p(s.y[1]), s.customdata[1]]; }"
    )
    tab.page.mouse.move(dot[0], dot[1])
    assert at_site(tab, dot[2])["row"] == "visible"

    tab.page.mouse.move(*over_row(tab, 1, 17))
    at_site(tab, 1)
    ring = block.locator(".depthscope-at")
    assert ring.evaluate("mark => mark.classList.contains('ring') && !mark.hidden")

    table = tab.page.locator("canvas[data-testid=data-grid-canvas]", has_text="A band")
    table.scroll_into_view_if_needed()
    cells = table.bounding_box()
    tab.page.mouse.move(cells["x"] + 40, cells["y"] + 35 * 4.5)
    assert at_site(tab, 3)["tower"] == "Here: site 3, block 1, after attention"
    tab.page.mouse.move(*over_row(tab, 4, 17))
    at_site(tab, 4)
    frame = tab.page.locator(".depthscope-row:not([hidden])").bounding_box()
    assert frame["y"] == pytest.approx(table.bounding_box()["y"] + 35 * 5, abs=2)

    tab.page.mouse.move(5, 5)
    tab.page.locator(f"{TOWER} .where", has_text="Chosen: site 2, block 0, after feed forward").wait_for()
    assert len(sent) == before


def test_a_click_opens_the_block_with_the_document_s_numbers_and_another_closes_it(visitor: Visit) -> None:
    tab = visitor(viewport={"width": 1400, "height": 2000})
    tab.open("/?blocks=5&recipe=gpt2", "Health")
    arm = observe_document(ObserveRequest(config=DecoderConfig(blocks=5), recipe="gpt2"))["initialized"]
    tab.page.mouse.click(*over_row(tab, 7, 11))
    block = tab.page.locator(".st-key-figure-chosen-block .depthscope-figure")
    block.locator(".annotation-text").first.wait_for()
    tab.settle()
    assert "site=7" in tab.page.url
    tab.page.get_by_role("heading", name="Block 3").wait_for()
    words = " ".join(block.locator(".annotation-text").all_text_contents())
    for site in (6, 7, 8):
        state = arm["sites"][site]
        assert f"RMS {state['activation_rms']:.4g}" in words
        assert f"A {state['activation_ratio']:.4g}, G {state['adjoint_ratio']:.4g}" in words
    for added in (one for one in arm["contributions"] if one["block"] == 3):
        assert f"output RMS {added['raw_rms']:.4g}" in words
        assert f"{added['contribution_to_stream']:.4g} of the stream" in words
        assert f"cosine {added['cosine']:.4g}" in words

    tab.page.mouse.click(*over_row(tab, 7, 11))
    block.wait_for(state="detached")
    tab.settle()
    assert "site=" not in tab.page.url


def test_sites_are_walked_with_the_keyboard(visitor: Visit) -> None:
    tab = visitor()
    tab.open("/?blocks=4&site=3", "Health")
    slider = tab.page.locator(f"{TOWER} [role=slider]")
    slider.focus()
    for key, site in (
        ("ArrowUp", 4), ("ArrowRight", 5), ("ArrowDown", 4), ("PageUp", 6), ("PageDown", 4), ("End", 8),
        ("ArrowUp", 8), ("Home", 0), ("ArrowLeft", 0), ("ArrowRight", 1),
    ):  # fmt: skip
        tab.page.keyboard.press(key)
        assert slider.get_attribute("aria-valuenow") == str(site)
        at_site(tab, site)
    assert str(slider.get_attribute("aria-valuetext")).startswith("site 1, block 0, after attention: depth-scaled ")
    described = tab.page.locator(f"[id='{slider.get_attribute('aria-describedby')}']").text_content()
    assert described.startswith(
        "From input to readout (L = 4 blocks, 5 to 95 % of 32 seeds). depth-scaled: activation ratio from 1"
    )
    tab.page.keyboard.press("Enter")
    tab.page.get_by_role("heading", name="Block 0").wait_for()
    tab.settle()
    assert "site=1" in tab.page.url
    tab.page.keyboard.press("Escape")
    assert tab.violations() == []


def test_the_tower_follows_the_slider_while_it_is_dragged_and_stays_the_same_element(visitor: Visit) -> None:
    tab = visitor()
    tab.open("/?blocks=8", "Health")
    tower = tab.page.locator(TOWER)
    tower.evaluate("tower => { tower.mark = 'the same'; }")
    drag(tab, 40, tower)
    assert "L = 8 blocks" in tab.chart_title("activation-ratio")
    tab.page.mouse.up()
    tab.settle()
    depth = int(tab.page.locator(".st-key-blocks").get_by_role("slider").input_value())
    assert f"L = {depth} blocks" in tab.chart_title("activation-ratio")
    assert f"L = {depth} blocks" in tower.locator(".subject").text_content()
    assert tower.evaluate("tower => tower.mark") == "the same"


def test_on_a_telephone_it_lies_above_the_curves(visitor: Visit) -> None:
    tab = visitor(viewport={"width": 390, "height": 844}, color_scheme="dark")
    tab.open("/?blocks=64&site=100", "Health")
    tower = tab.page.locator(f"{TOWER}.lying svg")
    box, below = tower.bounding_box(), tab.page.locator(CURVE).bounding_box()
    assert box["height"] < 0.5 * box["width"]
    assert box["y"] + box["height"] < below["y"]
    assert tower.get_attribute("aria-orientation") == "horizontal"
    assert tab.overflowing() == []
    assert tab.violations() == []


def drag(tab: Visitor, pixels: float, tower: Any) -> None:
    """Drag the depth slider until the tower shows the depth under the pointer, and do not let go."""
    thumb = tab.page.locator(".st-key-blocks [data-testid=stSliderThumbValue]").locator("..")
    box = thumb.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    tab.page.mouse.move(x, y)
    tab.page.mouse.down()
    tab.page.mouse.move(x + pixels, y, steps=8)
    depth = int(tab.page.locator(".st-key-blocks").get_by_role("slider").input_value())
    assert depth not in (8, 64)
    tower.locator(".subject", has_text=f"L = {depth} blocks").wait_for()


def test_on_a_telephone_the_strip_is_in_view_and_follows_while_the_depth_is_dragged(chromium: Any) -> None:
    with (
        running_server(Path(__file__).with_name("tower_page.py")) as address,
        visit(chromium, address, viewport={"width": 390, "height": 844}) as tab,
    ):
        tab.open("/?blocks=64", "Tower")
        tower = tab.page.locator(f"{TOWER}.lying")
        assert tower.locator(".subject").text_content() == "L = 64 blocks, 5 to 95 % of 4 seeds"
        assert tower.locator(".spread").count() == 1
        drag(tab, 60, tower)
        strip = tower.locator("svg").bounding_box()
        assert 0 < strip["y"] < strip["y"] + strip["height"] < 844
        tab.page.mouse.up()
        tab.settle()
        assert tab.overflowing() == []
        assert tab.violations() == []

        tab.open("/?blocks=4096", "Tower")
        rows = tower.evaluate("tower => [tower.tower.rows.length, tower.tower.rows.at(-1)]")
        assert rows == [129, [8129, 8192]]
        tower.locator("svg").focus()
        tab.page.keyboard.press("End")
        assert tower.locator(".where").text_content() == "Here: site 8192, block 4095, after feed forward"
        # The first seed of the first recipe grows by three decades.
        ends = tower.evaluate("tower => tower.tower.series.map(one => one.activation[0].at(-1))")
        assert ends[0] > 100 > ends[1]
        assert " above" in tower.locator("tbody tr").first.text_content()
