"""Run a model whose matrices have memory only while an operation reads them, forward and in reverse.

The matrices of one block at a time are drawn, when the first of them is read; a table outside the blocks (embedding,
head) is drawn in stripes of rows and used by them. Views are taken without values. The reverse pass asks for the same
tensors, so that they are drawn again then, with the same values.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from ...errors import AuditError
from ..sandbox.guard import UNCOUNTED, Watch, storage_of
from ..trace.names import numbered
from ..trace.recorder import Address, Edge, edge_of, tensors_of
from .drawing import Drawing

ATEN = torch.ops.aten


class Sighting(Watch):  # type: ignore[no-untyped-call]
    """Counts the operations that autograd follows, and keeps the tensors that they read at `wanted` addresses.

    An address is (number of such an operation, place among its tensor arguments). `names` are the operations' names;
    with `expected` names, another one before the last wanted address raises `AuditError`. Of the tensors at addresses
    in `shapes` only the shape is kept. `numbers` maps the index of an operation among all, as the recorder counts, to
    its number here.
    """

    def __init__(
        self, wanted: Collection[Address] = (), shapes: Collection[Address] = (), expected: Sequence[str] = ()
    ) -> None:
        super().__init__()
        self.names: list[str] = []
        self.numbers: dict[int, int] = {}
        self.found: dict[Address, torch.Tensor] = {}
        self.edges: dict[Address, Edge | None] = {}
        self._wanted, self._shapes, self._expected = frozenset(wanted), frozenset(shapes), expected
        self._last = max((number for number, _ in (*wanted, *shapes)), default=-1)
        self._index = -1

    def see(self, func: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Count an operation about to run and keep what is wanted of it; returns the arguments unchanged."""
        self._index += 1
        tensors = list(tensors_of(args, keywords))
        if not any(tensor.requires_grad for tensor in tensors):
            return args, keywords
        number = self.numbers[self._index] = len(self.names)
        name = func.overloadpacket.__name__
        self.names.append(name)
        if self._expected and number <= self._last and self._expected[number : number + 1] != [name]:
            raise AuditError(
                "The forward goes another way at the true size than in the small model in which its stream was proved "
                f"(operation {number}: {name})."
            )
        for place, tensor in enumerate(tensors):
            if (number, place) in self._shapes:
                self.found[number, place] = torch.empty_like(tensor, device="meta")
            elif (number, place) in self._wanted:
                self.found[number, place] = tensor.detach().clone()
                self.edges[number, place] = edge_of(tensor)
        return args, keywords


