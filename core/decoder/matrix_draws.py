"""The base draw of one matrix, any tile of it, with nothing kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .base_draw import Distribution
from .compiled_draws import kernel_for
from .parameters import ParameterSpec
from .splitmix64 import FloatArray, advanced, affine, fill


class MatrixDraws:
    """The base matrices `[fan_in, fan_out]` of one parameter, one for each seed; the bits are those of `BaseDraw`.

    `start` counts the draws that precede the parameter on the decoder's stream.
    """

    def __init__(self, seeds: Sequence[int], spec: ParameterSpec, start: int, distribution: Distribution) -> None:
        rows, columns = spec.shape
        self.shape = (rows, columns)
        self.seeds = len(seeds)
        self._starts = [advanced(seed, start) for seed in seeds]
        self._limit = distribution.uniform_limit(spec)
        self._finish = distribution.finisher([spec])
        self._kernel = kernel_for(len(seeds) * spec.draws)

    def into(self, out: npt.NDArray[Any], seed: int, rows: slice, columns: slice) -> None:
        """Fill `out` with a tile of seed number `seed`: binary64 values, rounded once to the type of `out`."""
        self._fill(out, seed, np.arange(rows.start, rows.stop, dtype=np.uint64), columns.start)

    def rows(self, seed: int, numbers: npt.NDArray[np.int64]) -> FloatArray:
        """Return the rows of these numbers, `[len(numbers), fan_out]` in binary64."""
        out = np.empty((len(numbers), self.shape[1]))
        self._fill(out, seed, numbers.astype(np.uint64), 0)
        return out

    def _fill(self, out: npt.NDArray[Any], seed: int, rows: npt.NDArray[np.uint64], first_column: int) -> None:
        states = rows * np.uint64(advanced(0, self.shape[1])) + np.uint64(advanced(self._starts[seed], first_column))
        # A draw of extreme scale may leave the range of `out`; the observer refuses what is not finite.
        with np.errstate(over="ignore"):
            if self._limit is None:
                fill(out, states, self._finish, self._kernel)
            else:
                # limit * (2 u - 1) with u = n / 2^53: 2 u - 1 is exact, and so is a product with a power of two.
                affine(out, states, 2.0**52, self._limit * 2.0**-52, self._kernel)
