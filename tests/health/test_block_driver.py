"""The block-by-block driver beside the whole graph: every number to 1e-12, gradients too, and one block at a time."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from core.construction.drawn_weights import DrawnWeights
from core.construction.states import Fresh, FreshInitialization
from core.construction.tiled_weights import TiledWeights
from core.decoder.base_draw import BaseDraw
from core.decoder.config import DecoderConfig
from core.decoder.forward_pass import forward
from core.decoder.splitmix64 import SplitMix64
from core.decoder.weights import StoredWeights, WeightProvider, Weights
from core.health.arms import ByBlock, observe_arms, profile_scalars
from core.health.block_driver import BlockRun
from core.health.estimate import graph_bytes
from core.health.observation import Observation, measure
from core.recipes.catalogue import RECIPES, recipe
from tests.support import BATCHES, PACKED, batch_of

TOLERANCE = 1e-12
GROUPED = DecoderConfig(blocks=3, width=8, heads=4, kv_heads=2, ff_width=6, vocabulary=110, positions=6)
FAMILY = DecoderConfig(
    blocks=2, width=8, heads=2, ff_width=12, vocabulary=110, positions=6, norm="layernorm", mlp="gelu",
    position_encoding="learned", tied=False, bias=True, query_key_norm=True,
)  # fmt: skip
RUNNABLE = [known.name for known in RECIPES if known.refusal is None]


def both(
    config: DecoderConfig, name: str, rows: Any, weights: WeightProvider, gradients: bool = True
) -> tuple[Observation, Observation, dict[str, torch.Tensor]]:
    """The whole graph's observation and the block-by-block one, with its parameter gradients."""
    graph, batch = recipe(name).graph(config), batch_of(rows)
    tape = forward(graph, weights, batch, parameter_gradients=gradients)
    kept: dict[str, torch.Tensor] = {}
    whole = measure(tape, parameter_gradients=gradients, tokens=True)
    run = BlockRun(graph, weights, batch, tokens=True, gradients=kept.__setitem__ if gradients else None)
    return whole, run.finish(), kept


def assert_same(whole: Observation, blocks: Observation) -> None:
    """Every scalar of two observations."""
    for name in ("activation_rms", "adjoint_rms", "loss_nats", "activation_tokens", "adjoint_tokens"):
        np.testing.assert_allclose(getattr(blocks, name), getattr(whole, name), rtol=TOLERANCE, err_msg=name)
    assert (blocks.labels, blocks.valid_positions, blocks.width, blocks.owns_final_gain) == (
        whole.labels, whole.valid_positions, whole.width, whole.owns_final_gain,
    )  # fmt: skip
    assert_same_gain(whole.final_gain, blocks.final_gain)
    for ours, theirs in zip(blocks.contributions, whole.contributions, strict=True):
        assert (ours.site, ours.block, ours.branch, ours.owns_gain) == (
            theirs.site, theirs.block, theirs.branch, theirs.owns_gain,
        )  # fmt: skip
        for part in ("raw_rms", "contribution_rms", "stream_rms"):
            np.testing.assert_allclose(getattr(ours, part), getattr(theirs, part), rtol=TOLERANCE)
        np.testing.assert_allclose(ours.cosine, theirs.cosine, rtol=0, atol=TOLERANCE)
        assert_same_gain(theirs.gain, ours.gain)


def assert_same_gain(first: np.ndarray | None, second: np.ndarray | None) -> None:
    assert (first is None) == (second is None)
    if first is not None and second is not None:
        assert np.array_equal(first, second)


def assert_same_gradients(whole: Observation, kept: dict[str, torch.Tensor]) -> None:
    """Every parameter's gradient, relative to its largest entry: single entries are differences of larger terms."""
    assert set(kept) == set(whole.parameter_gradients)
    for name, expected in whole.parameter_gradients.items():
        scale = float(expected.abs().max())
        np.testing.assert_allclose(kept[name].numpy(), expected.numpy(), rtol=0, atol=TOLERANCE * scale, err_msg=name)


@pytest.mark.parametrize("name", RUNNABLE)
@pytest.mark.parametrize("rows", ["ragged", "packed"])
def test_every_recipe(name: str, rows: str) -> None:
    """Grouped heads, two seeds; sites, tokens, contributions, cosines and parameter gradients."""
    config, draw = GROUPED, BaseDraw(GROUPED, [4701, 2])
    scalars = profile_scalars(draw, recipe(name), batch_of(BATCHES[rows]))
    whole, blocks, kept = both(config, name, BATCHES[rows], DrawnWeights(draw, [recipe(name)], scalars=scalars))
    assert_same(whole, blocks)
    assert_same_gradients(whole, kept)


