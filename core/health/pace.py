"""The speed of one core of this machine, relative to the reference machine that the cost constants were fitted on.

It is measured once per process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from ..decoder.splitmix64 import scaled_units

# Processor seconds of the two probes on the reference machine.
REFERENCE_MOVES, REFERENCE_PRODUCTS = 1.45e-4, 2.75e-4
PROBE_DRAWS = 2**16
# Small enough that no library of products wakes a second thread.
PROBE_WIDTH, PROBE_PRODUCTS = 64, 50
REPEATS = 5
BFLOAT16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})


@dataclass(frozen=True)
class Pace:
    """Time on this machine divided by time on the reference machine.

    `moves` is for draws and data movement, `products` for matrix products; 2 means half as fast.
    """

    moves: float = 1.0
    products: float = 1.0


REFERENCE = Pace()


@cache
def machine_pace() -> Pace:
    """Return the `Pace` of this machine, measured once in processor time, so that other load matters little."""
    matrix = np.ones((PROBE_WIDTH, PROBE_WIDTH), np.float32)
    # Memory that was touched before: how long the first touch takes depends on what the process did until now.
    room = np.zeros((1, PROBE_DRAWS))
    return Pace(
        moves=_shortest(lambda: scaled_units([0], 0, PROBE_DRAWS, out=room)) / REFERENCE_MOVES,
        products=_shortest(lambda: [matrix @ matrix for _ in range(PROBE_PRODUCTS)]) / REFERENCE_PRODUCTS,
    )


@cache
def has_bfloat16() -> bool:
    """Return True if the processor reports instructions that multiply bfloat16; False if it does not or is unknown."""
    try:
        with open("/proc/cpuinfo") as lines:
            found = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    except OSError:
        return False
    return not BFLOAT16_FLAGS.isdisjoint(found.split())


def _shortest(work: Callable[[], object]) -> float:
    """Return the shortest processor time of a few runs, in seconds."""
    taken = []
    for _ in range(REPEATS):
        began = time.thread_time()
        work()
        taken.append(time.thread_time() - began)
    return max(min(taken), 1e-9)
