"""Record one forward below autograd: every operation, the vertex of each tensor it read, and that tensor's value.

A vertex is an output of an autograd node. Provenance is autograd's own graph, so in-place additions, views, tuples,
casts and functional code need no special case; the values are what the graph does not keep. An address (call, place)
finds the same tensor again in a second run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import Node, get_gradient_edge, saved_tensors_hooks
from torch.nn.modules._functions import BackwardHookFunction

from ...errors import BudgetError
from ..sandbox.guard import Watch, storage_of
from .lookups import LOOKUPS, check_lookup
from .operations import ARGUMENTS_KEPT

# An output of an autograd node, as the node's object and the output's number.
Edge: TypeAlias = tuple[Node, int]
# A call's index in the run and the place of a tensor among its arguments.
Address: TypeAlias = tuple[int, int]

DEFAULT_BYTES = 4 * 2**30
# Autograd detaches what it saves or not as hooks are set, so these calls are left out of every count.
UNCOUNTED = torch.ops.aten.detach.default


@dataclass(slots=True)
class Call:
    """One operation: its position in the run, its arguments, and autograd's counter just after its node was made."""

    index: int
    name: str
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]
    edges: list[Edge | None]
    sequence: int
    view_base: Edge | None = None


@dataclass(slots=True)
class Sight:
    """Where a vertex was read first, and its value at that time."""

    call: int
    place: int
    value: torch.Tensor


@dataclass
class Recording:
    """What a forward left behind."""

    calls: list[Call] = field(default_factory=list)
    sights: dict[Edge, Sight] = field(default_factory=dict)
    held_bytes: int = 0


