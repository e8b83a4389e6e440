"""Record one forward below autograd: every operation, the vertex of each tensor it read, and that tensor's value.

A vertex is an output of an autograd node. Provenance is autograd's own graph, so in-place additions, views, tuples,
casts and functional code need no special case; the values are what the graph does not keep. An address (call, place)
finds the same tensor again in a second run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import Node, get_gradient_edge, saved_tensors_hooks
from torch.nn.modules._functions import BackwardHookFunction
from torch.utils._pytree import tree_flatten, tree_unflatten

from ...errors import BudgetError
from ..sandbox.guard import Watch, storage_of
from .lookups import LOOKUPS, check_lookup
from .operations import ARGUMENTS_KEPT

# An output of an autograd node, as the node's object and the output's number.
Edge: TypeAlias = tuple[Node, int]
# A call's index in the run and the place of a tensor among its arguments.
Address: TypeAlias = tuple[int, int]

DEFAULT_BYTES = 4 * 2**30


@dataclass(slots=True)
class Call:
    """One operation: its position in the run, its arguments, and autograd's counter just after its node was made.

    `edges` are the vertices that it read; `view_base` is what a view that it wrote to belongs to.
    """

    index: int
    name: str
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]
    edges: list[Edge]
    sequence: int
    view_base: Edge | None = None


@dataclass(slots=True)
class Sight:
    """A value at the time it was read, and where that was; no address for what autograd saved."""

    value: torch.Tensor
    address: Address | None = None


@dataclass
class Recording:
    """What a forward left behind: values by vertex, and calls by the number that autograd gave the node they made.

    `slices` are the calls that wrote through a view, by that of the node that put the slice into its base.
    """

    calls: dict[int, Call] = field(default_factory=dict)
    slices: dict[int, Call] = field(default_factory=dict)
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
        self._index = 0
        self._writing: Call | None = None
        self._sights: dict[int | None, list[Sight]] = {}
        self._counted: set[int | None] = set()

    def see(self, func: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Record one operation."""
        tensors = list(tensors_of(args, keywords))
        if func in LOOKUPS and len(tensors) == 2:
            check_lookup(tensors[0], tensors[1], LOOKUPS[func], self._ids, self._names)
        differentiable = torch.is_grad_enabled()
        # Inside a function with a custom derivative gradients are off, and it may be all that reads a vertex.
        edges = [edge_of(tensor, self._features) for tensor in tensors]
        name = func.overloadpacket.__name__
        kept = name in ARGUMENTS_KEPT
        call = Call(
            index=self._index,
            name=name,
            arguments=args if kept else (),
            keywords=keywords if kept else {},
            edges=[edge for edge in edges if edge is not None],
            sequence=torch._C._autograd._get_sequence_nr(),
        )
        for place, (tensor, edge) in enumerate(zip(tensors, edges, strict=True)):
            if edge is not None and edge not in self.recording.sights:
                self.recording.sights[edge] = self._sight(tensor, (call.index, place))
                self._count(tensor)
        self._writing = call if differentiable else None
        if differentiable:
            self.recording.calls.setdefault(call.sequence - 1, call)
        self._index += 1
        return args, keywords

    def before_write(self, target: torch.Tensor) -> None:
        """Copy what is about to be overwritten, so that every recorded value stays what it was when it was read."""
        super().before_write(target)
        call = self._writing
        if call is not None and target._is_view() and target._base is not None:
            call.view_base = edge_of(target._base)
            self.recording.slices[call.sequence] = call
        storage = storage_of(target)
        self._counted.discard(storage)
        for sight in self._sights.pop(storage, ()):
            sight.value = sight.value.detach().clone()
            self.recording.held_bytes += sight.value.nbytes

    def keeping_saved(self) -> saved_tensors_hooks:
        """A context in which the reverse pass sees saved tensors as they were, whatever the forward wrote later."""
        return saved_tensors_hooks(self._sight, lambda sight: sight.value)

    def _count(self, tensor: torch.Tensor) -> None:
        storage = storage_of(tensor)
        if storage is None or storage in self._counted:
            return
        self._counted.add(storage)
        self.recording.held_bytes += tensor.untyped_storage().nbytes()
        if self.recording.held_bytes > self._max_bytes:
            raise BudgetError(
                f"The recorded activations exceed the budget of {self._max_bytes:,} bytes; use fewer or shorter rows."
            )

    def _sight(self, tensor: torch.Tensor, address: Address | None = None) -> Sight:
        sight = Sight(tensor, address)
        self._sights.setdefault(storage_of(tensor), []).append(sight)
        return sight


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
        self._wanted, self._operands = frozenset(wanted), frozenset(operands)
        self._last = max(wanted, default=(-1, 0))[0]
        self._silenced = {id(parameter) for parameter in parameters}
        self._index = -1

    def see(self, func: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Replace, keep, and stop after the last."""
        self._index += 1
        tensors = list(tensors_of(args, keywords))
        places = range(len(tensors))
        silent = {p for p in places if (self._index, p) in self._operands or id(tensors[p]) in self._silenced}
        if silent:
            args, keywords = _silenced(args, keywords, silent)
            tensors = list(tensors_of(args, keywords))
        for place in places:
            if (self._index, place) in self._wanted:
                self.found[self._index, place] = tensors[place].detach().clone()
        if self._index == self._last:
            raise Stop
        return args, keywords


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


def _silenced(
    args: tuple[Any, ...], keywords: dict[str, Any], places: set[int]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same arguments with zeros for the tensors at these places."""
    leaves, shape = tree_flatten((args, keywords))
    for place, index in enumerate(i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)):
        if place in places:
            leaves[index] = torch.zeros_like(leaves[index])
    silenced: tuple[tuple[Any, ...], dict[str, Any]] = tree_unflatten(leaves, shape)
    return silenced
