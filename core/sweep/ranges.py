"""Parse lists and ranges from text: seeds, depths, sizes and names.

All functions raise an error for text that is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from ..errors import SweepError
from ..numerals import SPACES, checked_seed, whole_number

MAX_SEEDS = 2**22
# What a sweep observes unless it is told.
DEPTHS = (1, 2, 4, 8, 16, 32, 64)
# Bytes of its store.
DEFAULT_LIMIT = 2**32


def parse_seeds(text: str, limit: int = MAX_SEEDS) -> tuple[int, ...]:
    """Return the seeds in text such as `0:32`, `7` or several of these joined by commas, as a tuple.

    The end of a range is excluded. Raises `SweepError` for more than `limit` seeds or a wrong range, `ConfigError` for
    a wrong seed.
    """
    return tuple(seeds_or_range(text, limit))


def seeds_or_range(text: str, limit: int = MAX_SEEDS) -> Sequence[int]:
    """Return seeds as `parse_seeds` does, but a single range as a `range`, without listing its seeds."""
    ranges: list[range] = []
    for part in parse_names("seeds", text):
        first, colon, last = part.partition(":")
        start = checked_seed(first)
        # The end is left out, so one past the largest seed is a valid end.
        stop = checked_seed(int(last) - 1) + 1 if colon and _is_positive(last) else start + 1
        if colon and not _is_positive(last):
            raise SweepError(f"The seed range {part[:60]!r} has no end; write it as first:end, such as 0:32.")
        if stop <= start:
            raise SweepError(
                f"The seed range {part[:60]!r} is empty; its end is left out, so it must exceed its start."
            )
        ranges.append(range(start, stop))
        if sum(found.stop - found.start for found in ranges) > limit:
            raise SweepError(f"The seeds {text[:60]!r} are more than {limit:,}; give fewer.")
    return ranges[0] if len(ranges) == 1 else tuple(chain.from_iterable(ranges))


def parse_sizes(label: str, text: str) -> tuple[int, ...]:
    """Return the integers in text such as `1,2,4` as a tuple; `label` names the list in a `SweepError`."""
    sizes = []
    for part in parse_names(label, text):
        size = whole_number(part)
        if size is None or size < 0:
            raise SweepError(f"{label} holds {part[:60]!r}, which is not a whole number; write it as 1,2,4.")
        sizes.append(size)
    return tuple(sizes)


def seed_text(seeds: Sequence[int]) -> str:
    """Return seeds, in their order, as text that `parse_seeds` can read; consecutive seeds become ranges."""
    parts: list[str] = []
    start = 0
    for index in range(1, len(seeds) + 1):
        if index == len(seeds) or seeds[index] != seeds[index - 1] + 1:
            first, last = seeds[start], seeds[index - 1]
            parts.append(str(first) if first == last else f"{first}:{last + 1}")
            start = index
    return ",".join(parts)


def parse_names(label: str, text: str) -> tuple[str, ...]:
    """Return the names in a text with commas as a tuple; `label` names the list in a `SweepError`."""
    parts = [part.strip(SPACES) for part in text.split(",")]
    if "" in parts:
        raise SweepError(f"{label} is {text[:60]!r}, with an empty place between commas; leave no place empty.")
    return tuple(parts)


def _is_positive(text: str) -> bool:
    return (whole_number(text) or 0) > 0
