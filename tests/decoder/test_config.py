"""Sizes: a config that exists is valid, and every other one is refused in one sentence."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.decoder.config import Budget, DecoderConfig
from core.decoder.fixtures import FIXTURES
from core.errors import BudgetError, ConfigError
from tests.support import refused

SIZES = ["blocks", "width", "heads", "kv_heads", "head_dim", "ff_width", "vocabulary", "positions"]
ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-4, 40), st.floats(), st.text(max_size=8), st.just([1])
)


def test_the_defaults_are_the_narrow_eight_block_fixture() -> None:
    config = DecoderConfig()
    sizes = (config.blocks, config.width, config.heads, config.ff_width, config.vocabulary, config.positions)
    assert sizes == (8, 4, 1, 4, 266, 4)
    assert (config.rope_base, config.rms_epsilon, config.norm, config.mlp) == (10000.0, 1e-6, "rmsnorm", "swiglu")
    assert config == FIXTURES["narrow-8"]
    assert list(FIXTURES) == ["narrow-1", "narrow-2", "narrow-8", "cpu-bridge"]


def test_derived_sizes() -> None:
    config = DecoderConfig(width=12, heads=6)
    assert (config.kv_heads, config.key_value_heads, config.head_dim, config.head_width) == (6, 6, 2, 2)
    assert DecoderConfig(width=12, heads=6, kv_heads=2).key_value_heads == 2
    assert DecoderConfig(width=5, heads=3, head_dim=4).head_width == 4
    assert DecoderConfig(blocks=7).additions == 14


def test_a_config_is_frozen_and_comes_back_from_its_document() -> None:
    config = DecoderConfig(width=12, heads=6, kv_heads=3, norm="layernorm", tied=False)
    with pytest.raises(FrozenInstanceError):
        config.width = 8  # type: ignore[misc]
    assert DecoderConfig(**config.document()) == config
    assert hash(DecoderConfig(**config.document())) == hash(config)
    with pytest.raises(TypeError):
        DecoderConfig(8)  # type: ignore[misc]


@pytest.mark.parametrize("value", [0, -1, 2**53 + 1, 10**5000, True, 2.0, "4", math.nan, [4]], ids=lambda _: "")
@pytest.mark.parametrize("size", SIZES)
def test_sizes_are_whole_numbers_from_one(size: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=size) as refusal:
        DecoderConfig(**{size: value})
    assert len(str(refusal.value)) < 200


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ({"width": 10, "heads": 4}, "width 10 is not a multiple of heads 4"),
        ({"width": 8, "heads": 4, "kv_heads": 3}, "heads 4 is not a multiple of kv_heads 3"),
        ({"width": 8, "heads": 4, "kv_heads": 8}, "heads 4 is not a multiple of kv_heads 8"),
        ({"width": 6, "heads": 2}, "head_dim 3 is odd"),
        ({"width": 4, "heads": 4}, "head_dim 1 is odd"),
        ({"head_dim": 5}, "head_dim 5 is odd"),
        ({"norm": "batchnorm"}, "norm 'batchnorm' is not one of rmsnorm, layernorm"),
        ({"mlp": None}, "mlp null is not one of swiglu, gelu"),
        ({"position_encoding": "alibi"}, "position_encoding 'alibi' is not one of rope, learned"),
        ({"tied": 1}, "tied must be true or false"),
        ({"bias": "yes"}, "bias must be true or false"),
        ({"rope_base": 0}, "rope_base is 0"),
        ({"rope_base": math.inf}, "rope_base is inf"),
        ({"rope_base": 10**400}, "rope_base is a whole number of"),
        ({"rms_epsilon": -1e-6}, "rms_epsilon is -1e-06"),
        ({"rms_epsilon": math.nan}, "rms_epsilon is nan"),
        ({"rms_epsilon": True}, "rms_epsilon is true"),
    ],
)
def test_refusals_give_value_and_rule(sizes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        DecoderConfig(**sizes)


def test_an_odd_head_is_fine_without_rotation() -> None:
    assert DecoderConfig(width=3, heads=1, position_encoding="learned").head_width == 3


@given(st.dictionaries(st.sampled_from([*SIZES, "rope_base", "rms_epsilon", "norm", "mlp", "tied"]), ANYTHING))
def test_anything_is_valid_or_refused(fields: dict[str, Any]) -> None:
    """What exists obeys every rule, whatever it was made from."""
    sentence = refused(lambda: DecoderConfig(**fields))
    if sentence is not None:
        assert "\n" not in sentence
        return
    config = DecoderConfig(**fields)
    assert all(isinstance(getattr(config, size), int) and 1 <= getattr(config, size) <= 2**53 for size in SIZES)
    assert config.heads % config.key_value_heads == 0
    assert config.head_width % 2 == 0
    assert config.head_width * config.heads == config.width or "head_dim" in fields
    assert 0 < config.rms_epsilon < math.inf


class TestBudget:
    """Inclusive limits on blocks, positions and parameters."""

    def test_the_defaults_are_the_documented_ones(self) -> None:
        assert (Budget().max_parameters, Budget().max_positions, Budget().max_blocks) == (2**28, 65_536, 4_096)

    @pytest.mark.parametrize(
        ("sizes", "parameters", "sentence"),
        [
            ({"blocks": 4097}, 1, "4097 blocks exceed the limit of 4096"),
            ({"positions": 65_537}, 1, "65537 positions exceed the budget of 65536"),
            ({}, 2**28 + 1, "268,435,457 parameters exceed the budget of 268,435,456"),
        ],
    )
    def test_one_too_many(self, sizes: dict[str, int], parameters: int, sentence: str) -> None:
        with pytest.raises(BudgetError, match=sentence):
            Budget().check(DecoderConfig(**sizes), parameters)

    def test_the_limits_themselves(self) -> None:
        Budget().check(DecoderConfig(blocks=4096, positions=65_536), 2**28)
