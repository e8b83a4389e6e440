"""Progress of a long computation, reported to a callback of the caller; nothing is printed here.

The callback, usually named `told`, is called as `told(what, done, total)`: the text `what` names what is counted, such
as "blocks forward"; `done` of `total` are finished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")
# What is counted ("blocks forward"), how many of it are done, and how many there are.
Told = Callable[[str, int, int], None]


def silent(what: str, done: int, total: int) -> None:
    """The default progress callback, which does nothing."""


def counted(items: Sequence[Item], what: str, told: Told) -> Iterator[Item]:
    """Yield the items in order; after each one is used, call `told(what, done, total)`.

    The call comes when the next item is requested.
    """
    for done, item in enumerate(items, 1):
        yield item
        told(what, done, len(items))
