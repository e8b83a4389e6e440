"""Every page in a real browser: links, both themes, a narrow screen, accessibility, exports opened and checked."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from core.compare.comparison import compare_recipes
from core.compare.overlays import site_overlay_table
from core.compare.request import ComparisonRequest
from core.decoder.config import DecoderConfig
from core.export.csv import csv_text
from core.export.html import html_report
from core.export.observe import observe_report
from core.export.pictures import IMAGES, image
from core.figures.sites import ratio_figure
from core.figures.theory import overlay_figure
from core.health.band import DEFAULT_BAND
from core.health.report import observe_document
from core.health.request import ObserveRequest
from core.health.seeds import observe_seeds
from core.tables.observe import site_table
from core.tables.recipes import overlay_summary
from core.tables.seeds import ribbon_table
from pages.common import navigation
from pages.common.model_controls import SEEDS
from tests.browser.conftest import Visit
from tests.browser.harness import BACKGROUNDS

PAGES = [(entry.name, entry.title) for entry in navigation.ENTRIES.values()]
NARROW = {"width": 390, "height": 844}
WHOLE_LEGENDS = """
[...document.querySelectorAll('.js-plotly-plot')].every(plot => [...plot.querySelectorAll('.legend')].every(
  legend => legend.getBoundingClientRect().bottom <= plot.getBoundingClientRect().bottom))
