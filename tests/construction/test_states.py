"""Fresh, initialized, restored: the states between a draw and a decoder, and what each refuses."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from core.construction.states import Decoder, Fresh, FreshInitialization, initialize_depth_scaled, restore
from core.decoder.base_draw import XAVIER, Distribution
from core.decoder.config import Budget, DecoderConfig
from core.decoder.parameters import layout
from core.decoder.splitmix64 import INCREMENT, MASK, SplitMix64
from core.errors import (
    BudgetError,
    ConstructionError,
    RecipeError,
)
from core.recipes.catalogue import recipe
from core.recipes.law import depth_factor
from tests.oracles.plain_weights import Sizes, plain_base_draw, plain_recipe_weights
from tests.support import batch_of

CONFIG = DecoderConfig(blocks=2, width=4, heads=2, kv_heads=1, ff_width=6, vocabulary=11)
SEED = 4701
BYTES = [([0, 1, 2], [3, 4, 5])]


def prepared(config: DecoderConfig = CONFIG, seed: int = SEED) -> tuple[FreshInitialization, SplitMix64]:
    generator = SplitMix64(seed)
    return FreshInitialization.prepare(Fresh(config), generator), generator


def completed(name: str = "depth-scaled", config: DecoderConfig = CONFIG) -> Decoder:
    return prepared(config)[0].complete(name, batch_of(BYTES) if name == "admin" else None)


class TestPrepare:
    """Draws without moving the caller's generator."""

    def test_the_draw_is_the_published_stream(self) -> None:
        fresh, generator = prepared()
        sizes = Sizes(**CONFIG.document())
        assert fresh.parameters is not None
        plain = plain_base_draw(sizes, SEED)
        assert list(fresh.parameters) == list(plain) == [spec.name for spec in layout(CONFIG)]
        for name, values in plain.items():
            assert np.array_equal(fresh.parameters[name].detach().numpy(), np.array(values))
        assert generator.state == SEED

    def test_leaves_are_trainable_float64(self) -> None:
        fresh, _ = prepared()
        assert fresh.parameters is not None
        assert all(leaf.is_leaf and leaf.requires_grad for leaf in fresh.parameters.values())
        assert {leaf.dtype for leaf in fresh.parameters.values()} == {torch.float64}

    @pytest.mark.parametrize(
        ("budget", "sentence"),
        [
            (Budget(max_parameters=layout(CONFIG).parameters - 1), "parameters exceed the budget"),
            (Budget(max_positions=CONFIG.positions - 1), "positions exceed the budget"),
            (Budget(max_blocks=1), "2 blocks exceed the limit of 1"),
        ],
    )
    def test_the_budget_is_checked_first(self, budget: Budget, sentence: str) -> None:
        generator = SplitMix64(SEED)
        with pytest.raises(BudgetError, match=sentence):
            FreshInitialization.prepare(Fresh(CONFIG, budget), generator)
        assert generator.state == SEED

    def test_the_budget_itself_is_allowed(self) -> None:
        budget = Budget(max_parameters=layout(CONFIG).parameters, max_positions=CONFIG.positions, max_blocks=2)
        FreshInitialization.prepare(Fresh(CONFIG, budget), SplitMix64(1))

    def test_a_huge_decoder_is_refused_before_anything_is_allocated(self) -> None:
        huge = DecoderConfig(blocks=4096, width=2**40, heads=1, ff_width=2**40, vocabulary=2**40)
        with pytest.raises(BudgetError, match="parameters exceed the budget"):
            FreshInitialization.prepare(Fresh(huge), SplitMix64(1))


