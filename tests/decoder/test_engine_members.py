"""Padding, row order, member batching and shared storage change nothing beyond 1e-12."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from core.construction.drawn_weights import DrawnWeights
from core.construction.states import Fresh, FreshInitialization
from core.decoder.base_draw import BaseDraw
from core.decoder.batch import Batch
from core.decoder.config import DecoderConfig
from core.decoder.forward_pass import forward
from core.decoder.splitmix64 import SplitMix64
from core.decoder.weights import StoredWeights, WeightProvider, Weights
from core.health.arms import observe_arms
from core.health.observation import Observation, observe
from core.recipes.catalogue import recipe
from core.recipes.law import constant, relative
from tests.support import BATCHES, MASKED, PACKED, Rows, assert_same_member, batch_of, observe_one

TIGHT = 1e-12
CONFIG = DecoderConfig(blocks=3, width=16, heads=4, kv_heads=2, ff_width=20, vocabulary=110, positions=9)
GRAPH = recipe("unscaled").graph(CONFIG)
ARMS = ["depth-scaled", "unscaled", "gpt2", "block-indexed", "lingua-global", "wang", "ds-init"]


class Cut:
    """A provider that stores the tensors of another one at other leading sizes."""

    def __init__(self, full: WeightProvider, change: Callable[[str, torch.Tensor], torch.Tensor]) -> None:
        self.config, self.members, self._full, self._change = full.config, full.members, full, change

    def _changed(self, weights: Weights) -> Weights:
        return {key: value if value is None else self._change(key, value) for key, value in weights.items()}

    def stem(self) -> Weights:
        return self._changed(self._full.stem())

    def block(self, block: int) -> Weights:
        return self._changed(self._full.block(block))

    def tail(self) -> Weights:
        return self._changed(self._full.tail())


def padded(rows: Rows, extra: int, ids: int) -> Batch:
    """The batch of `rows` with further columns of padding, which hold `ids` as an old buffer might."""
    batch = batch_of(rows)
    room = ((0, 0), (0, extra))
    wider = {
        name: np.pad(getattr(batch, name), room, constant_values=fill)
        for name, fill in {"valid": False, "present": False, "segments": -1, "positions": 0}.items()
    }
    inputs, targets = (np.pad(getattr(batch, name), room) for name in ("inputs", "targets"))
    inputs[~wider["present"]] = targets[~wider["present"]] = ids
    return Batch(inputs=inputs, targets=targets, **wider)


@pytest.mark.parametrize("ids", [0, 7, 10**6, -1])
@pytest.mark.parametrize("rows", BATCHES.values(), ids=BATCHES)
def test_right_padding_changes_nothing(rows: Rows, ids: int) -> None:
    """Whatever stands in the padding, inside the vocabulary or not."""
    alone = observe_one(CONFIG, "depth-scaled", 3, rows)
    arm = observe_arms(BaseDraw(CONFIG, [3]), [recipe("depth-scaled")], padded(rows, 3, ids))[0]
    assert_same_member(arm.observation, 0, alone, 0, TIGHT)


@given(order=st.permutations(range(3)))
def test_row_order_changes_nothing(order: list[int]) -> None:
    alone = observe_one(CONFIG, "depth-scaled", 3, PACKED)
    assert_same_member(observe_one(CONFIG, "depth-scaled", 3, [PACKED[i] for i in order]), 0, alone, 0, TIGHT)


def test_a_row_of_invalid_positions_changes_nothing() -> None:
    alone = observe_one(CONFIG, "unscaled", 3, MASKED)
    longer = [*MASKED, ([4, 5, 6, 7, 8, 9, 10, 11], [1] * 8, [False] * 8)]
    assert_same_member(observe_one(CONFIG, "unscaled", 3, longer), 0, alone, 0, TIGHT)


def test_packed_segments_are_rows_of_their_own() -> None:
    rows = [([0, 99, 100], [99, 100, 1]), ([7, 3], [3, 1]), ([50], [1])]
    inputs, targets = ([token for row in rows for token in row[part]] for part in (0, 1))
    packed = [(inputs, targets, None, [0, 0, 0, 5, 5, 2])]
    assert_same_member(
        observe_one(CONFIG, "unscaled", 8, packed), 0, observe_one(CONFIG, "unscaled", 8, rows), 0, TIGHT
    )


def test_a_later_token_changes_no_earlier_state() -> None:
    """Causality, to the bit: the state of every site at position t reads ids up to t alone."""
    first, second = (
        forward(GRAPH, DrawnWeights(BaseDraw(CONFIG, [1]), [recipe("unscaled")]), batch_of([(ids, [1] * 4)]))
        for ids in ([0, 99, 100, 101], [0, 99, 5, 6])
    )
    for a, b in zip(first.states, second.states, strict=True):
        assert torch.equal(a[:, :, :2], b[:, :, :2])
        assert not torch.equal(a[:, :, 2:], b[:, :, 2:])


@pytest.mark.parametrize("rows", [BATCHES["row"], PACKED], ids=["row", "packed"])
def test_many_seeds_and_arms_in_one_pass_are_as_one_by_one(rows: Rows) -> None:
    seeds = [0, 1, 4701, 2**63, 2**64 - 1]
    together = observe_arms(BaseDraw(CONFIG, seeds), [recipe(name) for name in ARMS], batch_of(rows))
    assert {arm.observation.members for arm in together} == {len(seeds) * len(ARMS)}
    assert sorted(arm.member(s) for arm in together for s in range(len(seeds))) == list(range(35))
    for arm in together:
        for position, seed in enumerate(seeds):
            alone = observe_one(CONFIG, arm.recipe.name, seed, rows)
            assert_same_member(arm.observation, arm.member(position), alone, 0, TIGHT)


def test_a_member_is_alone_with_its_loss() -> None:
    """Adjoints are of each member's own mean loss: a member of enormous weights leaves its neighbours as they are."""
    models = [stored("unscaled", seed) for seed in (1, 2, 3)]
    models[1] = {key: value * 1e8 if "down" in key else value for key, value in models[1].items()}
    together = observe(forward(GRAPH, StoredWeights(CONFIG, models), batch_of(MASKED)))
    for member in (0, 2):
        alone = observe(forward(GRAPH, StoredWeights(CONFIG, [models[member]]), batch_of(MASKED)))
        assert_same_member(together, member, alone, 0, TIGHT)


