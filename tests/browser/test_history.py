"""Back leads to the page before, as it was: one entry of the history for each page, however it was reached."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Visit
from tests.browser.harness import Visitor

pytestmark = pytest.mark.heavy
HEALTH, BROKEN = "Health", "/?blocks=32&recipe=unscaled"


def arrived(tab: Visitor, title: str) -> None:
    """Wait until a page stands with what it shows."""
    tab.page.get_by_role("heading", level=1, name=title, exact=True).wait_for()
    tab.settle()


def chosen(tab: Visitor, title: str) -> None:
    """Go to a page by the menu."""
    tab.page.locator(".st-key-menu").get_by_role("link", name=title, exact=True).click()
    arrived(tab, title)


def back(tab: Visitor, title: str) -> str:
    """Press Back, wait for the page that is expected; its address."""
    tab.page.go_back()
    arrived(tab, title)
    return address(tab)


def address(tab: Visitor) -> str:
    return str(tab.page.url).removeprefix(tab.address)


def depth(tab: Visitor) -> int:
    return int(tab.page.locator(".st-key-blocks").get_by_role("slider").input_value())


def test_back_leads_through_the_pages_one_by_one_each_as_it_was_left(visitor: Visit) -> None:
    tab = visitor().open(BROKEN, HEALTH)
    tab.slide("blocks", 2)
    tab.page.get_by_role("tab", name="Mend it").click()
    assert tab.until(lambda: "view=Mend+it" in address(tab))
    left = address(tab)
    chosen(tab, "Recipes")
    tab.slide("blocks", 3)
    assert tab.until(lambda: "blocks=37" in address(tab))
    chosen(tab, "Bands")
    chosen(tab, "Published fixtures")
    assert back(tab, "Bands") == "/bands?blocks=37&recipe=unscaled"
    assert back(tab, "Recipes") == "/recipes?blocks=37&recipe=unscaled"
    assert depth(tab) == 37
    assert back(tab, HEALTH) == left
    assert tab.until(lambda: depth(tab) == 34)
    assert tab.page.get_by_role("tab", name="Mend it").get_attribute("aria-selected") == "true"
    tab.page.go_forward()
    arrived(tab, "Recipes")
    assert address(tab) == "/recipes?blocks=37&recipe=unscaled"


def test_settings_of_a_page_fill_no_history(visitor: Visit) -> None:
    tab = visitor().open("/bands", "Bands")
    chosen(tab, HEALTH)
    entries = tab.page.evaluate("history.length")
    tab.slide("blocks", 5)
    tab.page.get_by_role("tab", name="Contributions").click()
    tab.settle()
    tab.page.locator(".st-key-reset button").click()
    assert tab.until(lambda: depth(tab) == 8)
    assert tab.page.evaluate("history.length") == entries
    assert back(tab, "Bands") == "/bands"


def test_back_from_a_page_that_a_link_in_the_text_opened(visitor: Visit) -> None:
    tab = visitor().open("/published_fixtures", "Published fixtures")
    tab.page.get_by_role("link", name="in Health").click()
    arrived(tab, HEALTH)
    assert back(tab, "Published fixtures") == "/published_fixtures"


def test_back_from_a_page_that_a_button_opened(visitor: Visit) -> None:
    tab = visitor().open("/depth_sweep?sweep_blocks=2%2C4&sweep_seeds=0%3A2", "Depth sweep")
    if tab.page.locator(".st-key-sweep-run").count():  # another visitor of this server may have run these cells
        tab.page.locator(".st-key-sweep-run button").click()
    tab.page.get_by_text("Complete:").wait_for()
    tab.settle()
    tab.page.get_by_role("tab", name="Depth by seed").click()
    tab.settle()
    left = address(tab)
    tab.page.locator(".st-key-open-cell button").click()
    arrived(tab, HEALTH)
    # The cell's depth and seed are the model's now, on every page.
    assert back(tab, "Depth sweep") == f"{left}&blocks=4&seed=0"


def test_a_tour_is_one_entry_for_each_page_it_leads_to(visitor: Visit) -> None:
    tab = visitor().open("/bands", "Bands")
    chosen(tab, "Signal lab")
    tab.page.locator(".st-key-tours button").first.click()
    tab.page.get_by_text("stop 1 of").wait_for()
    tab.settle()
    tab.page.locator(".st-key-tour-next button").click()
    tab.page.get_by_text("stop 2 of").wait_for()
    tab.settle()
    assert back(tab, "Bands").startswith("/bands")