class TestDropAndComplete:
    """One of them, once."""

    def test_a_dropped_preparation_never_was(self) -> None:
        fresh, generator = prepared()
        fresh.drop()
        assert generator.state == SEED
        for use in (fresh.complete, fresh.control):
            with pytest.raises(ConstructionError, match="completed or dropped"):
                use()
        again = FreshInitialization.prepare(Fresh(CONFIG), generator).complete()
        assert same(again, completed())

    def test_completion_commits_the_generator_by_the_drawn_count(self) -> None:
        fresh, generator = prepared()
        decoder = fresh.complete()
        drawn = sum(spec.coordinates for spec in layout(CONFIG) if len(spec.shape) == 2)
        assert generator.state == decoder.record.final_rng_state == (SEED + drawn * INCREMENT) & MASK
        assert decoder.record.initial_rng_state == SEED
        assert decoder.source == "initialized"

    def test_completing_twice_is_refused(self) -> None:
        fresh, generator = prepared()
        fresh.complete()
        state = generator.state
        for use in (fresh.complete, fresh.control):
            with pytest.raises(ConstructionError):
                use()
        fresh.drop()
        assert generator.state == state

    def test_two_decoders_continue_one_stream(self) -> None:
        generator = SplitMix64(SEED)
        first = FreshInitialization.prepare(Fresh(CONFIG), generator).complete("unscaled")
        second = FreshInitialization.prepare(Fresh(CONFIG), generator).complete("unscaled")
        assert second.record.initial_rng_state == first.record.final_rng_state
        longer = DecoderConfig(**{**CONFIG.document(), "vocabulary": 2 * CONFIG.vocabulary})
        stream = SplitMix64(SEED).next_units(layout(longer).draws + layout(CONFIG).draws)
        start = layout(CONFIG).draws
        unit = np.float64(math.sqrt(6 / (CONFIG.vocabulary + CONFIG.width))) * (2 * stream[start : start + 4] - 1)
        assert np.array_equal(second.arrays()["token_embedding.weight"][0], unit)

    @pytest.mark.parametrize("name", ["depth-scaled", "gpt2", "wang", "ds-init", "fixup", "deepnorm", "ngpt"])
    def test_laws_act_once_on_the_base_draw(self, name: str) -> None:
        sizes = Sizes(**CONFIG.document())
        plain = plain_recipe_weights(name, sizes, plain_base_draw(sizes, SEED))
        for key, values in completed(name).arrays().items():
            np.testing.assert_allclose(values, np.array(plain[key]), rtol=1e-15, atol=0)

    def test_the_control_is_the_same_base_draw(self) -> None:
        fresh, _ = prepared()
        control = fresh.control()
        decoder = fresh.complete()
        writers = ("output.weight", "down.weight")
        assert control.record.recipe == "unscaled"
        for name, values in control.arrays().items():
            factor = depth_factor(CONFIG.blocks) if name.endswith(writers) else 1.0
            assert np.array_equal(decoder.arrays()[name], values * factor)
            assert decoder.parameters[name] is not control.parameters[name]

    def test_an_unknown_recipe_leaves_the_preparation_usable(self) -> None:
        fresh, generator = prepared()
        with pytest.raises(RecipeError, match="unknown"):
            fresh.complete("depth-scald")
        with pytest.raises(RecipeError, match="does not run here"):
            fresh.complete("t-fixup")
        with pytest.raises(RecipeError, match="measures its shortcuts on a batch"):
            fresh.complete("admin")
        assert generator.state == SEED
        assert same(fresh.complete(), completed())


class TestOneBlock:
    """At one block the factor is 1: the bits are untouched and the very leaf is handed on."""

    ONE = replace(CONFIG, blocks=1)

    def test_bypass(self) -> None:
        fresh, _ = prepared(self.ONE)
        assert fresh.parameters is not None
        before = dict(fresh.parameters)
        decoder = fresh.complete("depth-scaled")
        for name, leaf in before.items():
            assert decoder.parameters[name] is leaf
        assert decoder.record.transformed_tensors == 0
        assert decoder.record.factor == 1.0
        assert decoder.record.selected_names == ("blocks.0.attention.output.weight", "blocks.0.ffn.down.weight")
        assert same(decoder, completed("unscaled", self.ONE))

    def test_two_blocks_make_new_leaves_of_the_writers_alone(self) -> None:
        fresh, _ = prepared()
        assert fresh.parameters is not None
        before = dict(fresh.parameters)
        decoder = fresh.complete("depth-scaled")
        changed = [name for name, leaf in before.items() if decoder.parameters[name] is not leaf]
        assert changed == list(decoder.record.selected_names)
        assert decoder.record.transformed_tensors == len(changed) == 4
        assert all(leaf.is_leaf and leaf.requires_grad for leaf in decoder.parameters.values())


