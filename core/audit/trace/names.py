"""Names of a model's parameters, and the number of the block that each addition belongs to, read from these names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile

import torch
from torch import nn

from .kinds import FEED_FORWARD


class ParameterNames:
    """Finds the name of a parameter from the tensor object itself.

    A tied parameter is named by its first name; `aliases` maps that name to its others.
    """

    def __init__(self, model: nn.Module) -> None:
        self.parameters: dict[str, torch.Tensor] = dict(model.named_parameters())
        self._names = {id(parameter): name for name, parameter in self.parameters.items()}
        self.aliases: dict[str, list[str]] = {}
        for name, parameter in model.named_parameters(remove_duplicate=False):
            first = self._names[id(parameter)]
            if name != first:
                self.aliases.setdefault(first, []).append(name)

    def of(self, parameters: Iterable[torch.Tensor]) -> list[str]:
        """Return the names in the order given, without repetition.

        Tensors that are no parameters of the model are left out.
        """
        found = (self._names.get(id(parameter)) for parameter in parameters)
        return list(dict.fromkeys(name for name in found if name is not None))


def common_prefix(names: Sequence[str]) -> str:
    """Return the longest run of leading dotted components that all names share."""
    columns = zip(*(name.split(".") for name in names), strict=False)
    return ".".join(parts[0] for parts in takewhile(lambda parts: len(set(parts)) == 1, columns))


def block_numbers(
    additions: Sequence[Sequence[str]], writers: Sequence[Sequence[str]], kinds: Sequence[Sequence[str]]
) -> list[int]:
    """Return the block number, from 0, of every addition.

    `additions` holds, per addition, the names of the parameters it reads and writes with, `writers` those of its
    writers, `kinds` the kinds of its branches. Names contain numbered containers (`layers.3.`). The container whose
    number changes most along the additions counts the blocks; containers with the same numbers, used side by side,
    count them together. A writer that occurs again within a block begins the next block, as in a looped model. Where
    every entry of the container is one branch (attention and feed-forward alternate in one list), a block is one period
    of their kinds.
    """
    keys = _filled(_block_keys(additions))
    numbers: dict[str, set[int]] = {}
    for key in keys:
        if key is not None:
            numbers.setdefault(key[0], set()).add(key[1])
    blocks: list[int] = []
    block, seen = -1, set[str]()
    previous: tuple[str, int] | None = None
    for key, names in zip(keys, writers, strict=True):
        again = bool(names) and set(names) <= seen
        if block < 0 or again or (key is not None and previous is not None and _moves(previous, key, numbers)):
            block, seen = block + 1, set()
        seen |= set(names)
        blocks.append(block)
        previous = key if key is not None else previous
    period = _period(blocks, kinds)
    return [block // period for block in blocks]


def _period(blocks: Sequence[int], kinds: Sequence[Sequence[str]]) -> int:
    """Return how many entries of one branch each make a block; 1 where entries are blocks."""
    entries = ["+".join(each) for each in kinds]
    count = len(entries)
    if len(set(blocks)) < count or FEED_FORWARD not in entries or any(len(each) != 1 for each in kinds):
        return 1
    for period in range(2, count // 2 + 1 if count > 3 else count + 1):
        mixed = FEED_FORWARD in entries[:period] and set(entries[:period]) != {FEED_FORWARD}
        if count % period == 0 and mixed and all(entries[i] == entries[i % period] for i in range(count)):
            return period
    return 1


def numbered(name: str) -> list[tuple[str, int]]:
    """Return every (container, number) pair in a dotted name, outermost first.

    The container is the whole prefix: `a.layers.3.w` gives `("a.layers", 3)`.
    """
    parts = name.split(".")
    return [(".".join(parts[:place]), int(part)) for place, part in enumerate(parts) if part.isdecimal()]


def _filled(keys: list[tuple[str, int] | None]) -> list[tuple[str, int] | None]:
    """Return the keys (container, number) of all additions, where a missing key is that of the addition before.

    If the first key is missing, a missing key is that of the next addition instead.
    """
    order = range(len(keys) - 1, -1, -1) if keys and keys[0] is None else range(len(keys))
    filled, last = list(keys), None
    for place in order:
        last = filled[place] = keys[place] or last
    return filled


def _moves(previous: tuple[str, int], key: tuple[str, int], numbers: dict[str, set[int]]) -> bool:
    beside = previous[0] != key[0] and numbers[previous[0]] == numbers[key[0]]
    return previous[1] != key[1] if beside else previous != key


def _block_keys(additions: Sequence[Sequence[str]]) -> list[tuple[str, int] | None]:
    found = [numbered(common_prefix(names)) or numbered(names[0] if names else "") for names in additions]
    values: dict[str, set[int]] = {}
    for pairs in found:
        for container, number in pairs:
            values.setdefault(container, set()).add(number)
    return [max(pairs, key=lambda pair: len(values[pair[0]]), default=None) for pairs in found]
