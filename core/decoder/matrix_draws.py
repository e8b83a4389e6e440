"""The random base values of one matrix: any rows or any rectangle of it, drawn on request and not kept."""

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
    """The base matrices `[fan_in, fan_out]` of one parameter, one per seed, with the same bits as `BaseDraw`.

    `spec` describes the parameter, and `start` is the number of draws that precede it on the stream of each seed.
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
        """Fill `out` with the entries `[rows, columns]` of the matrix of seed number `seed`, counted from 0.

        Values are computed in float64 and rounded once to the dtype of `out`, float64 or float32.
        """
        self._fill(out, seed, np.arange(rows.start, rows.stop, dtype=np.uint64), columns.start)

    def rows(self, seed: int, numbers: npt.NDArray[np.int64]) -> FloatArray:
        """Return the rows `numbers` of the matrix of seed number `seed`: float64 `[len(numbers), fan_out]`."""
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
