"""The engine beside the plain reference: one row, one position and one head at a time, to 1e-12 relative."""

from __future__ import annotations

from typing import Any

import pytest

from core.decoder.base_draw import BaseDraw, Distribution
from core.decoder.config import DecoderConfig
from core.health.arms import observe_arms
from core.recipes.catalogue import recipe
from tests.oracles.plain_decoder import observe_plain
from tests.oracles.plain_weights import Sizes
from tests.support import BATCHES, PACKED, RAGGED, ROW, Rows, assert_agrees, batch_of

ARMS = ("depth-scaled", "unscaled")
LARGEST_SEED = 2**64 - 1
SHAPES: dict[str, dict[str, Any]] = {
    "narrow": {"blocks": 8},
    "heads": {"blocks": 2, "width": 16, "heads": 2, "ff_width": 20},
    "grouped": {"blocks": 3, "width": 16, "heads": 4, "kv_heads": 2, "ff_width": 20},
    "one key/value head": {"blocks": 3, "width": 16, "heads": 4, "kv_heads": 1, "ff_width": 6},
    "wide heads": {"blocks": 2, "width": 6, "heads": 3, "kv_heads": 3, "head_dim": 8, "ff_width": 5},
    "narrow heads": {"blocks": 2, "width": 10, "heads": 4, "kv_heads": 2, "head_dim": 2, "ff_width": 7},
}
FAMILIES: dict[str, dict[str, Any]] = {
    "layernorm": {"norm": "layernorm"},
    "gelu": {"mlp": "gelu"},
    "learned positions": {"position_encoding": "learned"},
    "untied": {"tied": False},
    "bias": {"bias": True},
    "all": {"norm": "layernorm", "mlp": "gelu", "position_encoding": "learned", "tied": False, "bias": True},
    "constants": {"rope_base": 100.0, "rms_epsilon": 1e-2},
}


def assert_engine_is_plain(sizes: dict[str, Any], seed: int, rows: Rows, **draw: Any) -> None:
    """Both arms, observed in one pass, against two runs of the reference."""
    config = DecoderConfig(vocabulary=110, **{"positions": 6, **sizes})
    distribution = Distribution(draw.get("std"), draw.get("truncate"), draw.get("embedding_std"))
    observed = observe_arms(BaseDraw(config, [seed], distribution), [recipe(arm) for arm in ARMS], batch_of(rows))
    for arm in observed:
        reference = observe_plain(arm.recipe.name, seed=seed, rows=rows, **config.document(), **draw)
        assert arm.observation.valid_positions == reference["valid_positions"]
        assert_agrees(arm.observation, arm.member(0), reference)


@pytest.mark.parametrize("rows", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_and_batch(shape: str, rows: Rows) -> None:
    assert_engine_is_plain(SHAPES[shape], 4701, rows)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_option(family: str) -> None:
    assert_engine_is_plain({**SHAPES["grouped"], **FAMILIES[family]}, 12, PACKED)


@pytest.mark.parametrize("seed", [0, LARGEST_SEED])
def test_sixty_four_blocks_at_both_ends_of_the_seeds(seed: int) -> None:
    assert_engine_is_plain({"blocks": 64, "width": 4, "heads": 2, "kv_heads": 1, "ff_width": 3}, seed, RAGGED[1:])


@pytest.mark.parametrize("draw", [{"std": 0.02}, {"std": 0.5, "truncate": 2.0}], ids=["normal", "truncated"])
def test_a_normal_base_draw(draw: dict[str, float]) -> None:
    assert_engine_is_plain(SHAPES["grouped"], 3, ROW, **draw)


@pytest.mark.parametrize(
    "draw", [{}, {"std": 0.02}, {"std": 0.5, "truncate": 2.0}], ids=["xavier", "normal", "truncated"]
)
@pytest.mark.parametrize("family", ["learned positions", "untied"])
def test_embeddings_of_their_own_spread(family: str, draw: dict[str, float]) -> None:
    assert_engine_is_plain({**SHAPES["heads"], **FAMILIES[family]}, 3, ROW, embedding_std=0.3, **draw)


@pytest.mark.heavy
@pytest.mark.parametrize("seed", [0, 1, 2**63, LARGEST_SEED])
@pytest.mark.parametrize("rows", BATCHES.values(), ids=BATCHES)
def test_sixty_four_wide_blocks(rows: Rows, seed: int) -> None:
    assert_engine_is_plain({"blocks": 64, "width": 16, "heads": 4, "kv_heads": 2, "ff_width": 12}, seed, rows)


def test_the_reference_would_notice() -> None:
    """A tolerance of 1e-12 tells the arms, a neighbouring seed and a neighbouring epsilon apart."""
    sizes = Sizes(blocks=2, width=4, heads=1, kv_heads=1, ff_width=4, vocabulary=110)
    observed = observe_arms(BaseDraw(DecoderConfig(blocks=2, vocabulary=110), [5]), [recipe("unscaled")], batch_of(ROW))
    for change in ({"recipe": "depth-scaled"}, {"seed": 6}, {"rms_epsilon": 1.0001e-6}):
        other = {"recipe": "unscaled", "seed": 5, "rows": ROW, **vars(sizes), **change}
        with pytest.raises(AssertionError):
            assert_agrees(observed[0].observation, 0, observe_plain(**other))