class Hollow:
    """The parameters of a model without the memory of its matrices; blocks get theirs one at a time.

    A unit is a block, an entry of the outermost numbered container of the names, or a parameter outside the blocks.
    """

    def __init__(self, model: nn.Module, drawing: Drawing) -> None:
        self.drawing = drawing
        self.names: dict[int | None, str] = {}
        self._parameters: dict[str, nn.Parameter] = {}
        self._units: dict[str, list[str]] = {}
        self._filled: set[str] = set()
        self._model = model
        for name in drawing.shapes:
            self._units.setdefault(unit_of(name), []).append(name)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Put the parameters into the model; those that it had are put back on exit."""
        before = {id(p): (name, p) for name, p in self._model.named_parameters() if name in self.drawing.shapes}
        places: list[tuple[dict[str, Any], str, nn.Parameter]] = []
        for name, shape in self.drawing.shapes.items():
            made = nn.Parameter(self._without_memory(name, shape))
            self.names[storage_of(made)] = name
            self._parameters[name] = made
        for module in self._model.modules():
            for key, parameter in module._parameters.items():
                if parameter is not None and id(parameter) in before:
                    places.append((module._parameters, key, parameter))
        try:
            for holder, key, parameter in places:
                holder[key] = self._parameters[before[id(parameter)][0]]
            yield
        finally:
            self._release(set())
            self.names.clear()
            for holder, key, parameter in places:
                holder[key] = parameter

    def _without_memory(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        if self.table(name):
            # No page of the mapping exists until it is touched; a storage without bytes could not even be transposed.
            pages = mmap.mmap(-1, math.prod(shape) * self.drawing.dtype.itemsize)
            return torch.frombuffer(pages, dtype=self.drawing.dtype).view(shape)
        made = torch.empty(shape, dtype=self.drawing.dtype)
        made.untyped_storage().resize_(0)
        return made

    def table(self, name: str) -> bool:
        """Return whether a matrix stands outside the blocks and can be drawn in stripes of rows."""
        return not numbered(name) and self.drawing.tiled(name)

    def require(self, names: Sequence[str]) -> None:
        """Give the units of these matrices their values, and take them from all others."""
        wanted = {unit_of(name) for name in names}
        self._release(wanted)
        for unit in wanted - self._filled:
            targets = {name: self._parameters[name] for name in self._units[unit]}
            for target in () if self.table(unit) else targets.values():
                target.untyped_storage().resize_(target.numel() * target.element_size())
            self.drawing.fill(targets)
            self._filled.add(unit)

    def _release(self, kept: set[str]) -> None:
        # A table that an operation needed whole stays, for its mapping cannot shrink.
        kept = kept | {unit for unit in self._filled if self.table(unit)}
        for unit in self._filled - kept:
            for name in self._units[unit]:
                self._parameters[name].untyped_storage().resize_(0)
        self._filled &= kept


def unit_of(name: str) -> str:
    """Return the name of the block that a parameter belongs to, or its own name outside the blocks."""
    pairs = numbered(name)
    return f"{pairs[0][0]}.{pairs[0][1]}" if pairs else name


class Streaming(Sighting):  # type: ignore[no-untyped-call]
    """A `Sighting` that gives the parameters of a `Hollow` their values when an operation reads them."""

    def __init__(self, hollow: Hollow, **sighting: Any) -> None:
        super().__init__(**sighting)
        self._hollow = hollow

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operation: by stripes where it reads a table, otherwise with the block that it reads."""
        keywords = kwargs or {}
        held = [] if func is UNCOUNTED else self._held(tensors_of(args, keywords))
        if _views(func):
            held = [name for name in held if not self._hollow.table(name)]
        if len(held) == 1 and self._hollow.table(held[0]):
            made = self._by_stripes(func, args, keywords, held[0])
            if made is not None:
                self.see(func, args, keywords)
                return made
        if held:
            self._hollow.require(held)
        return super().__torch_dispatch__(func, types, args, keywords)

    def _held(self, tensors: Iterable[torch.Tensor]) -> list[str]:
        keys = [storage_of(tensor) for tensor in tensors]
        return list(dict.fromkeys(self._hollow.names[key] for key in keys if key in self._hollow.names))

    def _by_stripes(self, func: Any, args: tuple[Any, ...], keywords: Mapping[str, Any], name: str) -> Any:
        """Return the result of a lookup in a table or of a product with it; None for any other operation."""
        drawing = self._hollow.drawing
        if func is ATEN.embedding.default:
            unique, inverse = args[1].unique(return_inverse=True)
            return func(drawing.rows(name, unique), inverse)
        if func not in (ATEN.mm.default, ATEN.addmm.default) or keywords:
            return None
        left, right = args[-2:]
        shape = drawing.shapes[name]
        if not self._held([right]) or right.numel() != shape[0] * shape[1]:
            return None
        added = args[0] if func is ATEN.addmm.default else None
        if right.stride() == (1, shape[1]):
            made = left.new_empty(len(left), shape[0])
            for first, rows in drawing.stripes(name):
                torch.mm(left, rows.T, out=made[:, first : first + len(rows)])
        elif right.stride() == (shape[1], 1):
            made = left.new_zeros(len(left), shape[1])
            for first, rows in drawing.stripes(name):
                made.addmm_(left[:, first : first + len(rows)], rows)
        else:
            return None
        return made if added is None else made + added


def _views(func: Any) -> bool:
    """Return whether an operation takes a view: its result shares memory and nothing is written."""
    returns = func._schema.returns
    shares = bool(returns) and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)
    return shares and not func._schema.is_mutable
