"""A model that is chosen in the dialog replaces every control, those of the page behind it too."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Visit

pytestmark = pytest.mark.heavy
NANOGPT = "n_layer = 12\nn_head = 12\nn_embd = 768\nblock_size = 1024\nvocab_size = 50304\nbias = False"


def test_pasted_settings_bring_their_own_depth_and_recipe(visitor: Visit) -> None:
    tab = visitor().open("/?blocks=32&recipe=depth-scaled", "Health")
    tab.settle()
    tab.page.locator(".st-key-change-model button").click()
    tab.page.get_by_role("dialog").get_by_text("Paste settings").click()
    tab.page.locator(".st-key-model-text textarea").fill(NANOGPT)
    tab.page.locator(".st-key-read-text button").click()
    tab.page.get_by_role("dialog").wait_for(state="detached")
    slider = tab.page.locator(".st-key-blocks").get_by_role("slider")
    assert tab.until(lambda: slider.input_value() == "12")
    assert "12 × 768" in tab.page.locator(".st-key-model-bar").inner_text()
    # What the page sends with its next change is the pasted model's too.
    tab.slide("blocks", 1)
    assert tab.until(lambda: "blocks=13" in tab.page.url)
    assert "recipe=gpt2" in tab.page.url
