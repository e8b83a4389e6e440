"""Plain draws, names and weight laws: the slow half of the reference that knows no arrays.

Everything here is written from the published definitions in Python integers and floats, one draw after another, and
shares no code with the core. A matrix is a list of rows, stored `[fan_in, fan_out]`; a vector is a list.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

MASK = (1 << 64) - 1
Matrix = list[list[float]]
Vector = list[float]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes and options of a plain decoder, without any check; `positions` sizes the learned table only."""

    blocks: int
    width: int
    heads: int
    kv_heads: int
    ff_width: int
    vocabulary: int
    positions: int = 4
    rope_base: float = 10000.0
    rms_epsilon: float = 1e-6
    head_dim: int | None = None
    norm: str = "rmsnorm"
    mlp: str = "swiglu"
    position_encoding: str = "rope"
    tied: bool = True
    bias: bool = False

    @property
    def head_width(self) -> int:
        """Features a head."""
        return self.width // self.heads if self.head_dim is None else self.head_dim


class PlainSplitMix64:
    """SplitMix64 one draw at a time, with the raw seed as state."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def next_word(self) -> int:
        """Advance and return 64 mixed bits."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        word = self.state
        word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
        return word ^ (word >> 31)

    def next_uniform(self, limit: float) -> float:
        """One value of the uniform distribution on [-limit, limit), from the high 53 bits."""
        return limit * (2.0 * ((self.next_word() >> 11) / 2.0**53) - 1.0)

    def next_normal(self, std: float, truncate: float | None = None) -> float:
        """One value of N(0, std^2) from the high 52 bits, by inversion.

        With `truncate` = c the probability is first moved into [Phi(-c), Phi(c)]; `std` stays the parent's.
        """
        probability = ((self.next_word() >> 12) + 0.5) / 2.0**52
        if truncate is not None:
            tail = NormalDist().cdf(-truncate)
            probability = tail + probability * (1.0 - 2.0 * tail)
        return std * NormalDist().inv_cdf(probability)


def plain_names(sizes: Sizes) -> Iterator[tuple[str, tuple[int, ...], str]]:
    """Name, shape and fill (`drawn`, `ones`, `zeros`) of every parameter in draw order."""
    d, f, v = sizes.width, sizes.ff_width, sizes.vocabulary
    inner, narrow = sizes.heads * sizes.head_width, sizes.kv_heads * sizes.head_width
    attention = [("query", d, inner), ("key", d, narrow), ("value", d, narrow), ("output", inner, d)]
    feed_forward = [("gate", d, f), ("up", d, f), ("down", f, d)]
    if sizes.mlp == "gelu":
        feed_forward = [("up", d, f), ("down", f, d)]
    yield "token_embedding.weight", (v, d), "drawn"
    if sizes.position_encoding == "learned":
        yield "position_embedding.weight", (sizes.positions, d), "drawn"
    for b in range(sizes.blocks):
        for norm, part, matrices in (("attention_norm", "attention", attention), ("ffn_norm", "ffn", feed_forward)):
            yield from _norm_names(f"blocks.{b}.{norm}", sizes)
            for role, fan_in, fan_out in matrices:
                yield f"blocks.{b}.{part}.{role}.weight", (fan_in, fan_out), "drawn"
                if sizes.bias:
                    yield f"blocks.{b}.{part}.{role}.bias", (fan_out,), "zeros"
    yield from _norm_names("final_norm", sizes)
    if not sizes.tied:
        yield "head.weight", (d, v), "drawn"


def _norm_names(prefix: str, sizes: Sizes) -> Iterator[tuple[str, tuple[int, ...], str]]:
    yield f"{prefix}.gain", (sizes.width,), "ones"
    if sizes.norm == "layernorm":
        yield f"{prefix}.bias", (sizes.width,), "zeros"


def plain_base_draw(
    sizes: Sizes,
    seed: int,
    *,
    std: float | None = None,
    truncate: float | None = None,
    embedding_std: float | None = None,
) -> dict[str, Matrix | Vector]:
    """Every parameter before a recipe: Xavier uniform, or with `std` a normal of that deviation on the same stream.

    `embedding_std` is that of the token and position tables where it differs.
    """
    stream = PlainSplitMix64(seed)
    parameters: dict[str, Matrix | Vector] = {}
    for name, shape, fill in plain_names(sizes):
        own = embedding_std if "_embedding." in name and embedding_std is not None else std
        if fill != "drawn":
            parameters[name] = [1.0 if fill == "ones" else 0.0] * shape[0]
        elif own is None:
            limit = math.sqrt(6.0 / (shape[0] + shape[1]))
            parameters[name] = [[stream.next_uniform(limit) for _ in range(shape[1])] for _ in range(shape[0])]
        else:
            parameters[name] = [[stream.next_normal(own, truncate) for _ in range(shape[1])] for _ in range(shape[0])]
    return parameters


def plain_recipe_weights(
    recipe: str, sizes: Sizes, base: dict[str, Matrix | Vector], *, std: float | None = None
) -> dict[str, Matrix | Vector]:
    """The stored parameters of `recipe` from its base draw; `std` as in `plain_base_draw`."""
    stored: dict[str, Matrix | Vector] = {}
    for name, values in base.items():
        if not name.endswith(".weight"):
            stored[name] = list(values)
        elif recipe == "ngpt":
            stored[name] = _unit_vectors(name, values)
        else:
            base_std = math.sqrt(2.0 / (len(values) + len(values[0]))) if std is None else std
            factor = weight_factor(recipe, name, sizes, base_std)
            stored[name] = [[factor * value for value in row] for row in values]
    return stored


def weight_factor(recipe: str, name: str, sizes: Sizes, base_std: float) -> float:
    """The number that `recipe` multiplies the matrix `name` by; 1 where it leaves it alone."""
    layers, role = sizes.blocks, name.split(".")[-2]
    if recipe == "wang":
        std = 2.0 / (layers * math.sqrt(sizes.width)) if role in ("output", "down") else math.sqrt(0.4 / sizes.width)
        return std / base_std
    if not name.startswith("blocks."):
        return 1.0
    block = int(name.split(".")[1])
    if recipe == "ds-init":
        return 1.0 / math.sqrt(block + 1)
    if recipe == "fixup":
        return 0.0 if role in ("output", "down") else 1.0 / math.sqrt(2 * layers)
    if recipe == "deepnorm" and role in ("value", "output", "gate", "up", "down"):
        return (8 * layers) ** -0.25
    if role not in ("output", "down"):
        return 1.0
    return {
        "depth-scaled": 1.0 / math.sqrt(layers),
        "gpt2": 1.0 / math.sqrt(2 * layers),
        "zero-writer": 0.0,
        "block-indexed": 1.0 / math.sqrt(2 * (block + 1)),
        "lingua-global": 1.0 / math.sqrt(2 * (layers + 1)),
    }.get(recipe, 1.0)


def _unit_vectors(name: str, values: Matrix) -> Matrix:
    """Vectors along the embedding axis at unit norm: rows of tables and writers, columns of readers and a head."""
    if name.split(".")[-2] in ("token_embedding", "output", "down"):
        return [_unit(row) for row in values]
    columns = [_unit(list(column)) for column in zip(*values, strict=True)]
    return [list(row) for row in zip(*columns, strict=True)]


def _unit(vector: Vector) -> Vector:
    length = math.sqrt(math.fsum(value * value for value in vector))
    return [value / length for value in vector]
