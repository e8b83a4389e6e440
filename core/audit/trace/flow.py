"""The dataflow of a recorded forward: autograd's graph, converted to plain nodes (operations) of a few kinds.

A vertex is an output of a node, as (index in `Flow.nodes`, output number). It is dynamic if its value depends on the
batch, and static otherwise: a parameter, or computed from parameters alone.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import torch
from torch.autograd.graph import Node as AutogradNode

from .recorder import Address, Call, Edge, Recording, Sight, edge_of, looked_through

Vertex: TypeAlias = tuple[int, int]
Factor: TypeAlias = "float | torch.Tensor"
Kind = Literal[
    "parameter", "source", "sum", "scale", "view", "norm", "matrix", "pointwise", "product", "reduce", "other"
]

CUSTOM = "Custom"
_SUFFIX = re.compile(r"Backward\d*$")


@dataclass(frozen=True, slots=True)
class SumTerm:
    """One term of a sum: `factor` times a vertex (an output of an operation), or `factor` times a constant."""

    vertex: Vertex | None
    factor: Factor = 1.0
    constant: torch.Tensor | None = None


@dataclass(slots=True)
class FlowNode:
    """One operation; `inputs` are vertices in argument order, None for constants.

    `terms` are those of a sum, `factor` multiplies the input of a scale, and `operand` is the (call, place) of the
    matrix of a product. `dynamic` is True if the value depends on the batch. `value` is set only if the node is a part
    of a fused operation.
    """

    name: str
    kind: Kind
    inputs: tuple[Vertex | None, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtype: torch.dtype = torch.float32
    dynamic: bool = False
    call: Call | None = None
    origin: AutogradNode | None = None
    parameter: torch.Tensor | None = None
    terms: list[SumTerm] = field(default_factory=list)
    factor: Factor = 1.0
    operand: Address | None = None
    value: torch.Tensor | None = None


class Flow:
    """The graph of operations that computes the tensor `root`; a node comes after its inputs in `nodes`.

    `readers` maps a vertex to the indices of the nodes that read it.
    """

    def __init__(self, root: torch.Tensor, recording: Recording, inputs: Sequence[torch.Tensor] = ()) -> None:
        from .classify import Classifier

        top = edge_of(root)
        assert top is not None
        self.nodes: list[FlowNode] = []
        self.custom: list[str] = []
        self.recording = recording
        self._index: dict[AutogradNode, int] = {}
        self._classifier = Classifier(self, {id(tensor) for tensor in inputs})
        for node in _topological(top[0]):
            self._add(node)
        self.root: Vertex = (self._index[top[0]], top[1])
        self.readers: dict[Vertex, list[int]] = {}
        for index, flow_node in enumerate(self.nodes):
            for vertex in flow_node.inputs:
                if vertex is not None:
                    self.readers.setdefault(vertex, []).append(index)

    def node(self, vertex: Vertex) -> FlowNode:
        """Return the node (operation) that the vertex is an output of."""
        return self.nodes[vertex[0]]

    def shape(self, vertex: Vertex) -> tuple[int, ...]:
        """Return the shape of the tensor at a vertex (an output of an operation)."""
        return self.nodes[vertex[0]].shapes[vertex[1]]

    def dynamic(self, vertex: Vertex | None) -> bool:
        """Return True if the value of a vertex (an output of an operation) depends on the batch; False for None."""
        return vertex is not None and self.nodes[vertex[0]].dynamic

    def moving(self, node: FlowNode) -> list[Vertex]:
        """Return the inputs of a node that depend on the batch, as vertices."""
        return [vertex for vertex in node.inputs if vertex is not None and self.nodes[vertex[0]].dynamic]

    def static(self, node: FlowNode) -> list[Vertex]:
        """Return the inputs of a node that depend on parameters alone, as vertices."""
        return [vertex for vertex in node.inputs if vertex is not None and not self.nodes[vertex[0]].dynamic]

    def value(self, vertex: Vertex) -> torch.Tensor | None:
        """Return the detached value of a vertex (an output of an operation); None if no recorded operation read it."""
        node = self.nodes[vertex[0]]
        if node.value is not None:
            return node.value
        if node.parameter is not None:
            return node.parameter.detach()
        sight = self._sight(vertex)
        return None if sight is None else sight.value.detach()

    def address(self, vertex: Vertex) -> Address | None:
        """Return the (call, place) at which a second run reads the same vertex; None if no recorded call read it."""
        sight = self._sight(vertex)
        return None if sight is None else sight.address

    def edge(self, vertex: Vertex) -> Edge | None:
        """Return the vertex as autograd's (node, output number); None for a part of a fused operation."""
        origin = self.nodes[vertex[0]].origin
        return None if origin is None else (origin, vertex[1])

    def _sight(self, vertex: Vertex) -> Sight | None:
        edge = self.edge(vertex)
        return None if edge is None else self.recording.sights.get(edge)

    def behind(self, vertices: Iterable[Vertex]) -> Iterator[Vertex]:
        """Yield the vertices (outputs of operations) and all that they are computed from, parameters too, each once."""
        stack = list(vertices)
        seen = set(stack)
        while stack:
            vertex = stack.pop()
            yield vertex
            inputs = self.node(vertex).inputs
            fresh = dict.fromkeys(source for source in inputs if source is not None and source not in seen)
            seen.update(fresh)
            stack += fresh

    def upstream(self, vertex: Vertex) -> Iterator[tuple[Vertex, set[Vertex]]]:
        """Yield (vertex, frontier) for a vertex and all that it is computed from and that depend on the batch.

        A vertex is an output of an operation; the latest comes first. The frontier is the set of vertices that those
        yielded so far read and that are not yielded yet.
        """
        frontier, heap = {vertex}, [(-vertex[0], vertex)]
        while heap:
            _, latest = heapq.heappop(heap)
            frontier.discard(latest)
            for source in self.moving(self.node(latest)):
                if source not in frontier:
                    frontier.add(source)
                    heapq.heappush(heap, (-source[0], source))
            yield latest, frontier

    def parameters_of(self, vertex: Vertex) -> list[torch.Tensor]:
        """Return the parameters (tensors) that a vertex (an output of an operation) is computed from, each once."""
        found = [self.node(each).parameter for each in self.behind([vertex])]
        return list({id(parameter): parameter for parameter in found if parameter is not None}.values())

    def insert(self, node: FlowNode) -> Vertex:
        """Append a node for a part of a fused operation, and return its vertex."""
        self.nodes.append(node)
        return (len(self.nodes) - 1, 0)

    def _add(self, origin: AutogradNode) -> None:
        inputs = tuple(None if edge is None else (self._index[edge[0]], edge[1]) for edge in _sources(origin))
        shapes = tuple(tuple(meta.shape) for meta in origin._input_metadata)
        dtype = origin._input_metadata[0].dtype if shapes else torch.float32
        name = type(origin).__name__
        if name not in ("AccumulateGrad", "CopySlices"):
            name = _SUFFIX.sub("", name)
        node = FlowNode(name, "other", inputs, shapes, dtype, call=self._call(origin, name), origin=origin)
        if isinstance(origin, torch.autograd.function.BackwardCFunction):
            # A custom function may do anything; its name, the user's, says nothing of it.
            node.name = CUSTOM
            self.custom.append(name)
        self._classifier.classify(node)
        self._index[origin] = len(self.nodes)
        self.nodes.append(node)

    def _call(self, origin: AutogradNode, name: str) -> Call | None:
        """Return the recorded operation that made a node, found by autograd's sequence number and its inputs.

        None where no recorded operation fits.
        """
        number = origin._sequence_nr()
        above = {edge for edge in _sources(origin) if edge is not None}
        if name == "CopySlices":
            call = self.recording.slices.get(number)
            return call if call is not None and call.view_base in above else None
        call = self.recording.calls.get(number)
        if call is None:
            return None
        # Some nodes come without an operation; the next operation must not pass for theirs.
        same = not call.arguments or call.name.replace("_", "") == name.lower()
        return call if same and above.issuperset(call.edges) else None


def _topological(root: AutogradNode) -> Iterator[AutogradNode]:
    seen: set[AutogradNode] = set()
    stack: list[tuple[AutogradNode, bool]] = [(root, False)]
    while stack:
        node, done = stack.pop()
        if done:
            yield node
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack += [(edge[0], False) for edge in _sources(node) if edge is not None and edge[0] not in seen]


def _sources(node: AutogradNode) -> list[Edge | None]:
    """Return the inputs of a node in argument order, None for constants."""
    return [looked_through(source, number) for source, number in node.next_functions]
