"""Names, shapes, roles and order of a decoder's parameters.

The random numbers of the matrices are drawn in the order of the specifications. Gains and biases are constants and draw
nothing. A tied head reads the token embedding and adds no parameter. A matrix is stored as `[fan_in,
fan_out]`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Literal

from .config import DecoderConfig

Role = Literal[
    "token_embedding", "position_embedding", "query", "key", "value", "output", "gate", "up", "down", "head",
    "gain", "bias",
]  # fmt: skip
Fill = Literal["drawn", "ones", "zeros"]

EMBEDDINGS: tuple[Role, ...] = ("token_embedding", "position_embedding")
WRITERS: tuple[Role, ...] = ("output", "down")
BLOCK_MATRICES: tuple[Role, ...] = ("query", "key", "value", "output", "gate", "up", "down")


@dataclass(frozen=True, kw_only=True)
class ParameterSpec:
    """The description of one parameter: name, shape, role, block (None outside blocks) and how it is filled.

    `offset` is the number of random draws that precede it on the decoder's stream. In `Layout.block_template` the name
    still contains `{b}`, and the offset counts from the start of the block. `twin_of` is its shape in the wide decoder
    that a reduced twin stands for, None outside twins.
    """

    name: str
    shape: tuple[int, ...]
    role: Role
    block: int | None = None
    fill: Fill = "drawn"
    offset: int = 0
    twin_of: tuple[int, ...] | None = None

    @property
    def true_shape(self) -> tuple[int, ...]:
        """The shape that initialization laws are evaluated at: `twin_of` in a reduced twin, else `shape`."""
        return self.shape if self.twin_of is None else self.twin_of

    @cached_property
    def twin_gain(self) -> float:
        """The factor on the standard deviation of this matrix in a reduced twin; 1 outside twins.

        It is sqrt(true fan_in / fan_in), so that std * sqrt(fan_in), which sets the scale of the matrix's output, keeps
        its true value. It is 1 for embeddings, which keep their RMS.
        """
        if self.role in EMBEDDINGS:
            return 1.0
        return math.sqrt(self.true_shape[0] / self.shape[0])

    @cached_property
    def key(self) -> str:
        """The name without `blocks.{b}.`, such as `attention.query.weight`: its key among the weights of one block."""
        return self.name.split(".", 2)[2] if self.name.startswith("blocks.") else self.name

    @cached_property
    def coordinates(self) -> int:
        """The number of elements of this parameter."""
        product = 1
        for size in self.shape:
            product *= size
        return product

    @property
    def draws(self) -> int:
        """The number of random draws that this parameter takes: its elements if it is drawn, 0 if it is a constant."""
        return self.coordinates if self.fill == "drawn" else 0


@dataclass(frozen=True)
class Layout:
    """The parameters of a decoder: `stem` before the blocks, `block_template` for every block, `tail` after the blocks.

    Iteration yields a `ParameterSpec` for every parameter of the decoder, in draw order.
    """

    stem: tuple[ParameterSpec, ...]
    block_template: tuple[ParameterSpec, ...]
    tail: tuple[ParameterSpec, ...]
    blocks: int

    @cached_property
    def stem_draws(self) -> int:
        """The number of random draws before the first block."""
        return sum(spec.draws for spec in self.stem)

    @cached_property
    def block_draws(self) -> int:
        """The number of random draws of one block; the same for every block."""
        return sum(spec.draws for spec in self.block_template)

    @property
    def draws(self) -> int:
        """The number of random draws of the whole decoder."""
        return self.stem_draws + self.blocks * self.block_draws + sum(spec.draws for spec in self.tail)

    @property
    def parameters(self) -> int:
        """The number of elements of all parameters of the decoder."""
        outside = sum(spec.coordinates for spec in self.stem + self.tail)
        return outside + self.blocks * sum(spec.coordinates for spec in self.block_template)

    @property
    def tensors(self) -> int:
        """The number of parameter tensors of the whole decoder."""
        return len(self.stem) + len(self.tail) + self.blocks * len(self.block_template)

    def block_start(self, block: int) -> int:
        """Return the number of random draws before block number `block`, counted from 0."""
        return self.stem_draws + block * self.block_draws

    def block(self, block: int) -> tuple[ParameterSpec, ...]:
        """Return the specifications of block number `block`, counted from 0, with full names and offsets."""
        size = len(self.block_template)
        return self._block_specs[block * size : (block + 1) * size]

    @cached_property
    def _block_specs(self) -> tuple[ParameterSpec, ...]:
        return tuple(
            replace(spec, name=spec.name.format(b=block), block=block, offset=self.block_start(block) + spec.offset)
            for block in range(self.blocks)
            for spec in self.block_template
        )

    def __iter__(self) -> Iterator[ParameterSpec]:
        yield from self.stem
        yield from self._block_specs
        yield from self.tail


@lru_cache(maxsize=256)
def layout(config: DecoderConfig) -> Layout:
    """Return the `Layout` of `config`: specifications of every parameter, in draw order; no parameter is allocated."""
    stem = [_matrix("token_embedding.weight", config.vocabulary, config.width, "token_embedding")]
    if config.position_encoding == "learned":
        stem.append(_matrix("position_embedding.weight", config.positions, config.width, "position_embedding"))
    tail = _norm("final_norm", config)
    if not config.tied:
        tail.append(_matrix("head.weight", config.width, config.vocabulary, "head"))
    template = _block_template(config)
    if config.true_sizes is not None:
        true = layout(config.true_config)
        stem, template, tail = (
            [replace(spec, twin_of=other.shape) for spec, other in zip(own, others, strict=True)]
            for own, others in ((stem, true.stem), (template, true.block_template), (tail, true.tail))
        )
    stem_draws = sum(spec.draws for spec in stem)
    block_draws = sum(spec.draws for spec in template)
    return Layout(
        stem=_with_offsets(stem, 0),
        block_template=_with_offsets(template, 0),
        tail=_with_offsets(tail, stem_draws + config.blocks * block_draws),
        blocks=config.blocks,
    )


def _block_template(config: DecoderConfig) -> list[ParameterSpec]:
    inner, narrow = config.heads * config.head_width, config.key_value_heads * config.head_width
    attention: tuple[tuple[Role, int, int], ...] = (
        ("query", config.width, inner),
        ("key", config.width, narrow),
        ("value", config.width, narrow),
        ("output", inner, config.width),
    )
    feed_forward: tuple[tuple[Role, int, int], ...] = (
        ("gate", config.width, config.ff_width),
        ("up", config.width, config.ff_width),
        ("down", config.ff_width, config.width),
    )
    if config.mlp == "gelu":
        feed_forward = feed_forward[1:]
    specs = _norm("blocks.{b}.attention_norm", config)
    specs += _matrices("blocks.{b}.attention", attention, config.bias)
    specs += _norm("blocks.{b}.ffn_norm", config)
    specs += _matrices("blocks.{b}.ffn", feed_forward, config.bias)
    return specs


def _matrices(prefix: str, shapes: tuple[tuple[Role, int, int], ...], bias: bool) -> list[ParameterSpec]:
    specs = []
    for role, fan_in, fan_out in shapes:
        specs.append(_matrix(f"{prefix}.{role}.weight", fan_in, fan_out, role))
        if bias:
            specs.append(ParameterSpec(name=f"{prefix}.{role}.bias", shape=(fan_out,), role="bias", fill="zeros"))
    return specs


def _matrix(name: str, fan_in: int, fan_out: int, role: Role) -> ParameterSpec:
    return ParameterSpec(name=name, shape=(fan_in, fan_out), role=role)


def _norm(prefix: str, config: DecoderConfig) -> list[ParameterSpec]:
    specs = [ParameterSpec(name=f"{prefix}.gain", shape=(config.width,), role="gain", fill="ones")]
    if config.norm == "layernorm":
        specs.append(ParameterSpec(name=f"{prefix}.bias", shape=(config.width,), role="bias", fill="zeros"))
    return specs


def _with_offsets(specs: list[ParameterSpec], start: int) -> tuple[ParameterSpec, ...]:
    placed = []
    for spec in specs:
        placed.append(replace(spec, offset=start))
        start += spec.draws
    return tuple(placed)
