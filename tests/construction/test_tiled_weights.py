"""Weights drawn tile by tile give the numbers of `DrawnWeights`: every recipe, every decoder, ragged tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from core.construction.drawn_weights import DrawnWeights
from core.construction.tiled_weights import TiledWeights
from core.decoder.base_draw import XAVIER, BaseDraw, Distribution
from core.decoder.config import DecoderConfig
from core.decoder.forward_pass import forward
from core.decoder.profile import measured_shortcuts
from core.decoder.twin import reduced_twin
from core.errors import ConfigError
from core.health.observation import Observation, measure
from core.health.passes import passes
from core.recipes.catalogue import RECIPES, recipe
from core.recipes.recipe import Recipe
from tests.support import BATCHES, PACKED, Rows, assert_same_member, batch_of

SEEDS = [3, 2**64 - 1]
# No size is a multiple of the tile, and grouped heads make matrices narrower than the rest.
CONFIG = DecoderConfig(
    blocks=3, width=20, heads=4, kv_heads=2, head_dim=6, ff_width=28, vocabulary=110, positions=9, tied=False
)
NAMES = [known.name for known in RECIPES if known.refused(CONFIG) is None]
# Float32 rounds a coefficient times a weight in one order or the other; at 1e-6 a site this passes through both blocks.
LIMITS = {torch.float64: 1e-12, torch.float32: 5e-6}


@pytest.fixture(autouse=True, params=[16, 512], ids=["small tiles", "one tile"])
def tile(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.decoder.drawn_matrix.TILE", request.param)


def observed(provider: type, draw: BaseDraw, arms: Sequence[Recipe], rows: Rows, dtype: torch.dtype) -> Observation:
    batch, graph = batch_of(rows), arms[0].graph(draw.config)
    scalars = None
    if arms[0].profile is not None:
        scalars = measured_shortcuts(graph, lambda ones: provider(draw, arms, torch.float64, "cpu", ones), batch)
    tape = forward(graph, provider(draw, arms, dtype, "cpu", scalars), batch)
    return measure(tape)


def assert_alike(
    config: DecoderConfig,
    names: Sequence[str],
    rows: Rows = PACKED,
    dtype: torch.dtype = torch.float64,
    distribution: Distribution = XAVIER,
) -> None:
    draw, arms = BaseDraw(config, SEEDS, distribution), [recipe(name) for name in names]
    dense, tiled = (observed(provider, draw, arms, rows, dtype) for provider in (DrawnWeights, TiledWeights))
    assert dense.sound.all()
    for member in range(len(SEEDS) * len(arms)):
        assert_same_member(tiled, member, dense, member, LIMITS[dtype])


@pytest.mark.parametrize("name", NAMES)
def test_every_recipe(name: str) -> None:
    assert_alike(CONFIG, [name])


@pytest.mark.parametrize("dtype", LIMITS)
def test_arms_of_every_pass_share_their_draw(dtype: torch.dtype) -> None:
    for group in passes([recipe(name) for name in NAMES]):
        assert_alike(CONFIG, [NAMES[index] for index in group], dtype=dtype)


@pytest.mark.parametrize("rows", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize(
    "config",
    [
        replace(CONFIG, tied=True),
        replace(CONFIG, position_encoding="learned", mlp="gelu", norm="layernorm", bias=True),
        replace(CONFIG, query_key_norm=True, kv_heads=1),
        reduced_twin(replace(CONFIG, width=80, head_dim=24, ff_width=112), 20),
    ],
    ids=["tied", "gpt-2", "one key/value head", "reduced twin"],
)
def test_other_decoders(config: DecoderConfig, rows: Rows) -> None:
    assert_alike(config, ["unscaled", "depth-scaled", "wang"], rows)


@pytest.mark.parametrize("name", ["ngpt", "admin", "mup", "dyt"])
def test_tied_heads_under_other_graphs(name: str) -> None:
    assert_alike(replace(CONFIG, tied=True), [name])


@pytest.mark.parametrize(
    "distribution",
    [Distribution(0.3), Distribution(0.3, 1.5), Distribution(embedding_std=0.5), Distribution(0.2, 2.0, 0.7)],
    ids=lambda law: law.name,
)
def test_other_distributions(distribution: Distribution) -> None:
    assert_alike(CONFIG, ["unscaled", "depth-scaled", "gpt2"], distribution=distribution)


def test_bfloat16_rounds_weights_as_dense_ones_are() -> None:
    """With no coefficient both multiply the same numbers, and each sum is rounded once."""
    draw, batch = BaseDraw(CONFIG, SEEDS), batch_of(PACKED)
    unscaled = recipe("unscaled")
    x = torch.randn(2, 1, 5, 20, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    dense, tiled = (provider(draw, [unscaled], torch.bfloat16) for provider in (DrawnWeights, TiledWeights))
    weight, drawn = dense.block(1)["ffn.up.weight"], tiled.block(1)["ffn.up.weight"]
    assert isinstance(weight, torch.Tensor)
    exact = torch.bmm(x.flatten(1, 2).double(), weight.double()).view(2, 1, 5, -1)
    assert drawn is not None
    found = drawn.product(x)  # type: ignore[union-attr]
    assert found.dtype == torch.bfloat16
    np.testing.assert_allclose(found.double().numpy(), exact.numpy(), rtol=2**-8, atol=1e-6)
    assert measure(forward(unscaled.graph(CONFIG), tiled, batch)).sound.all()


def test_embeddings_are_those_of_the_dense_stem_to_the_bit() -> None:
    ids = torch.tensor([[5, 0], [109, 5]])
    arms = [recipe("unscaled"), recipe("ngpt"), recipe("gpt2")]
    for dtype in LIMITS:
        for chosen in (arms, arms[:1]):
            draw = BaseDraw(CONFIG, SEEDS)
            dense, tiled = (
                p(draw, chosen, dtype).stem()["token_embedding.weight"] for p in (DrawnWeights, TiledWeights)
            )
            assert torch.equal(tiled.rows(ids), dense[:, ids])  # type: ignore[union-attr, index]
            assert tiled.shape == dense.shape  # type: ignore[union-attr]


def test_what_it_does_not_offer_is_refused() -> None:
    draw, batch, unscaled = BaseDraw(CONFIG, [1]), batch_of(PACKED), recipe("unscaled")
    with pytest.raises(ConfigError, match=r"token_embedding\.weight is drawn tile by tile and has no gradient"):
        forward(unscaled.graph(CONFIG), TiledWeights(draw, [unscaled]), batch, parameter_gradients=True)
    with pytest.raises(ConfigError, match="choose the device cpu"):
        TiledWeights(draw, [unscaled], device="cuda")