def stored(name: str, seed: int) -> dict[str, np.ndarray]:
    fresh = FreshInitialization.prepare(Fresh(CONFIG), SplitMix64(seed))
    return dict(fresh.complete(name).arrays())


def test_stored_weights_are_the_drawn_ones() -> None:
    """Two ways to the same decoder, bit for bit in the weights and to rounding in the observation."""
    draw = BaseDraw(CONFIG, [5])
    drawn = observe_arms(draw, [recipe("gpt2"), recipe("unscaled")], batch_of(PACKED))
    models = [stored("gpt2", 5), stored("unscaled", 5)]
    observation = observe(forward(GRAPH, StoredWeights(CONFIG, models), batch_of(PACKED)))
    for member, arm in enumerate(drawn):
        assert_same_member(observation, member, arm.observation, arm.member(0), TIGHT)


class TestSharedStorage:
    """A tensor of leading size G serves E / G members in a row each."""

    MODELS = 4

    def models(self) -> list[dict[str, np.ndarray]]:
        """Four members: pairs share the embedding and readers, all share the keys, writers are their own."""
        made = []
        for member in range(self.MODELS):
            model, pair, common = stored("unscaled", 10 + member), stored("unscaled", member // 2), stored("gpt2", 99)
            for key in model:
                if "key" in key:
                    model[key] = common[key]
                elif "output" not in key and "down" not in key:
                    model[key] = pair[key]
            made.append(model)
        return made

    def observed(self, change: Callable[[str, torch.Tensor], torch.Tensor]) -> Observation:
        return observe(forward(GRAPH, Cut(StoredWeights(CONFIG, self.models()), change), batch_of(MASKED)))

    def test_every_leading_size_gives_the_same(self) -> None:
        full = self.observed(lambda _, values: values.expand(self.MODELS, *values.shape[1:]).contiguous())
        shared = self.observed(self.smallest)
        for member in range(self.MODELS):
            assert_same_member(shared, member, full, member, TIGHT)
            alone = observe(forward(GRAPH, StoredWeights(CONFIG, [self.models()[member]]), batch_of(MASKED)))
            assert_same_member(full, member, alone, 0, TIGHT)

    def smallest(self, key: str, values: torch.Tensor) -> torch.Tensor:
        """The smallest leading size that still holds every member's values."""
        if values.shape[0] == 1 or (values[1:] == values[:1]).all():
            return values[:1]
        if torch.equal(values[0], values[1]) and torch.equal(values[2], values[3]):
            return values[::2].contiguous()
        return values

    def test_all_three_leading_sizes_occur(self) -> None:
        seen = {}
        provider = Cut(StoredWeights(CONFIG, self.models()), self.smallest)
        for weights in (provider.stem(), provider.block(1)):
            seen.update({key: len(value) for key, value in weights.items() if value is not None})
        assert seen["token_embedding.weight"] == 2
        assert seen["attention.query.weight"] == 2
        assert seen["attention.key.weight"] == 1
        assert seen["attention.output.weight"] == 4

    def test_leading_sizes_that_do_not_divide_each_other(self) -> None:
        """Six members: queries in pairs, keys in threes, values shared by all."""
        sizes = {"query": 3, "key": 2, "value": 1}
        models = [stored("unscaled", seed) for seed in range(6)]
        for member in range(6):
            for role, size in sizes.items():
                for key in [key for key in models[member] if f"attention.{role}" in key]:
                    models[member][key] = models[member * size // 6 * (6 // size)][key]

        def change(key: str, values: torch.Tensor) -> torch.Tensor:
            size = next((size for role, size in sizes.items() if f"attention.{role}" in key), 0)
            return values[:: 6 // size].contiguous() if size and len(values) == 6 else values

        shared = observe(forward(GRAPH, Cut(StoredWeights(CONFIG, models), change), batch_of(MASKED)))
        for member in range(6):
            alone = observe(forward(GRAPH, StoredWeights(CONFIG, [models[member]]), batch_of(MASKED)))
            assert_same_member(shared, member, alone, 0, TIGHT)

    def test_gains_and_biases_of_every_leading_size(self) -> None:
        config = DecoderConfig(**{**CONFIG.document(), "norm": "layernorm", "bias": True})
        graph, noise = recipe("unscaled").graph(config), np.random.default_rng(3)
        fresh = FreshInitialization.prepare(Fresh(config), SplitMix64(1))
        base = dict(fresh.complete("unscaled").arrays())
        vectors = [k for k, v in base.items() if v.ndim == 1]
        own, pair = ([{k: noise.normal(1, 0.3, base[k].shape) for k in vectors} for _ in range(4)] for _ in range(2))
        models = [
            {**base, **{k: (own[m] if "final" in k or "down" in k else pair[m // 2])[k] for k in vectors}}
            for m in range(4)
        ]
        shared = observe(forward(graph, Cut(StoredWeights(config, models), self.smallest), batch_of(MASKED)))
        for member in range(4):
            alone = observe(forward(graph, StoredWeights(config, [models[member]]), batch_of(MASKED)))
            assert_same_member(shared, member, alone, 0, TIGHT)


@pytest.mark.parametrize("role", ["token_embedding", "position_embedding"])
def test_arms_that_differ_in_one_embedding_alone(role: str) -> None:
    """Whichever of the two embeddings the arms share, each arm is what it is by itself."""
    config = DecoderConfig(blocks=2, position_encoding="learned")
    arms = [recipe("unscaled"), replace(recipe("unscaled"), name="halved", laws={role: relative(constant(0.5))})]
    together = observe_arms(BaseDraw(config, [1, 2]), arms, batch_of(PACKED))
    first, second = (found.observation.loss_nats[found.member(0)] for found in together)
    assert first != second
    for found, arm in zip(together, arms, strict=True):
        (alone,) = observe_arms(BaseDraw(config, [1, 2]), [arm], batch_of(PACKED))
        for seed in range(2):
            assert_same_member(found.observation, found.member(seed), alone.observation, alone.member(seed), 1e-12)
