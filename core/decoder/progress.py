"""How far a long computation is, told to a function that its caller gives; nothing here prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")
# What is counted ("blocks forward"), how many of it are done, and how many there are.
Told = Callable[[str, int, int], None]


def silent(what: str, done: int, total: int) -> None:
    """Tell nobody."""


def counted(items: Sequence[Item], what: str, told: Told) -> Iterator[Item]:
    """The items, telling of each one when the next is asked for."""
    for done, item in enumerate(items, 1):
        yield item
        told(what, done, len(items))