class Recorder(Watch):  # type: ignore[no-untyped-call]
    """Records into `recording`; `features` are floating inputs that are differentiated too.

    `ids` is the batch and `names` are those of parameters by identity, both for sentences. Refuses (`BudgetError`) once
    the tensors it holds exceed `max_bytes`, and (`BatchError`) ids that a table has no row for.
    """

    def __init__(
        self,
        *,
        features: Sequence[torch.Tensor] = (),
        ids: torch.Tensor | None = None,
        names: Mapping[int, str] | None = None,
        max_bytes: int = DEFAULT_BYTES,
    ) -> None:
        super().__init__()
        self._ids, self._names = ids, names or {}
        edges = [(tensor, get_gradient_edge(tensor)) for tensor in features]
        self._features = {id(tensor): (edge.node, edge.output_nr) for tensor, edge in edges}
        self.recording = Recording()
        self._max_bytes = max_bytes
        self._storages: dict[int | None, list[Edge]] = {}
        self._saved: dict[int | None, list[list[torch.Tensor]]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Record one operation, then run it."""
        keywords = kwargs or {}
        if func is UNCOUNTED:
            return func(*args, **keywords)
        tensors = list(tensors_of(args, keywords))
        if func in LOOKUPS and len(tensors) == 2:
            check_lookup(tensors[0], tensors[1], LOOKUPS[func], self._ids, self._names)
        differentiable = torch.is_grad_enabled()
        # Inside a function with a custom derivative gradients are off, and it may be all that reads a vertex.
        edges = [edge_of(tensor, self._features) for tensor in tensors]
        name = func.overloadpacket.__name__
        kept = name in ARGUMENTS_KEPT
        call = Call(
            index=len(self.recording.calls),
            name=name,
            arguments=args if kept else (),
            keywords=keywords if kept else {},
            edges=edges if differentiable else [None] * len(tensors),
            sequence=torch._C._autograd._get_sequence_nr() if differentiable else -1,
        )
        for place, (tensor, edge) in enumerate(zip(tensors, edges, strict=True)):
            if edge is not None and edge not in self.recording.sights:
                self._keep(edge, Sight(call.index, place, tensor))
        for target in self.written(func, args, keywords):
            self.before_write(target)
            if differentiable and target._is_view() and target._base is not None:
                call.view_base = edge_of(target._base)
            self._preserve(target)
        self.recording.calls.append(call)
        return func(*args, **keywords)

    def _keep(self, edge: Edge, sight: Sight) -> None:
        recording = self.recording
        recording.sights[edge] = sight
        storage = storage_of(sight.value)
        known = self._storages.setdefault(storage, [])
        if not known and storage is not None:
            recording.held_bytes += sight.value.untyped_storage().nbytes()
            if recording.held_bytes > self._max_bytes:
                raise BudgetError(
                    f"The recorded activations exceed the budget of {self._max_bytes:,} bytes; use fewer or shorter "
                    "rows."
                )
        known.append(edge)

    def keeping_saved(self) -> saved_tensors_hooks:
        """A context in which the reverse pass sees saved tensors as they were, whatever the forward wrote later."""

        def pack(tensor: torch.Tensor) -> list[torch.Tensor]:
            box = [tensor]
            self._saved.setdefault(storage_of(tensor), []).append(box)
            return box

        def unpack(box: list[torch.Tensor]) -> torch.Tensor:
            return box[0]

        return saved_tensors_hooks(pack, unpack)

    def _preserve(self, target: torch.Tensor) -> None:
        # What is about to be overwritten is copied, so that every recorded value stays what it was when it was read.
        storage = storage_of(target)
        for box in self._saved.pop(storage, ()):
            box[0] = box[0].detach().clone()
        for edge in self._storages.pop(storage, ()):
            sight = self.recording.sights[edge]
            sight.value = sight.value.detach().clone()
            self.recording.held_bytes += sight.value.nbytes


class Stop(BaseException):
    """Ends a run early, once every value asked for is there; no handler of the model's own is to catch it."""


class Replay(Watch):  # type: ignore[no-untyped-call]
    """A second run: keeps the tensors at the `wanted` addresses and reads zeros in place of what is silenced.

    `parameters` (by identity) read as zeros wherever they appear, `operands` (addresses) at that one call. The model
    itself is never written. Raises `Stop` as soon as the last wanted value is there.
    """

    def __init__(
        self,
        wanted: Sequence[Address],
        *,
        parameters: Sequence[torch.Tensor] = (),
        operands: Sequence[Address] = (),
    ) -> None:
        super().__init__()
        self.found: dict[Address, torch.Tensor] = {}
        self._wanted: dict[int, list[int]] = {}
        for call, place in wanted:
            self._wanted.setdefault(call, []).append(place)
        self._last = max(self._wanted, default=-1)
        self._silenced = {id(parameter) for parameter in parameters}
        self._operands: dict[int, set[int]] = {}
        for call, place in operands:
            self._operands.setdefault(call, set()).add(place)
        self._count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Replace, keep, and run or stop."""
        keywords = kwargs or {}
        if func is UNCOUNTED:
            return func(*args, **keywords)
        index, self._count = self._count, self._count + 1
        if index in self._operands or self._silenced:
            places = self._operands.get(index, set())
            args, keywords = _replaced(
                args, keywords, lambda place, tensor: place in places or id(tensor) in self._silenced
            )
        if index in self._wanted:
            tensors = list(tensors_of(args, keywords))
            for place in self._wanted[index]:
                if place >= len(tensors):
                    raise Stop
                self.found[index, place] = tensors[place].detach().clone()
            if index == self._last:
                raise Stop
        for target in self.written(func, args, keywords):
            self.before_write(target)
        return func(*args, **keywords)


def tensors_of(args: Sequence[Any], keywords: Mapping[str, Any]) -> Iterator[torch.Tensor]:
    """Every tensor among the arguments, lists unfolded, in a fixed order."""
    for value in (*args, *keywords.values()):
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            for item in value:
                if isinstance(item, torch.Tensor):
                    yield item


def edge_of(tensor: torch.Tensor, features: Mapping[int, Edge] | None = None) -> Edge | None:
    """The vertex of a tensor computed under autograd, or of one of `features`; None for parameters and constants."""
    node = tensor.grad_fn
    if node is not None:
        return looked_through(node, tensor.output_nr)
    return None if features is None else features.get(id(tensor))


def looked_through(node: Node | None, number: int) -> Edge | None:
    """A vertex as the model made it: full backward hooks hand tensors through a function that changes none of them."""
    while node is not None and isinstance(node, BackwardCFunction) and node._forward_cls is BackwardHookFunction:
        node, number = node.next_functions[number]
    return None if node is None else (node, number)


def _replaced(
    args: Sequence[Any], keywords: Mapping[str, Any], silence: Callable[[int, torch.Tensor], bool]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    place = -1

    def one(value: Any) -> Any:
        nonlocal place
        if isinstance(value, torch.Tensor):
            place += 1
            return torch.zeros_like(value) if silence(place, value) else value
        if isinstance(value, list | tuple):
            return type(value)(one(item) if isinstance(item, torch.Tensor) else item for item in value)
        return value

    return tuple(one(value) for value in args), {name: one(value) for name, value in keywords.items()}
