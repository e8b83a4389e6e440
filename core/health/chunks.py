"""The number of seeds that run in one pass (one batched forward and reverse).

It depends on the request alone, so every machine splits a range of seeds in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..decoder.base_draw import KEPT_DRAW
from ..decoder.batch import Batch
from ..decoder.config import DecoderConfig
from ..decoder.parameters import layout
from .estimate import ARMS, call_seconds, draw_seconds, estimate, member_seconds
from .pace import Pace, machine_pace
from .request import ObserveRequest

MAX_MEMBERS = 1024
# On the reference machine.
CHUNK_SECONDS = 0.2
CHUNK_BYTES = 2**29


def seed_chunks(seeds: Sequence[int], each: int) -> Iterator[Sequence[int]]:
    """Yield consecutive runs of at most `each` seeds, in their order."""
    for start in range(0, len(seeds), each):
        yield seeds[start : start + each]


def seeds_per_chunk(config: DecoderConfig, batch: Batch, dtype: str, arms: int) -> int:
    """Return the number of seeds that one pass runs: a power of two, at least 1.

    It is the largest for which the pass stays within fixed limits of members (seeds * arms), time and memory; `arms` is
    the number of recipes that run together.
    """
    seeds = 1
    while 2 * seeds * arms <= MAX_MEMBERS and _fits(config, batch, dtype, 2 * seeds, arms):
        seeds *= 2
    return seeds


def arms_per_pass(config: DecoderConfig, batch: Batch, dtype: str, arms: int) -> int:
    """Return how many of `arms` recipes run in one pass of one seed: as many as memory allows, at least two."""
    fitting = [n for n in range(1, arms + 1) if pass_bytes(config, batch, dtype, 1, n) <= CHUNK_BYTES]
    return max(ARMS, *fitting) if fitting else ARMS


def seeds_seconds(request: ObserveRequest, seeds: int, arms: int, pace: Pace | None = None) -> float:
    """Return the estimated time in seconds on one core to observe `arms` recipes on `seeds` seeds.

    `pace` is the speed of the machine, None for this one's.
    """
    config, batch, pace = request.config, request.batch, pace or machine_pace()
    runs = -(-seeds // seeds_per_chunk(config, batch, request.dtype, arms))
    members = seeds * arms * member_seconds(config, batch, request.dtype, pace)
    return draw_seconds(config, seeds, request.distribution, pace) + runs * call_seconds(config, pace) + members


def pass_bytes(config: DecoderConfig, batch: Batch, dtype: str, seeds: int, arms: int) -> int:
    """Return the peak bytes of one pass over `seeds` seeds with `arms` recipes each, with the base draws it keeps."""
    cost = estimate(ObserveRequest(config=config, batch=batch, dtype=dtype))
    kept = 8 * seeds * layout(config).draws
    return seeds * arms * (cost.total_bytes // ARMS) + (kept if kept <= 8 * KEPT_DRAW else 0)


def _fits(config: DecoderConfig, batch: Batch, dtype: str, seeds: int, arms: int) -> bool:
    seconds = seeds * arms * member_seconds(config, batch, dtype) + draw_seconds(config, seeds)
    # Where calls cost more than that, a pass with few members would waste most of its time on them.
    allowed = max(CHUNK_SECONDS, call_seconds(config))
    return seconds <= allowed and pass_bytes(config, batch, dtype, seeds, arms) <= CHUNK_BYTES