@pytest.mark.parametrize("blocks", [1, 2, 8, 64])
@pytest.mark.parametrize("name", ["depth-scaled", "realformer", "post-norm"])
def test_every_depth(blocks: int, name: str) -> None:
    """An adjoint that crosses blocks beside the state, RealFormer's sum of scores, is followed all the way down."""
    config = DecoderConfig(blocks=blocks, width=16, heads=4, kv_heads=2, ff_width=20, positions=6)
    draw = BaseDraw(config, [4701, 7, 2**64 - 1])
    whole, found, kept = both(config, name, PACKED, DrawnWeights(draw, [recipe(name)]))
    assert_same(whole, found)
    assert_same_gradients(whole, kept)


@pytest.mark.parametrize("name", ["unscaled", "normformer", "parallel"])
def test_another_family_with_gains_and_biases_of_its_own(name: str) -> None:
    """GELU, LayerNorm, learned positions and a separate head, of two stored decoders whose gains differ."""
    models = []
    for seed in (3, 4):
        fresh, noise = FreshInitialization.prepare(Fresh(FAMILY), SplitMix64(seed)), np.random.default_rng(seed)
        models.append(
            {
                key: value.copy() + (noise.normal(0, 0.2, value.shape) if value.ndim == 1 else 0)
                for key, value in fresh.complete(name).arrays().items()
            }
        )
    whole, blocks, kept = both(FAMILY, name, PACKED, StoredWeights(FAMILY, models))
    assert_same(whole, blocks)
    assert_same_gradients(whole, kept)
    assert whole.final_gain is not None


def test_arms_and_seeds_side_by_side() -> None:
    """Passes, members and their order are those of the whole graph."""
    arms = [recipe(name) for name in ("gpt2", "unscaled", "admin", "parallel", "wang")]
    draw, batch = BaseDraw(GROUPED, [1, 2, 3]), batch_of(PACKED)
    whole = observe_arms(draw, arms, batch, tokens=True)
    blocks = observe_arms(draw, arms, batch, tokens=True, by_block=ByBlock())
    for ours, theirs in zip(blocks, whole, strict=True):
        assert (ours.recipe, ours.first, ours.stride) == (theirs.recipe, theirs.first, theirs.stride)
        assert_same(theirs.observation, ours.observation)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_narrow_types_agree_as_far_as_they_go(dtype: str) -> None:
    arms = [recipe("gpt2"), recipe("realformer")]
    draw, batch = BaseDraw(GROUPED, [1]), batch_of(PACKED)
    whole = observe_arms(draw, arms, batch, dtype=dtype)
    blocks = observe_arms(draw, arms, batch, dtype=dtype, by_block=ByBlock())
    for ours, theirs in zip(blocks, whole, strict=True):
        for name in ("activation_rms", "adjoint_rms"):
            got, wanted = getattr(ours.observation, name), getattr(theirs.observation, name)
            np.testing.assert_allclose(got, wanted, rtol=1e-5 if dtype == "float32" else 0.05)


class Watched:
    """A provider that fails where a block is requested while the weights of another are still held."""

    def __init__(self, inner: WeightProvider) -> None:
        self.inner, self.config, self.members = inner, inner.config, inner.members
        self.asked: list[int] = []
        self._living: list[weakref.ref[torch.Tensor]] = []

    def stem(self) -> Weights:
        return self.inner.stem()

    def tail(self) -> Weights:
        return self.inner.tail()

    def block(self, block: int) -> Weights:
        assert not [one for one in self._living if one() is not None]
        self.asked.append(block)
        # Copies, because a small draw is kept and shared.
        weights = {name: None if value is None else value.clone() for name, value in self.inner.block(block).items()}
        self._living = [weakref.ref(value) for value in weights.values() if value is not None]
        return weights


@pytest.mark.parametrize("room", [0, 2**40])
def test_dense_weights_are_held_one_block_at_a_time(room: int) -> None:
    """However much room there is: a kept graph would hold the matrices."""
    weights = Watched(DrawnWeights(BaseDraw(GROUPED, [1]), [recipe("gpt2"), recipe("unscaled")]))
    BlockRun(recipe("gpt2").graph(GROUPED), weights, batch_of(PACKED), graph_room=room).finish()
    assert weights.asked == [0, 1, 2, 2, 1, 0]