"""
# The vertical title stands left of every number, and no name of the legend ends beyond the figure.
CLEAR = """
[...document.querySelectorAll('.js-plotly-plot')].every(plot => {
  const boxes = selector => [...plot.querySelectorAll(selector)].map(one => one.getBoundingClientRect());
  const [title] = boxes('.ytitle');
  const names = boxes('.legendtext');
  return names.length > 1 && boxes('.ytick text').every(number => title.right < number.left) && title.left >= 0
    && names.every(name => name.right <= plot.getBoundingClientRect().right);
})
"""
pytestmark = pytest.mark.heavy


@pytest.mark.parametrize(("name", "title"), PAGES)
def test_a_page_is_accessible_in_light(visitor: Visit, name: str, title: str) -> None:
    tab = visitor(color_scheme="light")
    tab.open(f"/{name}", title)
    assert tab.overprinted() == []
    assert tab.violations() == []
    assert tab.background() == BACKGROUNDS["light"]


@pytest.mark.parametrize(("name", "title"), PAGES)
def test_a_page_is_accessible_in_dark_and_fits_a_telephone(visitor: Visit, name: str, title: str) -> None:
    tab = visitor(viewport=NARROW, color_scheme="dark")
    tab.open(f"/{name}", title)
    assert tab.overflowing() == []
    assert tab.overprinted() == []
    assert tab.violations() == []
    assert tab.background() == BACKGROUNDS["dark"]


def test_a_filled_button_reads_well_when_the_browser_s_theme_changes(visitor: Visit) -> None:
    tab = visitor(color_scheme="light")
    tab.open("/?view=Mend+it&blocks=64", "Health")
    tab.page.emulate_media(color_scheme="dark")
    assert tab.until(lambda: tab.background() == BACKGROUNDS["dark"])
    tab.settle()
    assert tab.violations() == []


def test_the_report_and_a_figure_of_the_zip_draw_by_themselves(visitor: Visit, chromium: Any, tmp_path: Path) -> None:
    tab = visitor()
    tab.open("/", "Health")
    with zipfile.ZipFile(io.BytesIO(tab.download("download-residual-health-zip").read_bytes())) as archive:
        archive.extractall(tmp_path)
    images = "[...document.images].filter(one => one.complete && one.naturalWidth > 700).length === 2"
    for file, drawn in (("report.html", images), ("figures/adjoint-ratio.html", WHOLE_LEGENDS)):
        with opened_file(chromium, tmp_path / file) as page:
            page.wait_for_function(drawn)


@contextmanager
def opened_file(chromium: Any, path: Path) -> Iterator[Any]:
    """A file in a narrow window, which loads nothing else and logs no error."""
    room = chromium.new_context(viewport=NARROW)
    page = room.new_page()
    requests: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.goto(path.as_uri())
    yield page
    room.close()
    assert errors == []
    assert all(url.startswith(("file:", "data:", "blob:")) for url in requests)


def test_a_figure_s_page_has_room_for_a_wide_font(chromium: Any, tmp_path: Path) -> None:
    comparison = compare_recipes(ComparisonRequest(recipes=("gpt2",), config=DecoderConfig(blocks=3), seeds=(1, 2)))
    theory = overlay_figure(overlay_summary(site_overlay_table(comparison)), "site")
    theory.update_layout(font_family="DejaVu Sans", yaxis_tickfont_size=20)
    (tmp_path / "page.html").write_text(html_report("Theory", {}, {"Theory": theory}), encoding="utf-8")
    with opened_file(chromium, tmp_path / "page.html") as page:
        page.wait_for_function(WHOLE_LEGENDS)
        page.wait_for_function(CLEAR)


def test_the_report_of_sixty_four_blocks_prints_on_three_pages(chromium: Any, tmp_path: Path) -> None:
    document = observe_document(ObserveRequest(config=DecoderConfig(blocks=64), recipe="unscaled"))
    (tmp_path / "report.html").write_text(observe_report(document), encoding="utf-8")
    with opened_file(chromium, tmp_path / "report.html") as page:
        data = page.pdf(prefer_css_page_size=True)
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", data)) <= 3


def test_a_figure_s_menu_gives_the_file_that_the_core_draws(visitor: Visit) -> None:
    tab = visitor()
    tab.open("/?blocks=3", "Health")
    assert tab.page.locator("[data-title^='Download plot']").count() == 0
    request = ObserveRequest(config=DecoderConfig(blocks=3))
    spread = ribbon_table(observe_seeds(request, range(request.seed, request.seed + SEEDS.default)))
    figure = ratio_figure(site_table(observe_document(request)), DEFAULT_BAND, "activation", spread=spread)
    for kind in IMAGES:
        assert tab.download(f"download-activation-ratio-{kind}").read_bytes() == image(figure, kind)


def test_pins_travel_in_the_manifest_to_a_fresh_session(visitor: Visit) -> None:
    tab = visitor()
    tab.open("/?blocks=6&seed=99&recipe=gpt2&arms=recipe", "Health")
    tab.page.locator(".st-key-pin button").click()
    manifest = tab.download("download-manifest-json").read_bytes()
    assert [pin["setting"]["blocks"] for pin in json.loads(manifest)["pins"]] == [6]
    fresh = visitor()
    fresh.open("/bands", "Bands")
    fresh.restore(manifest)
    fresh.page.get_by_role("heading", level=1, name="Health", exact=True).wait_for()
    fresh.settle()
    assert "L = 6 blocks, seed 99" in fresh.chart_title("activation-ratio")
    assert fresh.download("download-manifest-json").read_bytes() == manifest
    assert {"blocks=6", "seed=99", "recipe=gpt2", "arms=recipe"} <= set(re.split("[?&]", fresh.page.url))


def test_a_hostile_manifest_is_one_sentence_and_changes_nothing(visitor: Visit) -> None:
    tab = visitor()
    tab.open("/?blocks=3", "Health")
    tab.page.get_by_text("Files", exact=True).click()
    for data in (b"[" * 5000, b'{"schema": NaN}', json.dumps({"schema": "x" * 500_000}).encode()):
        tab.page.locator(".st-key-manifest_file input[type=file]").set_input_files(
            {"name": "manifest.json", "mimeType": "application/json", "buffer": data}
        )
        tab.page.locator("[data-testid=stAlert]", has_text="manifest").first.wait_for()
        tab.settle()
        assert "L = 3 blocks" in tab.chart_title("activation-ratio")


def test_markup_in_a_link_stays_text(visitor: Visit) -> None:
    tab = visitor()
    for name, value in (("recipe", "<img src=x onerror=alert(1)>"), ("seed64", "![x](http://example.invalid/a.png)")):
        tab.open(f"/?{urlencode({name: value})}", "Health")
        tab.settle()
        assert tab.page.locator("[data-testid=stMain] img").count() == 0
        assert tab.page.locator("[data-testid=stAlert]").count() == 1


TRUE_SIZE = "/?model=gpt2&context=256&dtype=float32&seeds=1"


def test_a_run_at_true_size_keeps_others_out_and_goes_on_after_it_was_cancelled(visitor: Visit) -> None:
    """The blocks of 124 million parameters, while another session waits for its turn."""
    tabs = [visitor(), visitor(viewport={"width": 390, "height": 844}, color_scheme="dark")]
    for tab in tabs:
        tab.open(TRUE_SIZE, "Health")
    owner, other = tabs
    owner.page.get_by_text("Run at true size").click()
    owner.page.locator(".st-key-run-it button").click()
    blocks = owner.page.get_by_text(re.compile(r"\d+ of 24 blocks, forward and in reverse, about .* left")).first
    blocks.wait_for()
    other.page.get_by_text("Run at true size").click()
    other.page.get_by_text(re.compile("busy with the run of another session, about .* left")).wait_for()
    assert other.page.locator(".st-key-run-it").count() == 0
    assert other.overflowing() == []
    owner.page.locator(".st-key-true-size .main-svg").first.wait_for()
    owner.page.locator(".st-key-cancel-run button").click()
    owner.page.get_by_text("The run was cancelled").wait_for()
    owner.page.get_by_text(re.compile(r"\d+ of 24 blocks are kept")).wait_for()
    other.page.locator(".st-key-run-it button").wait_for()
    owner.settle()
    assert owner.violations() == []
    owner.page.get_by_role("button", name="Continue").click()
    owner.page.get_by_text("Figures, tables and exports of").wait_for()
    owner.settle()
    assert owner.violations() == []
    assert owner.overprinted() == []


def test_a_config_that_is_dropped_on_the_landing_page_is_answered_without_a_form(visitor: Visit) -> None:
    """The layout of LLaMA 2 7B: outside by its input, and the depth by itself inside."""
    config = {
        "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 32, "intermediate_size": 11008, "vocab_size": 32000, "max_position_embeddings": 4096,
        "initializer_range": 0.02, "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
    }  # fmt: skip
    tab = visitor()
    tab.open("/", "Health")
    file = {"name": "secret.json", "mimeType": "application/json", "buffer": json.dumps(config).encode()}
    tab.page.locator(".st-key-landing-files input[type=file]").set_input_files(file)
    tab.page.locator("[data-testid=stAlert]", has_text="Outside the band").wait_for()
    verdict = tab.page.locator("[data-testid=stAlert]").first.text_content()
    assert "The depth by itself is inside the band" in verdict
    tab.page.locator(".st-key-apply-change").wait_for()
    tab.settle()
    assert "width=4096" in tab.page.url
    assert "secret" not in tab.page.url
    fresh = visitor()
    fresh.open(tab.page.url.removeprefix(tab.address), "Health")
    fresh.page.locator("[data-testid=stAlert]", has_text="Outside the band").wait_for()
    assert fresh.page.locator("[data-testid=stAlert]").first.text_content() == verdict


def test_two_visitors_at_once_each_see_their_own_numbers(visitor: Visit) -> None:
    """Row 24 of the cases: two sessions, different seeds, interleaved."""
    tabs = {seed: visitor() for seed in (11, 4242)}
    for seed, tab in tabs.items():
        tab.open(f"/?seed={seed}&blocks=4", "Health")
    for step in range(3):
        for tab in tabs.values():
            tab.slide("blocks", 1)
        for seed, tab in tabs.items():
            shown = f"L = {5 + step} blocks, seed {seed}"
            assert tab.until(lambda tab=tab, shown=shown: shown in tab.chart_title("activation-ratio"))
    for seed, tab in tabs.items():
        expected = observe_document(ObserveRequest(config=DecoderConfig(blocks=7), seed=seed))
        assert tab.download("download-sites-csv").read_text() == csv_text(site_table(expected))
