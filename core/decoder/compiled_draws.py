"""The draws compiled by numba where it is installed: the same bits as those of NumPy, several times as fast."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

# Draws of this process from which numba is loaded: NumPy makes about as many in the half second that loading takes.
WORTH_LOADING = 2**26
INCREMENT = 0x9E3779B97F4A7C15
MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
SHIFTS = (30, 27, 31)
STEP, FIRST, SECOND = (np.uint64(number) for number in (INCREMENT, *MULTIPLIERS))
R30, R27, R31, R11, R32, LOW = (np.uint64(number) for number in (*SHIFTS, 11, 32, 2**32 - 1))
# The bits of 2^84 and of 2^52 as binary64; 32 bits n written below them make 2^84 + 2^32 n and 2^52 + n, exactly.
HIGH_HALF, LOW_HALF = np.uint64(0x4530 << 48), np.uint64(0x4330 << 48)
HALVES = 2.0**84 + 2.0**52

# out, states, shift, factor, as `splitmix64.affine` takes them; `out` is contiguous, binary64 or binary32.
Kernel = Callable[[Any, Any, float, float], None]
_seen = 0


def kernel_for(draws: int) -> Kernel | None:
    """Return the compiled draws, if this process has drawn enough, with these `draws`, to make loading numba pay.

    None where numba is absent or does not fit the installed NumPy.
    """
    global _seen
    _seen += draws
    return kernel() if _seen >= WORTH_LOADING else None


@lru_cache(maxsize=1)
def kernel() -> Kernel | None:
    """Load numba and return the compiled draws; None where it cannot be imported."""
    try:
        import numba
    except ImportError:
        return None
    # Without the interpreter's lock threads draw at the same time.
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        compiled: Kernel = numba.njit(cache=True, **options)(_affine)
    except RuntimeError:  # no folder where the compiled code could be kept for the next process
        compiled = numba.njit(**options)(_affine)
    return compiled


def _affine(out: Any, states: Any, shift: float, factor: float) -> None:
    # A processor that converts 64-bit integers one by one still does two halves of 32 bits as vectors: high - corner is
    # (n - shift) without its low half, exact for a shift of whole multiples of 2^32 up to 2^52.
    corner = HALVES + shift
    for row in range(out.shape[0]):
        state = states[row]
        for column in range(out.shape[1]):
            z = state + np.uint64(column + 1) * STEP
            z = (z ^ (z >> R30)) * FIRST
            z = (z ^ (z >> R27)) * SECOND
            z = (z ^ (z >> R31)) >> R11
            high = np.uint64((z >> R32) | HIGH_HALF).view(np.float64)
            low = np.uint64((z & LOW) | LOW_HALF).view(np.float64)
            out[row, column] = ((high - corner) + low) * factor