def nudge(leaf: torch.Tensor) -> None:
    with torch.no_grad():
        leaf.view(-1)[0] += 1e-9


def nudge_and_back(leaf: torch.Tensor) -> None:
    """The bits are as they were, but torch counted a write."""
    with torch.no_grad():
        leaf.copy_(leaf.clone())


def write_through_shared_memory(leaf: torch.Tensor) -> None:
    leaf.detach().numpy().flat[0] += 1e-9


def gradient(leaf: torch.Tensor) -> None:
    (2 * leaf).sum().backward()


def nonfinite_gradient(leaf: torch.Tensor) -> None:
    leaf.grad = torch.full_like(leaf, math.nan)


class TestModifiedParameters:
    """Refused before anything is transformed, and before the generator is committed."""

    @pytest.mark.parametrize(
        "change", [nudge, nudge_and_back, write_through_shared_memory, gradient, nonfinite_gradient]
    )
    @pytest.mark.parametrize("name", ["token_embedding.weight", "blocks.1.ffn.down.weight", "final_norm.gain"])
    @pytest.mark.parametrize("kind", ["depth-scaled", "unscaled"])
    def test_changed(self, change: Callable[[torch.Tensor], None], name: str, kind: str) -> None:
        fresh, generator = prepared()
        assert fresh.parameters is not None
        change(fresh.parameters[name])
        with pytest.raises(ConstructionError, match=rf"{name} changed or carries a gradient"):
            fresh.complete(kind)
        assert generator.state == SEED

    def test_a_zero_gradient_is_allowed(self) -> None:
        fresh, _ = prepared()
        assert fresh.parameters is not None
        for leaf in fresh.parameters.values():
            (0 * leaf).sum().backward()
        assert same(fresh.complete(), completed())

    @pytest.mark.parametrize("kind", ["missing", "extra", "shape", "renamed"])
    def test_a_tampered_layout(self, kind: str) -> None:
        fresh, generator = prepared()
        assert fresh.parameters is not None
        leaf = fresh.parameters["final_norm.gain"]
        if kind == "extra":
            fresh.parameters["more.weight"] = leaf
        elif kind == "shape":
            fresh.parameters["final_norm.gain"] = torch.ones(5, dtype=torch.float64, requires_grad=True)
        else:
            del fresh.parameters["final_norm.gain"]
            if kind == "renamed":
                fresh.parameters["last_norm.gain"] = leaf
        with pytest.raises(ConstructionError):
            fresh.complete()
        assert generator.state == SEED


class TestFreshOnly:
    """Initialization accepts fresh requests, nothing that carries its scale already."""

    def test_from_fresh(self) -> None:
        generator = SplitMix64(SEED)
        assert same(initialize_depth_scaled(Fresh(CONFIG), generator), completed())

    @pytest.mark.parametrize("source", ["initialized", "restored"])
    def test_from_a_finished_decoder(self, source: str) -> None:
        decoder = completed()
        if source == "restored":
            decoder = restore(decoder.record, decoder.parameters)
        generator = SplitMix64(SEED)
        with pytest.raises(ConstructionError, match=f"already {source}"):
            initialize_depth_scaled(decoder, generator)
        assert generator.state == SEED

    @pytest.mark.parametrize("blocks", [0, -1, True, 2.0, "8", None])
    def test_zero_depth(self, blocks: int) -> None:
        with pytest.raises(ConstructionError, match="at least one block"):
            depth_factor(blocks)

    @given(st.integers(1, 4096))
    def test_the_factor_is_the_rounded_root(self, blocks: int) -> None:
        assert depth_factor(blocks) == 1.0 / math.sqrt(blocks)
        assert depth_factor(blocks) ** 2 * blocks == pytest.approx(1.0, rel=4e-16)


