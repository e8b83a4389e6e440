"""Record one forward below autograd: every operation, and the value and vertex of each tensor that it reads.

A vertex is an output of an autograd node, as (node, output number). The graph is autograd's own, so in-place additions,
views, tuples, casts and functional code need no special case; only values are recorded besides. An address (call,
place) identifies the same tensor in a second run: the index of the operation, and of the tensor among its arguments.
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
from .operations import ARGUMENTS_KEPT

# An output of an autograd node, as the node's object and the output's number.
Edge: TypeAlias = tuple[Node, int]
# A call's index in the run and the place of a tensor among its arguments.
Address: TypeAlias = tuple[int, int]

DEFAULT_BYTES = 4 * 2**30


@dataclass(slots=True)
class Call:
    """One operation: its index in the run, its arguments, and autograd's sequence number just after its node was made.

    `edges` are the vertices that it read. Where it wrote to a view, `view_base` is the vertex of the view's base.
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
    """A tensor's value when an operation read it, and its `address`, None for a tensor that autograd saved."""

    value: torch.Tensor
    address: Address | None = None


@dataclass
class Recording:
    """The result of recording: values by vertex, and calls by the sequence number of the autograd node they made.

    `slices` are the calls that wrote through a view, by the sequence number of the base's new node (`CopySlices`).
    """

    calls: dict[int, Call] = field(default_factory=dict)
    slices: dict[int, Call] = field(default_factory=dict)
    sights: dict[Edge, Sight] = field(default_factory=dict)
    held_bytes: int = 0


class Recorder(Watch):  # type: ignore[no-untyped-call]
    """Records a forward into `recording`; `features` are floating-point inputs that are differentiated too.

    Raises `BudgetError` once the recorded tensors exceed `max_bytes`.
    """

    def __init__(
        self,
        *,
        features: Sequence[torch.Tensor] = (),
        max_bytes: int = DEFAULT_BYTES,
    ) -> None:
        super().__init__()
        edges = [(tensor, get_gradient_edge(tensor)) for tensor in features]
        self._features = {id(tensor): (edge.node, edge.output_nr) for tensor, edge in edges}
        self.recording = Recording()
        self._max_bytes = max_bytes
        self._index = 0
        self._writing: Call | None = None
        self._sights: dict[int | None, list[Sight]] = {}
        self._counted: set[int | None] = set()

    def see(self, func: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Record an operation about to run: its call and, when first read, the tensors that autograd tracks.

        Returns the arguments unchanged. Raises `BudgetError` as the class says.
        """
        tensors = list(tensors_of(args, keywords))
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
        """Return a context manager: tensors that autograd saves inside it keep their values for the reverse pass.

        The forward may overwrite them later.
        """
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
    """Raised to end a run once all wanted values are found.

    A `BaseException`, so that no handler of the model catches it.
    """


class Replay(Watch):  # type: ignore[no-untyped-call]
    """A second run that keeps the tensors at the `wanted` addresses, in `found`, and reads zeros for silenced tensors.

    `parameters` read as zeros in every operation, `operands` (addresses) at that one call. The model itself is never
    written to. Raises `Stop` as soon as the last wanted value is there.
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
        """Replace the silenced arguments by zeros, keep the wanted ones, and return the arguments to run with.

        Raises `Stop` at the last wanted call.
        """
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
    """Yield every tensor among the arguments in a fixed order, those in lists and tuples included."""
    for value in (*args, *keywords.values()):
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            for item in value:
                if isinstance(item, torch.Tensor):
                    yield item


def edge_of(tensor: torch.Tensor, features: Mapping[int, Edge] | None = None) -> Edge | None:
    """Return the vertex of a tensor computed under autograd, or of one of `features`.

    None for parameters and constants.
    """
    node = tensor.grad_fn
    if node is not None:
        return looked_through(node, tensor.output_nr)
    return None if features is None else features.get(id(tensor))


def looked_through(node: Node | None, number: int) -> Edge | None:
    """Return the vertex behind `BackwardHookFunction`, the identity that full backward hooks put on tensors.

    None for a tensor that autograd did not compute.
    """
    while node is not None and isinstance(node, BackwardCFunction) and node._forward_cls is BackwardHookFunction:
        node, number = node.next_functions[number]
    return None if node is None else (node, number)


def _silenced(
    args: tuple[Any, ...], keywords: dict[str, Any], places: set[int]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the same arguments with zeros for the tensors at these places."""
    leaves, shape = tree_flatten((args, keywords))
    for place, index in enumerate(i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)):
        if place in places:
            leaves[index] = torch.zeros_like(leaves[index])
    silenced: tuple[tuple[Any, ...], dict[str, Any]] = tree_unflatten(leaves, shape)
    return silenced