@pytest.mark.parametrize("kept", [0, 1, 2, 3])
def test_graphs_of_drawn_tiles_are_kept_as_far_as_they_fit(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """They hold no matrix: what fits is not computed again, and no bit changes."""
    graph, batch = recipe("realformer").graph(GROUPED), batch_of(PACKED)
    weights = TiledWeights(BaseDraw(GROUPED, [1, 2]), [recipe("realformer")])
    plain = BlockRun(graph, weights, batch, tokens=True).finish()
    asked: list[int] = []
    blocks = weights.block
    monkeypatch.setattr(weights, "block", lambda block: asked.append(block) or blocks(block))  # type: ignore[func-returns-value]
    found = BlockRun(graph, weights, batch, tokens=True, graph_room=kept * 2 * graph_bytes(GROUPED, batch, 8)).finish()
    assert asked == [0, 1, 2, *reversed(range(kept, 3))]
    for name in ("activation_rms", "adjoint_rms", "loss_nats", "activation_tokens", "adjoint_tokens"):
        assert np.array_equal(getattr(found, name), getattr(plain, name))


@pytest.mark.parametrize("name", ["depth-scaled", "realformer", "admin", "ngpt", "wang"])
@pytest.mark.parametrize("blocks", [1, 8])
def test_a_draw_too_large_to_be_kept_is_drawn_tile_by_tile(
    name: str, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole graph's numbers, from weights that never stand in memory; coefficients multiply products there."""
    config, batch = replace(GROUPED, blocks=blocks), batch_of(PACKED)
    arms = [recipe(name), recipe("unscaled")]
    whole = observe_arms(BaseDraw(config, [1, 2]), arms, batch, tokens=True)
    monkeypatch.setattr("core.decoder.base_draw.KEPT_DRAW", 0)
    monkeypatch.setattr("core.health.arms.DrawnWeights", None)
    for room in (0, 2**40):
        blockwise = observe_arms(BaseDraw(config, [1, 2]), arms, batch, tokens=True, by_block=ByBlock(room))
        for ours, theirs in zip(blockwise, whole, strict=True):
            assert_same(theirs.observation, ours.observation)


def test_gradients_are_handed_over_as_their_block_is_passed() -> None:
    """Head first, then blocks from the last to the first, the embedding last: each can be reduced and dropped."""
    names: list[str] = []
    weights = DrawnWeights(BaseDraw(FAMILY, [1]), [recipe("unscaled")])
    graph = recipe("unscaled").graph(FAMILY)
    BlockRun(graph, weights, batch_of(PACKED), gradients=lambda name, _: names.append(name)).finish()
    order = [name.rsplit(".", 3)[0] if name.startswith("blocks") else name.split(".")[0] for name in names]
    assert list(dict.fromkeys(order)) == ["head", "blocks.1", "blocks.0", "token_embedding", "position_embedding"]


def test_the_profile_grows_site_by_site() -> None:
    graph, weights = recipe("gpt2").graph(GROUPED), DrawnWeights(BaseDraw(GROUPED, [1, 2]), [recipe("gpt2")])
    run = BlockRun(graph, weights, batch_of(PACKED))
    reached = []
    for done in run.steps():
        activation, adjoint = run.profile()
        reached.append((done, *(int(np.isfinite(values).all(axis=0).sum()) for values in (activation, adjoint))))
    assert reached == [(1, 3, 0), (2, 5, 0), (3, 7, 0), (4, 7, 3), (5, 7, 5), (6, 7, 7)]
    observation = run.observation()
    assert np.array_equal(run.profile()[0], observation.activation_rms)
    assert np.array_equal(run.profile()[1], observation.adjoint_rms)


def test_the_callers_gradient_mode_is_left_alone() -> None:
    """Between two blocks the caller's own torch settings hold."""
    graph, weights = recipe("gpt2").graph(GROUPED), DrawnWeights(BaseDraw(GROUPED, [1]), [recipe("gpt2")])
    with torch.no_grad():
        for _ in BlockRun(graph, weights, batch_of(PACKED)).steps():
            assert not torch.is_grad_enabled()


def test_a_row_too_long_is_refused_before_any_weight() -> None:
    weights = Watched(DrawnWeights(BaseDraw(GROUPED, [1]), [recipe("gpt2")]))
    with pytest.raises(ValueError, match="positions"):
        BlockRun(recipe("gpt2").graph(GROUPED), weights, batch_of([([0] * 7, [0] * 7)]))
    assert weights.asked == []