class TestRestore:
    """Exactly the given values: no draws, no scaling."""

    def test_bit_for_bit(self) -> None:
        decoder = completed()
        again = restore(decoder.record, decoder.parameters)
        assert again.source == "restored"
        assert again.record == decoder.record
        assert same(again, decoder)
        assert all(again.parameters[name] is not leaf for name, leaf in decoder.parameters.items())
        assert all(leaf.is_leaf and leaf.requires_grad for leaf in again.parameters.values())

    def test_it_copies(self) -> None:
        decoder = completed()
        again = restore(decoder.record, decoder.parameters)
        with torch.no_grad():
            again.parameters["final_norm.gain"][0] = 9.0
        assert decoder.arrays()["final_norm.gain"][0] == 1.0

    @pytest.mark.parametrize("value", [math.nan, math.inf])
    def test_nonfinite_values(self, value: float) -> None:
        decoder = completed()
        values = {name: leaf.detach().clone() for name, leaf in decoder.parameters.items()}
        values["blocks.0.ffn.up.weight"][1, 2] = value
        with pytest.raises(ConstructionError, match=r"blocks.0.ffn.up.weight are not all finite"):
            restore(decoder.record, values)

    @pytest.mark.parametrize("kind", ["missing", "extra", "transposed", "renamed", "reordered"])
    def test_another_layout(self, kind: str) -> None:
        decoder = completed()
        values = {name: leaf.detach() for name, leaf in decoder.parameters.items()}
        name = "blocks.0.ffn.up.weight"
        tensor = values[name]
        if kind == "extra":
            values["head.weight"] = tensor
        elif kind == "transposed":
            values[name] = tensor.T
        else:
            del values[name]
            if kind != "missing":
                values[name if kind == "reordered" else "blocks.0.ffn.upper.weight"] = tensor
        with pytest.raises(ConstructionError):
            restore(decoder.record, values)


def test_the_record_of_a_recipe_without_a_common_factor() -> None:
    """Block-indexed factors differ from block to block, so there is no one factor; Wang's selects every matrix."""
    assert completed("block-indexed").record.factor is None
    assert completed("unscaled").record.factor is None
    assert completed("unscaled").record.selected_names == ()
    wang = completed("wang").record
    assert len(wang.selected_names) == sum(len(spec.shape) == 2 for spec in layout(CONFIG))
    assert completed("gpt2").record.factor == 1 / math.sqrt(4)
    assert completed("gpt2").record.policy_id == "gpt2/1"
    assert completed("ngpt").record.factor is None


def test_the_base_draw_is_named_in_the_record() -> None:
    fresh = FreshInitialization.prepare(Fresh(CONFIG, distribution=Distribution(0.02, 3.0)), SplitMix64(1))
    assert fresh.complete("gpt2").record.base_initializer_id == "normal-0.02-truncated-3-splitmix64"
    assert completed().record.base_initializer_id == "xavier-uniform-splitmix64"


@pytest.mark.parametrize("std", [0.02, 1.0, 1e-320, 1e160, 123456.0])
def test_a_base_draw_of_few_digits_keeps_its_name(std: float) -> None:
    """Records written before name it so."""
    assert Distribution(std).name == f"normal-{std:g}-splitmix64"
    assert Distribution(1.0, std).name == f"normal-1-truncated-{std:g}-splitmix64"


def test_different_base_draws_have_different_names() -> None:
    values = [0.02, 0.0200000001, math.nextafter(0.02, 1), 1234567.0, 1234568.0, 1 / 3, 0.333333]
    laws = [XAVIER, *(Distribution(std) for std in values), *(Distribution(1.0, cut) for cut in values)]
    assert len({law.name for law in laws}) == len(laws)
    for value in values:
        assert float(Distribution(value).name.removeprefix("normal-").removesuffix("-splitmix64")) == value


def test_admin_measures_and_records_its_shortcuts() -> None:
    record = completed("admin").record
    assert record.shortcuts is not None
    assert len(record.shortcuts) == CONFIG.blocks
    assert record.shortcuts[0]["attention_shortcut"] == 1.0
    assert recipe("admin").profile == "admin"
    assert completed("depth-scaled").record.shortcuts is None


def same(first: Decoder, second: Decoder) -> bool:
    """Equality of names, order and bits."""
    return [(name, values.tobytes()) for name, values in first.arrays().items()] == [
        (name, values.tobytes()) for name, values in second.arrays().items()
    ]
