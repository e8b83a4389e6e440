"""No page is longer than two and a half screens of a laptop before a fold is opened."""

from __future__ import annotations

import pytest

from pages.common import navigation
from tests.browser.conftest import Visit

SCREEN = {"width": 1400, "height": 900}
HEIGHT = "document.querySelector('[data-testid=stMain]').scrollHeight"
pytestmark = pytest.mark.heavy


def test_every_page_is_at_most_two_and_a_half_screens_high(visitor: Visit) -> None:
    tab = visitor(viewport=SCREEN)
    heights = {
        entry.title: tab.open(f"/{entry.name}", entry.title).page.evaluate(HEIGHT)
        for entry in navigation.ENTRIES.values()
    }
    assert {title: height for title, height in heights.items() if height > 2.5 * SCREEN["height"]} == {}
