"""The project's own decoder, handed in as a plain module, gives the engine's table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from core.audit.run import audit
from core.construction.states import Fresh, FreshInitialization
from core.decoder.batch import Batch, chapter_batch
from core.decoder.config import DecoderConfig
from core.decoder.splitmix64 import SplitMix64
from core.health.report import ObserveRequest, observe_document
from tests.audit.plain import PlainDecoder

SHAPES: dict[str, dict[str, Any]] = {
    "narrow-8": {"blocks": 8},
    "cpu-bridge": {"blocks": 2, "width": 16, "heads": 2, "ff_width": 20},
    "grouped": {"blocks": 4, "width": 16, "heads": 4, "kv_heads": 2, "ff_width": 20},
    "one block": {"blocks": 1, "width": 12, "heads": 3, "kv_heads": 1, "ff_width": 8},
}
RAGGED = Batch.from_rows(
    [[0, 99, 100, 101], [5, 50], [8]],
    [[99, 100, 101, 1], [50, 1], [9]],
    [[True, False, True, True], [True, True], [True]],
)


def weights_of(config: DecoderConfig, recipe: str, seed: int = 4701, batch: Batch | None = None) -> Any:
    fresh = FreshInitialization.prepare(Fresh(config), SplitMix64(seed))
    return fresh.complete(recipe, batch).arrays()


def assert_same(found: Any, expected: Any, path: str = "") -> None:
    """Equal structure, equal words, numbers to 1e-12."""
    if isinstance(expected, dict):
        for key, value in expected.items():
            assert_same(found[key], value, f"{path}.{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), path
        for place, value in enumerate(expected):
            assert_same(found[place], value, f"{path}[{place}]")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-15), path
    else:
        assert found == expected, path


@pytest.mark.parametrize("batch", [chapter_batch(), RAGGED], ids=["chapter", "ragged"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("recipe", ["unscaled", "depth-scaled", "parallel", "completep", "zero-writer"])
def test_the_table_is_the_engines(recipe: str, shape: str, batch: Batch) -> None:
    config = DecoderConfig(**SHAPES[shape])
    expected = observe_document(ObserveRequest(config=config, recipe=recipe, batch=batch))["initialized"]
    model = PlainDecoder(config, weights_of(config, recipe), recipe)
    result = audit(model, batch)
    assert result.identity.verdict == "proved", result.identity.reason
    assert_same(result.document()["health"], expected)


def test_post_norm_states_stand_behind_the_norm() -> None:
    config = DecoderConfig(blocks=4, width=16, heads=2, ff_width=20)
    request = ObserveRequest(config=config, recipe="post-norm")
    expected = observe_document(request)["initialized"]
    result = audit(PlainDecoder(config, weights_of(config, "post-norm"), "post-norm"), chapter_batch())
    assert result.identity.verdict == "proved"
    assert "not pre-norm" in result.document()["model"]["topology"]
    health = result.document()["health"]
    for key in ("loss_nats", "sites", "terminal_adjoint_rms", "input_activation_rms"):
        assert_same(health[key], expected[key], key)


def test_the_published_ratios_come_out_of_a_plain_module() -> None:
    """Figures of the chapter's narrow eight-block fixture, six decimals."""
    golden = json.loads(Path("tests/golden/chapter06.json").read_text())
    published = next(fixture for fixture in golden["fixtures"] if fixture["id"] == "narrow-8")
    config = DecoderConfig()
    scaled, control = (
        audit(PlainDecoder(config, weights_of(config, recipe)), chapter_batch()).observation
        for recipe in ("depth-scaled", "unscaled")
    )
    assert scaled is not None
    assert control is not None
    for site, expected in enumerate(published["sites"]):
        assert round(scaled.activation_ratio[0, site], 6) == expected["activation_ratio"]
        assert round(scaled.adjoint_ratio[0, site], 6) == expected["adjoint_ratio"]
    extremes = published["unscaled_control"]
    assert round(control.activation_ratio.max(), 6) == extremes["activation_ratio_max"] == 33.368741
    assert round(control.adjoint_ratio.max(), 6) == extremes["adjoint_ratio_max"]


def test_a_float32_module_agrees_to_float32() -> None:
    config = DecoderConfig(blocks=2, width=16, heads=2, ff_width=20)
    model = PlainDecoder(config, weights_of(config, "unscaled")).to(torch.float32)
    result = audit(model, chapter_batch())
    expected = observe_document(ObserveRequest(config=config, recipe="unscaled"))["initialized"]
    found = [site["adjoint_ratio"] for site in result.document()["health"]["sites"]]
    assert found == pytest.approx([site["adjoint_ratio"] for site in expected["sites"]], rel=1e-5)
