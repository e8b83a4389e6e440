"""SplitMix64 as a counter-based generator: any draw of any seed is computed directly, vectorized and exact.

Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014). The state before the first draw is
the 64-bit seed itself, so draw k of a seed, counted from 0, is mix((seed + (k + 1) * INCREMENT) mod 2^64), where mix is
the paper's function of 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ..numerals import LARGEST_SEED, checked_seed
from .compiled_draws import INCREMENT, MULTIPLIERS, SHIFTS, Kernel, kernel_for

FloatArray = npt.NDArray[np.float64]

MASK = LARGEST_SEED
# Draws mixed at a time: few enough that three buffers stay near the core, enough that calls are not the cost.
SLAB = 32_768


def advanced(state: int, draws: int) -> int:
    """Return the state, a 64-bit integer, that the generator has `draws` draws after `state`."""
    return (state + draws * INCREMENT) & MASK


def bits(seeds: Sequence[int], offset: int, count: int) -> npt.NDArray[np.uint64]:
    """Return draws number `offset` to `offset + count - 1` of every seed: uint64 `[len(seeds), count]`."""
    out = np.empty((len(seeds), count), dtype=np.uint64)
    for rows, columns, drawn, _ in _tiles(_starts(seeds, offset), count):
        out[rows, columns] = drawn
    return out


def scaled_units(
    seeds: Sequence[int],
    offset: int,
    count: int,
    finish: Callable[[FloatArray, slice], None] | None = None,
    *,
    out: FloatArray | None = None,
) -> FloatArray:
    """Return draws number `offset` to `offset + count - 1` of every seed as float64 `[len(seeds), count]` in [0, 1).

    A number is the high 53 bits of its draw divided by 2^53, which is exact. `finish(u, columns)`, if given, may change
    the numbers in place: it is called for parts `u` of the array, with the slice of their columns. `out`, if given, is
    the array that is filled and returned.
    """
    if out is None:
        out = np.empty((len(seeds), count), dtype=np.float64)
    fill(out, _starts(seeds, offset), finish, kernel_for(len(seeds) * count))
    return out


def fill(
    out: npt.NDArray[Any],
    states: npt.NDArray[np.uint64],
    finish: Callable[[FloatArray, slice], None] | None,
    kernel: Kernel | None,
) -> None:
    """Fill row i of `out` `[rows, count]` with the draws, in [0, 1), that follow the generator state `states[i]`.

    `finish(u, columns)`, if given, changes parts of the rows in place, in float64; then they are rounded once to the
    dtype of `out`, float64 or float32. `kernel` is the compiled function that draws, None to use NumPy.
    """
    room = np.empty(min(max(SLAB, out.shape[1]), out.size))
    for rows, columns, starts in _slabs(states, out.shape[1]):
        shape = (len(starts), columns.stop - columns.start)
        tile = room[: shape[0] * shape[1]].reshape(shape)
        affine(tile, starts, 0.0, 2.0**-53, kernel)
        if finish is not None:
            finish(tile, columns)
        out[rows, columns] = tile


def affine(
    out: npt.NDArray[Any], states: npt.NDArray[np.uint64], shift: float, factor: float, kernel: Kernel | None
) -> None:
    """Fill row i of `out` with (n - shift) * factor, where n is the integer of the high 53 bits of a draw.

    The draws are those that follow the generator state `states[i]`. n - shift is exact for a shift of 0 or 2^52; the
    product is rounded to float64, then once to the dtype of `out`. `kernel` is the compiled form of this function, None
    to use NumPy.
    """
    if kernel is not None:
        kernel(out, states, shift, factor)
        return
    for rows, columns, drawn, spare in _tiles(states, out.shape[1]):
        np.right_shift(drawn, np.uint64(11), out=drawn)
        tile = spare.view(np.float64)
        # 53 bits fit a signed integer, and the signed conversion is the one that processors have.
        tile[...] = drawn.view(np.int64)
        if shift:
            tile -= shift
        np.multiply(tile, factor, out=out[rows, columns])


def units(seeds: Sequence[int], offset: int, count: int) -> FloatArray:
    """Return draws number `offset` to `offset + count - 1` of every seed as float64 `[len(seeds), count]` in [0, 1)."""
    return scaled_units(seeds, offset, count)


def _starts(seeds: Sequence[int], offset: int) -> npt.NDArray[np.uint64]:
    """Return the state of every seed after `offset` draws."""
    return np.array(seeds, dtype=np.uint64) + np.array(advanced(0, offset), dtype=np.uint64)


def _tiles(
    states: npt.NDArray[np.uint64], count: int
) -> Iterator[tuple[slice, slice, npt.NDArray[np.uint64], npt.NDArray[np.uint64]]]:
    """Yield cache-sized pieces of the draws, each with a spare array of its shape; the next piece overwrites both."""
    steps = _steps(min(count, SLAB))
    values, scratch = np.empty((2, min(len(states), max(1, SLAB // max(1, count))), len(steps)), dtype=np.uint64)
    for rows, columns, starts in _slabs(states, count):
        shape = (slice(len(starts)), slice(columns.stop - columns.start))
        tile, spare = values[shape], scratch[shape]
        np.add(starts[:, None], steps[shape[1]], out=tile)
        _mix(tile, spare)
        yield rows, columns, tile, spare


def _slabs(states: npt.NDArray[np.uint64], count: int) -> Iterator[tuple[slice, slice, npt.NDArray[np.uint64]]]:
    """Yield the rows and columns of cache-sized pieces of the draws, and the states before its first column."""
    height = max(1, SLAB // max(1, count))
    for top in range(0, len(states), height):
        rows = slice(top, min(top + height, len(states)))
        for left in range(0, count, SLAB):
            columns = slice(left, min(left + SLAB, count))
            yield rows, columns, states[rows] + np.uint64(advanced(0, left))


@lru_cache(maxsize=8)
def _steps(count: int) -> npt.NDArray[np.uint64]:
    return np.arange(1, count + 1, dtype=np.uint64) * np.uint64(INCREMENT)


def _mix(values: npt.NDArray[np.uint64], scratch: npt.NDArray[np.uint64]) -> None:
    for shift, multiplier in zip(SHIFTS, (*MULTIPLIERS, None), strict=True):
        np.right_shift(values, np.uint64(shift), out=scratch)
        np.bitwise_xor(values, scratch, out=values)
        if multiplier is not None:
            np.multiply(values, np.uint64(multiplier), out=values)


class SplitMix64:
    """A generator with an explicit state, which can be saved and resumed; each draw advances the state."""

    def __init__(self, seed: int) -> None:
        self._state = checked_seed(seed)

    @classmethod
    def from_state(cls, state: int) -> SplitMix64:
        """Return a generator that goes on from a recorded state.

        For SplitMix64, a seed and a state are the same number.
        """
        return cls(state)

    @property
    def state(self) -> int:
        """The state before the next draw, an integer from 0 to 2^64 - 1."""
        return self._state

    def clone(self) -> SplitMix64:
        """Return an independent generator in the same state."""
        return SplitMix64(self._state)

    def next_bits(self, count: int = 1) -> npt.NDArray[np.uint64]:
        """Return the next `count` draws, uint64 `[count]`, and advance."""
        drawn: npt.NDArray[np.uint64] = bits([self._state], 0, count)[0]
        self.skip(count)
        return drawn

    def next_units(self, count: int = 1) -> npt.NDArray[np.float64]:
        """Return the next `count` draws as float64 `[count]` in [0, 1), and advance."""
        drawn: FloatArray = units([self._state], 0, count)[0]
        self.skip(count)
        return drawn

    def skip(self, draws: int) -> None:
        """Advance by `draws` draws without computing them."""
        self._state = advanced(self._state, draws)

    def commit(self, other: SplitMix64) -> None:
        """Set the state to that of `other`, usually a clone that has drawn values which turned out to be usable."""
        self._state = other._state
