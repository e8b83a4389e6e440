"""Records the state that a model can reach (attributes, containers, tensors, generators) and restores it later.

Weights are not copied: tensors are collected for the caller to protect. An object that existed before is the same
object afterwards, with the content it had.
"""

from __future__ import annotations

import random
import sys
import types
from argparse import Namespace
from collections import OrderedDict, UserDict, UserList, deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

# Entries of containers outside the model's own modules, and bytes of a numpy array, that are kept at most.
MOST_ENTRIES, LARGEST_ARRAY = 2**20, 2**24
LEAVES = frozenset(
    {bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, types.FunctionType, type}
)
# Their attributes are walked too; those of other library objects (locks, threads, process groups) are not ours.
WALKED = (nn.Module, Namespace, types.SimpleNamespace, UserDict, UserList)
FOREIGN = sys.stdlib_module_names | {"torch", "numpy"}
Content = tuple[Any, ...]
_UNSET = object()


class Kept:
    """The recorded state of everything that `roots` reach through attributes and containers.

    `tensors` are those found, for the caller to protect. `complete` is False if something was too large to record. What
    functions, classes and the globals of other modules hold is not reached.
    """

    def __init__(self, roots: Iterable[object]) -> None:
        self.tensors: list[torch.Tensor] = []
        self.complete = True
        self._undo: list[Callable[[], object]] = []
        self._left = MOST_ENTRIES
        self._seen: dict[int, object] = {}
        queue = deque(roots)
        for module in [root for root in queue if isinstance(root, nn.Module)]:
            # The modules first, so that no budget ever leaves one out.
            queue.extend(module.modules())
        while queue:
            value = queue.popleft()
            if type(value) not in LEAVES and id(value) not in self._seen:
                self._seen[id(value)] = value
                queue.extend(self._keep(value))

    def restore(self) -> None:
        """Restore everything that was recorded."""
        for undo in self._undo:
            undo()

    def _keep(self, value: Any) -> Iterator[object]:
        """Record one object and yield the objects that it holds."""
        if isinstance(value, torch.Tensor):
            self.tensors.append(value)
        elif isinstance(value, torch.Generator):
            self._undo.append(partial(value.set_state, value.get_state()))
        elif isinstance(value, random.Random):
            self._undo.append(partial(value.setstate, value.getstate()))
        elif isinstance(value, np.random.Generator):
            bits = value.bit_generator
            self._undo.append(partial(setattr, bits, "state", bits.state))
        elif isinstance(value, np.ndarray):
            if value.nbytes <= LARGEST_ARRAY and not isinstance(value, np.memmap) and value.flags.writeable:
                self._undo.append(partial(np.copyto, value, value.copy()))
            else:
                self.complete &= not value.flags.writeable
        elif isinstance(value, dict | list | set | deque):
            yield from self._container(value, charged=True)
        elif isinstance(value, tuple | frozenset):
            yield from value
        if isinstance(value, WALKED) or _of_the_users(type(value)):
            yield from self._attributes(value)

    def _container(self, value: Any, *, charged: bool) -> Iterator[object]:
        size = len(value) if charged else 0
        if size > self._left:
            self.complete = False
            return
        self._left -= size
        content = _content(value)
        self._undo.append(partial(_refill, value, content))
        yield from content

    def _attributes(self, value: Any) -> Iterator[object]:
        # Read past `__getattr__`, `__getattribute__` and properties, which may do or raise anything.
        try:
            attributes = object.__getattribute__(value, "__dict__")
        except AttributeError:
            attributes = None
        if type(attributes) is dict:
            yield from self._container(attributes, charged=not isinstance(value, nn.Module))
        declared = [vars(base).values() for base in type(value).__mro__ if "__slots__" in vars(base)]
        for slot in (part for group in declared for part in group if isinstance(part, types.MemberDescriptorType)):
            held = _slot(slot, value)
            self._undo.append(partial(_put, slot, value, held))
            yield held


def _of_the_users(kind: type) -> bool:
    module = getattr(kind, "__module__", "builtins")
    return isinstance(module, str) and module.partition(".")[0] not in FOREIGN and not issubclass(kind, type)


def _content(container: Any) -> Content:
    """Return everything that a container holds; keys and values of a dict alternate."""
    if isinstance(container, dict):
        return tuple(part for pair in _dict_type(container).items(container) for part in pair)
    return tuple(container)


def _refill(container: Any, content: Content) -> None:
    """Restore the entries of a container, as the same objects."""
    if list(map(id, _content(container))) == list(map(id, content)):
        return
    # By the built-in types' own methods, for a subclass may do something else beside.
    if isinstance(container, dict):
        kind = _dict_type(container)
        kind.clear(container)
        for key, value in zip(content[::2], content[1::2], strict=True):
            kind.__setitem__(container, key, value)
    elif isinstance(container, list):
        list.__setitem__(container, slice(None), content)
    elif isinstance(container, deque):
        deque.clear(container)
        deque.extend(container, content)
    else:
        set.clear(container)
        set.update(container, content)


def _dict_type(container: Any) -> Any:
    return OrderedDict if isinstance(container, OrderedDict) else dict


def _slot(slot: Any, value: object) -> Any:
    try:
        return slot.__get__(value)
    except AttributeError:
        return _UNSET


def _put(slot: Any, value: object, held: Any) -> None:
    if held is not _UNSET:
        slot.__set__(value, held)
    elif _slot(slot, value) is not _UNSET:
        slot.__delete__(value)
