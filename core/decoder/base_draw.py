"""The base draw: every matrix of a decoder before any recipe, for one seed or many at once.

Distributions act on the same exact stream, one draw a coordinate: Xavier uniform, or a normal of given standard
deviation, z = inverse normal CDF of (k + 1/2) 2^-52 with k the high 52 bits, optionally truncated at `cut` sigma with
the parent's sigma kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from core.decoder.config import DecoderConfig
from core.decoder.parameters import Layout, ParameterSpec, layout
from core.decoder.splitmix64 import FloatArray, advanced, checked_seed, scaled_units
from core.decoder.xavier import uniform_from_units, xavier_scale
from core.errors import ConfigError

Draws = Mapping[str, FloatArray]

# Coordinates (128 MiB of binary64) up to which all blocks are drawn in one call and kept for the forward's length.
SMALL_DRAW = 2**24


@dataclass(frozen=True)
class Distribution:
    """Law of the base draw: `std` None for Xavier uniform, else a normal, truncated where `cut` is given."""

    std: float | None = None
    cut: float | None = None

    def __post_init__(self) -> None:
        for label, value in (("standard deviation", self.std), ("truncation", self.cut)):
            if value is not None and not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
                raise ConfigError(f"The base draw's {label} is {value!r}; it must be a positive finite number.")
        if self.cut is not None and self.std is None:
            raise ConfigError("Only a normal base draw can be truncated; give its standard deviation too.")

    @property
    def name(self) -> str:
        """Identity in records and documents."""
        if self.std is None:
            return "xavier-uniform-splitmix64"
        cut = "" if self.cut is None else f"-truncated-{self.cut:g}"
        return f"normal-{self.std:g}{cut}-splitmix64"

    def base_std(self, spec: ParameterSpec) -> float:
        """Standard deviation of the parent law for one matrix, in weight units."""
        return xavier_scale(spec.shape[0], spec.shape[1]).standard_deviation if self.std is None else self.std

    def finisher(self, specs: Sequence[ParameterSpec]) -> Callable[[FloatArray, slice], None]:
        """What turns units of the consecutive draws of `specs` into weights, a tile of columns at a time."""
        if self.std is not None:
            return lambda units, _: self._normal(units)
        limits = _column_limits(specs)
        if len(np.unique(limits)) <= 1:
            return lambda units, _: uniform_from_units(units, float(limits[0]))
        return lambda units, columns: uniform_from_units(units, limits[columns])

    def _normal(self, units: FloatArray) -> None:
        import torch  # the inverse normal comes with torch; the exact stream itself needs no torch

        assert self.std is not None
        middles = (np.floor(units * 2.0**52) + 0.5) * 2.0**-52
        if self.cut is not None:
            tail = 0.5 * math.erfc(self.cut / math.sqrt(2))
            middles = tail + middles * (1 - 2 * tail)
        np.multiply(torch.special.ndtri(torch.from_numpy(middles)).numpy(), self.std, out=units)


XAVIER = Distribution()


class BaseDraw:
    """The base matrices of one architecture for `seeds`, drawn part by part.

    A part is drawn when asked for and not kept, unless the whole draw is small: then it is made once.
    Every mapping goes from a parameter's key to `[len(seeds), fan_in, fan_out]`; constants (gains, biases) are absent.
    """

    def __init__(self, config: DecoderConfig, seeds: Sequence[int], distribution: Distribution = XAVIER) -> None:
        self.config = config
        self.layout: Layout = layout(config)
        self.seeds = [checked_seed(seed) for seed in seeds]
        self.distribution = distribution
        self._finish_block = distribution.finisher(self.layout.block_template)
        self._blocks: FloatArray | None = None

    def stem(self) -> Draws:
        """Embeddings."""
        return self._part(self.layout.stem, 0, self.distribution.finisher(self.layout.stem))

    def block(self, block: int) -> Draws:
        """The matrices of one block."""
        template = self.layout.block_template
        if len(self.seeds) * self.layout.block_draws * self.config.blocks > SMALL_DRAW:
            return self._part(template, self.layout.block_start(block), self._finish_block)
        if self._blocks is None:
            self._blocks = self._all_blocks()
        return _split(self._blocks[:, block], template)

    def tail(self) -> Draws:
        """What follows the blocks."""
        start = self.layout.block_start(self.layout.blocks)
        return self._part(self.layout.tail, start, self.distribution.finisher(self.layout.tail))

    def final_states(self) -> list[int]:
        """Generator state of each seed after the whole decoder is drawn."""
        return [advanced(seed, self.layout.draws) for seed in self.seeds]

    def _all_blocks(self) -> FloatArray:
        """Every block at once `[seeds, blocks, draws of a block]`: fewer calls where a block is tiny."""
        blocks, draws = self.config.blocks, self.layout.block_draws
        finish = self.distribution.finisher(self.layout.block_template * blocks)
        values = scaled_units(self.seeds, self.layout.block_start(0), blocks * draws, finish)
        return values.reshape(len(self.seeds), blocks, draws)

    def _part(self, specs: Sequence[ParameterSpec], start: int, finish: Callable[[FloatArray, slice], None]) -> Draws:
        count = sum(spec.draws for spec in specs)
        return _split(scaled_units(self.seeds, start, count, finish), specs) if count else {}


def _split(values: FloatArray, specs: Sequence[ParameterSpec]) -> Draws:
    """Views of consecutive draws `[seeds, draws]` as the matrices they fill."""
    parts, column = {}, 0
    for spec in specs:
        if spec.draws:
            parts[spec.key] = values[:, column : column + spec.draws].reshape(len(values), *spec.shape)
            column += spec.draws
    return parts


def _column_limits(specs: Sequence[ParameterSpec]) -> FloatArray:
    """Xavier limit of every draw of consecutive matrices."""
    drawn = [spec for spec in specs if spec.draws]
    limits = [xavier_scale(spec.shape[0], spec.shape[1]).uniform_limit for spec in drawn]
    return np.repeat(np.array(limits or [0.0]), [spec.draws for spec in drawn] or [1])
