"""A link opened elsewhere shows what was shared, in a browser that knows nothing of the first; a file is asked for."""

from __future__ import annotations

import json

import pytest

from tests.audit.test_reduced_health import FAMILIES
from tests.browser.conftest import Visit
from tests.browser.harness import Visitor

pytestmark = pytest.mark.heavy
LLAMA = {
    "model_type": "llama", "hidden_size": 32, "num_hidden_layers": 5, "num_attention_heads": 4, "vocab_size": 300,
    "intermediate_size": 64, "max_position_embeddings": 64, "tie_word_embeddings": False,
}  # fmt: skip


def dropped(tab: Visitor, config: dict[str, object]) -> None:
    """Drop a config on the landing page and wait until the model bar names it."""
    data = {"name": "secret.json", "mimeType": "application/json", "buffer": json.dumps(config).encode()}
    tab.page.locator(".st-key-landing-files input[type=file]").set_input_files(data)
    tab.page.locator(".st-key-model-line").get_by_text("Your config.json").wait_for()


def runs(tab: Visitor) -> list[str]:
    """The names of the kept runs, and the names of the curves they have in the figure."""
    tab.page.get_by_role("tab", name="Runs", exact=True).click()
    tab.page.locator(".st-key-figure-runs-activation-ratio .legendtext").first.wait_for()
    tab.settle()
    names = [field.input_value() for field in tab.page.locator("[class*=st-key-run-name] input").all()]
    return names + tab.page.locator(".st-key-figure-runs-activation-ratio .legendtext").all_text_contents()


def test_the_same_link_elsewhere_shows_the_same_runs(visitor: Visit) -> None:
    tab = visitor().open("/?blocks=6&seeds=4", "Health")
    tab.page.locator(".st-key-pin button").click()
    tab.settle()
    dropped(tab, LLAMA)
    tab.settle()
    tab.page.locator(".st-key-pin button").click()
    tab.page.locator(".st-key-pin").get_by_text("2/4").wait_for()
    shown, line = runs(tab), tab.page.locator(".st-key-model-line p").first.text_content()
    assert len(shown) >= 4
    link = tab.page.url.removeprefix(tab.address)
    assert "secret" not in link
    other = visitor().open(link, "Health")
    assert runs(other) == shown
    assert other.page.locator(".st-key-model-line p").first.text_content() == line


def test_a_link_to_a_file_of_another_family_asks_for_it_and_takes_it(visitor: Visit) -> None:
    tab = visitor().open("/", "Health")
    config = {"model_type": "mixtral", **FAMILIES["mixtral"]}
    dropped(tab, config)
    link = tab.page.url.removeprefix(tab.address)
    assert "family=mixtral" in link
    cancel(tab)
    other = visitor()
    other.page.goto(other.address + link)
    other.page.locator("[data-testid=stAlert]").get_by_text("press Change and drop the file again").wait_for()
    dropped(other, config)
    cancel(other)
    assert other.page.url.removeprefix(other.address) == link


def cancel(tab: Visitor) -> None:
    """End the build that a new model begins with: it is of no interest here."""
    tab.page.locator(".st-key-cancel-run button").click()
    tab.page.get_by_text("The run was cancelled").wait_for()
