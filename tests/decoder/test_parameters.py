"""The layout: names, shapes, fills and draw order beside the plain list, and counts by exact arithmetic."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.decoder.base_draw import BaseDraw
from core.decoder.config import DecoderConfig
from core.decoder.parameters import BLOCK_MATRICES, WRITERS, layout
from core.decoder.splitmix64 import SplitMix64
from core.decoder.xavier import validate_name
from core.errors import ConfigError
from tests.oracles.plain_weights import Sizes, plain_names


@st.composite
def configs(draw: st.DrawFn) -> DecoderConfig:
    kv_heads = draw(st.integers(1, 3))
    heads = kv_heads * draw(st.integers(1, 3))
    return DecoderConfig(
        blocks=draw(st.integers(1, 5)),
        width=draw(st.integers(1, 9)),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=2 * draw(st.integers(1, 4)),
        ff_width=draw(st.integers(1, 9)),
        vocabulary=draw(st.integers(1, 20)),
        positions=draw(st.integers(1, 9)),
        norm=draw(st.sampled_from(["rmsnorm", "layernorm"])),
        mlp=draw(st.sampled_from(["swiglu", "gelu"])),
        position_encoding=draw(st.sampled_from(["rope", "learned"])),
        tied=draw(st.booleans()),
        bias=draw(st.booleans()),
    )


@given(configs())
def test_every_parameter_in_draw_order(config: DecoderConfig) -> None:
    sizes = layout(config)
    specs = list(sizes)
    plain = list(plain_names(Sizes(**config.document())))
    assert [(spec.name, spec.shape, spec.fill) for spec in specs] == plain
    assert sizes.tensors == len(plain)
    assert sizes.parameters == sum(math.prod(shape) for _, shape, _ in plain)
    assert sizes.draws == sum(math.prod(shape) for _, shape, fill in plain if fill == "drawn")
    drawn = 0
    for spec in specs:
        assert spec.offset == drawn
        assert spec.draws == (math.prod(spec.shape) if spec.fill == "drawn" else 0)
        drawn += spec.draws


@given(configs())
def test_blocks_are_one_template(config: DecoderConfig) -> None:
    sizes = layout(config)
    for block in range(config.blocks):
        specs = sizes.block(block)
        assert [spec.key for spec in specs] == [spec.key for spec in sizes.block_template]
        assert all(spec.block == block and spec.name == f"blocks.{block}.{spec.key}" for spec in specs)
        assert specs[0].offset == sizes.block_start(block)
        assert sum(spec.draws for spec in specs) == sizes.block_draws
    assert all(spec.block is None and spec.key == spec.name for spec in (*sizes.stem, *sizes.tail))


@given(configs())
def test_names_keep_the_grammar_and_do_not_repeat(config: DecoderConfig) -> None:
    names = [spec.name for spec in layout(config)]
    assert len(set(names)) == len(names)
    for name in names:
        validate_name(name)


@given(configs(), st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=3))
def test_a_part_of_a_draw_is_where_its_offset_says(config: DecoderConfig, seeds: list[int]) -> None:
    """Blocks on demand, in any order, are the same matrices as a draw from the start."""
    whole = BaseDraw(config, seeds)
    parts = {**whole.stem(), **whole.tail()}
    for block in reversed(range(config.blocks)):
        parts |= {f"blocks.{block}.{key}": values for key, values in BaseDraw(config, seeds).block(block).items()}
    drawn = [spec for spec in layout(config) if spec.draws]
    assert set(parts) == {spec.name for spec in drawn}
    for row, seed in enumerate(seeds):
        stream = SplitMix64(seed).next_units(layout(config).draws)
        for spec in drawn:
            limit = math.sqrt(6 / sum(spec.shape))
            values = limit * (2 * stream[spec.offset : spec.offset + spec.draws] - 1)
            assert np.array_equal(parts[spec.name][row], values.reshape(spec.shape))


def test_a_draw_needs_a_seed() -> None:
    with pytest.raises(ConfigError, match="give at least one"):
        BaseDraw(DecoderConfig(), [])
    with pytest.raises(ConfigError, match=r"outside 0 to 2\^64 - 1"):
        BaseDraw(DecoderConfig(), [0, 2**64])


def test_writers_end_the_branches() -> None:
    assert set(WRITERS) < set(BLOCK_MATRICES)
    writers = [spec.key for spec in layout(DecoderConfig()).block_template if spec.role in WRITERS]
    assert writers == ["attention.output.weight", "ffn.down.weight"]


def test_key_and_value_of_a_group_are_narrow() -> None:
    config = DecoderConfig(width=12, heads=4, kv_heads=2, head_dim=6)
    shapes = {spec.role: spec.shape for spec in layout(config).block_template}
    assert shapes["query"] == (12, 24)
    assert shapes["key"] == shapes["value"] == (12, 12)
    assert shapes["output"] == (24, 12)


def test_published_counts() -> None:
    assert layout(DecoderConfig()).parameters == 2028
    assert layout(DecoderConfig(blocks=1)).parameters == 1188
    laptop = DecoderConfig(blocks=8, width=512, heads=8, kv_heads=2, ff_width=1536, vocabulary=16384, positions=512)
    assert layout(laptop).parameters == 32_514_560


def test_counting_a_huge_decoder_allocates_nothing() -> None:
    """405 billion parameters, and the largest sizes there are, in less than a page of memory each."""
    huge = [
        DecoderConfig(
            blocks=126, width=16384, heads=128, kv_heads=8, ff_width=53248, vocabulary=128_256, positions=131_072,
            tied=False,
        ),
        DecoderConfig(blocks=2**53, width=2**53, heads=1, head_dim=2**53, ff_width=2**53, vocabulary=2**53),
    ]  # fmt: skip
    tracemalloc.start()
    counts = [layout(config).parameters for config in huge]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert counts[0] == 405_853_388_800
    assert counts[1] > 2**53 * 2**106
    assert peak < 100_000
