"""The landing page in a real browser."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from core.decoder.config import DecoderConfig
from core.health.report import observe_document
from core.health.request import ObserveRequest
from tests.browser.conftest import assert_clean_log
from tests.browser.harness import running_server, visit


def test_a_deep_link_to_a_fresh_server_shows_that_setting_and_follows_the_slider(chromium: Any, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    with running_server(log=log) as address, visit(chromium, address) as visitor:
        visitor.open("/?blocks=5&seed=12", "Health")
        assert visitor.page.title() == "Health · Depthscope"
        assert "L = 5 blocks, seed 12" in visitor.chart_title("activation-ratio")
        before = visitor.download("download-sites-csv")
        assert_core_numbers(before, 5, 12)

        visitor.slide("blocks", 4)
        for quantity in ("activation", "adjoint"):
            title = f".st-key-figure-{quantity}-ratio .gtitle"
            visitor.page.locator(title, has_text="L = 9 blocks, seed 12").wait_for()
        assert "blocks=9" in visitor.page.url
        assert "seed=12" in visitor.page.url
        assert_core_numbers(visitor.download("download-sites-csv"), 9, 12)
        assert visitor.outside == []
    assert_clean_log(log)


def assert_core_numbers(file: Path, blocks: int, seed: int) -> None:
    """The downloaded site table is the core's, to the last bit."""
    document = observe_document(ObserveRequest(config=DecoderConfig(blocks=blocks), seed=seed))
    with open(file, encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    sites = document["initialized"]["sites"] + document["same_base_unscaled_control"]["sites"]
    assert len(rows) == len(sites) == 2 * (2 * blocks + 1)
    for row, site in zip(rows, sites, strict=True):
        for name in ("activation_rms", "activation_ratio", "adjoint_rms", "adjoint_ratio"):
            assert float(row[name]) == site[name]
        assert row["activation_band"] == site["activation_band"]
        assert row["seed"] == str(seed)
