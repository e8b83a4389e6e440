"""Progress of a long computation, reported to a callback that the caller gives; nothing is printed here.

A callback of type `Told` is called with (what, done, total): the name of what is counted, how many are done, of how
many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")
# What is counted ("blocks forward"), how many of it are done, and how many there are.
Told = Callable[[str, int, int], None]


def silent(what: str, done: int, total: int) -> None:
    """Ignore the progress: the default callback."""


def counted(items: Sequence[Item], what: str, told: Told) -> Iterator[Item]:
    """Yield the items, and call `told` for each one when the next is requested."""
    for done, item in enumerate(items, 1):
        yield item
        told(what, done, len(items))
