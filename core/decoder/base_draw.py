"""The base draw: the random matrices of a decoder before a recipe changes them, for one or many seeds at once.

A recipe is a rule that changes weights or the graph with the depth. A draw is one number of the SplitMix64 stream of a
seed; each entry of a matrix takes one draw, whatever its distribution. The distribution is Xavier uniform, or a normal
of given standard deviation. A normal value is the inverse normal CDF at (k + 1/2) 2^-52, times the standard deviation,
where k is the integer of the high 52 bits of the draw. A normal may be truncated at `cut` standard deviations; `std` is
the standard deviation before truncation.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ..errors import ConfigError
from ..numerals import checked_seed, exact_text
from .config import DecoderConfig
from .parameters import EMBEDDINGS, Layout, ParameterSpec, layout
from .splitmix64 import FloatArray, advanced, scaled_units
from .xavier import uniform_from_units, xavier_scale

Draws = Mapping[str, FloatArray]

# Coordinates (256 MiB of binary64) up to which a draw is kept, for the passes of other arms and depths.
KEPT_DRAW = 2**25
# Coordinates drawn in one go where blocks are small: a call costs more than a tiny block's draws.
RUN = 2**20


@dataclass(frozen=True)
class Distribution:
    """The distribution of the base draw: Xavier uniform if `std` is None, else a normal of standard deviation `std`.

    A normal is truncated at `cut` standard deviations if `cut` is given. `embedding_std` is the standard deviation of a
    normal for token and position embeddings alone; if None, they follow the same distribution as the rest. Raises
    `ConfigError` for a value that is not a positive finite number, and for `cut` without `std`.
    """

    std: float | None = None
    cut: float | None = None
    embedding_std: float | None = None

    def __post_init__(self) -> None:
        named = (
            ("standard deviation", self.std), ("truncation", self.cut), ("embeddings' deviation", self.embedding_std)
        )  # fmt: skip
        for label, value in named:
            if value is not None and not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
                raise ConfigError(f"The base draw's {label} is {value!r}; it must be a positive finite number.")
        if self.cut is not None and self.std is None:
            raise ConfigError("Only a normal base draw can be truncated; give its standard deviation too.")

    @property
    def name(self) -> str:
        """The name in records and documents; equal only for equal distributions."""
        law = "xavier-uniform" if self.std is None else f"normal-{exact_text(self.std)}"
        cut = "" if self.cut is None else f"-truncated-{exact_text(self.cut)}"
        embedding = "" if self.embedding_std is None else f"-embedding-{exact_text(self.embedding_std)}"
        return f"{law}{cut}{embedding}-splitmix64"

    def normal_std(self, spec: ParameterSpec) -> float | None:
        """Return the standard deviation of the normal that `spec` is drawn from; None if it is Xavier uniform.

        For a reduced twin (a narrower stand-in for a wide decoder) it is multiplied by `spec.twin_gain`, so that the
        twin keeps the scale of the wide decoder's outputs.
        """
        std = self.embedding_std if spec.role in EMBEDDINGS and self.embedding_std is not None else self.std
        return None if std is None else std * spec.twin_gain

    def base_std(self, spec: ParameterSpec) -> float:
        """Return the standard deviation of the matrix `spec` before any truncation, in weight units."""
        std = self.normal_std(spec)
        return _xavier_std(*spec.true_shape) * spec.twin_gain if std is None else std

    def uniform_limit(self, spec: ParameterSpec) -> float | None:
        """Return the limit a of the uniform distribution on [-a, a) of the matrix `spec`; None if it is normal."""
        is_normal, limit = self._law(spec)
        return None if is_normal else limit

    def finisher(self, specs: Sequence[ParameterSpec], repeats: int = 1) -> Callable[[FloatArray, slice], None]:
        """Return a function that turns uniform draws in [0, 1) into the weights of `specs`, in place and part by part.

        The draws of all `specs` follow each other along the columns, the whole sequence `repeats` times. The function
        is called as `finish(units, columns)`: `units` `[rows, n]` holds the draws of the columns in the slice
        `columns`.
        """
        stops, laws = self._runs(specs, repeats)

        def finish(units: FloatArray, columns: slice) -> None:
            column = columns.start
            for run in range(bisect_right(stops, column), len(stops)):
                stop = min(stops[run], columns.stop)
                is_normal, size = laws[run]
                drawn = units[:, column - columns.start : stop - columns.start]
                if is_normal:
                    self._normal(drawn, size)
                else:
                    uniform_from_units(drawn, size)
                column = stop
                if column == columns.stop:
                    return

        return finish

    def _runs(self, specs: Sequence[ParameterSpec], repeats: int) -> tuple[list[int], list[tuple[bool, float]]]:
        """Return the runs of consecutive draws that follow one law.

        The first list has the end of each run; the second has whether it is normal, and its std or limit.
        """
        parts = [(spec.draws, self._law(spec)) for spec in specs if spec.draws]
        stops: list[int] = []
        laws: list[tuple[bool, float]] = []
        column = 0
        for draws, law in parts * repeats:
            column += draws
            if laws and laws[-1] == law:
                stops[-1] = column
            else:
                stops.append(column)
                laws.append(law)
        return stops, laws

    def _law(self, spec: ParameterSpec) -> tuple[bool, float]:
        std = self.normal_std(spec)
        if std is not None:
            return True, std
        return False, xavier_scale(*spec.true_shape).uniform_limit * spec.twin_gain

    def _normal(self, units: FloatArray, std: float) -> None:
        # 2 (k + 1/2) 2^-52 - 1, exactly: an odd multiple of 2^-52 between -1 and 1.
        units *= 2.0**52
        np.floor(units, out=units)
        units *= 2.0**-51
        units += 2.0**-52 - 1
        if self.cut is not None:
            units *= math.erf(self.cut / math.sqrt(2))
        _normal_quantiles(units)
        # Weights too large for binary64 are infinite here, and the observer refuses them in words.
        with np.errstate(over="ignore"):
            units *= std


def _normal_quantiles(centred: FloatArray) -> None:
    """Replace 2 p - 1 by the inverse normal CDF of p in place, within a few units in the last place."""
    import torch  # the inverse normal comes with torch; the exact stream itself needs no torch

    values = torch.from_numpy(centred)
    if torch.backends.mkl.is_available():  # type: ignore[no-untyped-call]
        # A sixth of the time of `ndtri`, and as exact: 2 p - 1 carries every bit of p.
        values.erfinv_()
        centred *= math.sqrt(2)
    else:
        # Torch's own erfinv loses digits in the tails.
        values.add_(1.0).mul_(0.5)
        torch.special.ndtri(values, out=values)


@lru_cache(maxsize=256)
def _xavier_std(fan_in: int, fan_out: int) -> float:
    # Laws ask for it for every block and arm of a sweep.
    return xavier_scale(fan_in, fan_out).standard_deviation


XAVIER = Distribution()


class BaseDraw:
    """The base matrices of one decoder for several seeds, drawn part by part (embeddings, each block, head) on request.

    Parts stay in memory if the whole draw is small enough, so that several passes share them; otherwise a part is drawn
    again for every pass. Every method that returns a part gives a mapping from a parameter's key (its name without
    `blocks.{b}.`) to a float64 array `[len(seeds), fan_in, fan_out]`. Gains and biases are constants, and are absent.
    Raises `ConfigError` if `seeds` is empty.
    """

    def __init__(self, config: DecoderConfig, seeds: Sequence[int], distribution: Distribution = XAVIER) -> None:
        self.config = config
        self.layout: Layout = layout(config)
        self.seeds = [checked_seed(seed) for seed in seeds]
        if not self.seeds:
            raise ConfigError("There are no seeds to draw from; give at least one.")
        self.distribution = distribution
        keeps = len(self.seeds) * self.layout.draws <= KEPT_DRAW
        self._kept = _KeptParts(self.layout, self.seeds, distribution) if keeps else None

    @property
    def is_kept(self) -> bool:
        """True if parts that were drawn stay in memory."""
        return self._kept is not None

    def at_depth(self, blocks: int) -> BaseDraw:
        """Return the `BaseDraw` of the same seeds and sizes with `blocks` blocks.

        Both draws have the same embeddings and the same leading blocks. A shallower decoder also shares this one's
        memory.
        """
        other = copy(self)
        other.config = replace(self.config, blocks=blocks)
        other.layout = layout(other.config)
        if blocks > self.config.blocks:
            return BaseDraw(other.config, self.seeds, self.distribution)
        return other

    def with_embeddings(self, std: float) -> BaseDraw:
        """Return the `BaseDraw` whose embeddings are normal with standard deviation `std`.

        Kept blocks are shared with this one.
        """
        other = copy(self)
        other.distribution = replace(self.distribution, embedding_std=std)
        return other

    def stem(self) -> Draws:
        """Return the token embedding and learned positions, if any, by key: `[seeds, fan_in, fan_out]` each."""
        return self._part(self.layout.stem, 0) if self._kept is None else self._kept.stem(self.distribution)

    def block(self, block: int) -> Draws:
        """Return the matrices of block number `block`, counted from 0: key -> `[seeds, fan_in, fan_out]`."""
        if self._kept is not None:
            return self._kept.block(block)
        return self._part(self.layout.block_template, self.layout.block_start(block))

    def tail(self) -> Draws:
        """Return the head's matrix by key, `[seeds, width, vocabulary]`.

        Empty if the head is tied to the token embedding.
        """
        return self._part(self.layout.tail, self.layout.block_start(self.layout.blocks))

    def final_states(self) -> list[int]:
        """Return one integer per seed: the state of its generator after every matrix of the decoder has been drawn."""
        return [advanced(seed, self.layout.draws) for seed in self.seeds]

    def _part(self, specs: Sequence[ParameterSpec], start: int) -> Draws:
        return _drawn(self.seeds, specs, start, self.distribution)


class _KeptParts:
    """Embeddings and blocks of a draw, each drawn once, when requested; several tiny blocks are drawn in one call."""

    def __init__(self, sizes: Layout, seeds: Sequence[int], distribution: Distribution) -> None:
        self._layout, self._seeds, self._distribution = sizes, seeds, distribution
        self._values = np.empty((len(seeds), sizes.blocks * sizes.block_draws))
        self._run = max(1, RUN // max(1, len(seeds) * sizes.block_draws))
        self._ready = 0
        self._stems: dict[Distribution, Draws] = {}

    def stem(self, distribution: Distribution) -> Draws:
        if distribution not in self._stems:
            self._stems[distribution] = _drawn(self._seeds, self._layout.stem, 0, distribution)
        return self._stems[distribution]

    def block(self, block: int) -> Draws:
        if block >= self._ready:
            self._draw_up_to(min(self._layout.blocks, max(block + 1, self._ready + self._run)))
        draws = self._layout.block_draws
        return _split(self._values[:, block * draws : (block + 1) * draws], self._layout.block_template)

    def _draw_up_to(self, stop: int) -> None:
        draws, start = self._layout.block_draws, self._ready
        finish = self._distribution.finisher(self._layout.block_template, stop - start)
        scaled_units(
            self._seeds,
            self._layout.block_start(start),
            (stop - start) * draws,
            finish,
            out=self._values[:, start * draws : stop * draws],
        )
        self._ready = stop


def _drawn(seeds: Sequence[int], specs: Sequence[ParameterSpec], start: int, distribution: Distribution) -> Draws:
    count = sum(spec.draws for spec in specs)
    return _split(scaled_units(seeds, start, count, distribution.finisher(specs)), specs) if count else {}


def _split(values: FloatArray, specs: Sequence[ParameterSpec]) -> Draws:
    """Return views of consecutive draws `[seeds, draws]` as the matrices of `specs`."""
    parts, column = {}, 0
    for spec in specs:
        if spec.draws:
            parts[spec.key] = values[:, column : column + spec.draws].reshape(len(values), *spec.shape)
            column += spec.draws
    return parts
