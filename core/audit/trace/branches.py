"""The branches of an addition: the output of each, its writers and its readers.

Writers are the matrices on whose output the contribution depends linearly. Readers are the first matrices that the
state before the addition is multiplied by. Both are found in the recorded dataflow, without names. A leaf is the vertex
(output of an operation) at which a contribution enters the addition.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import takewhile

import torch

from .chain import Chain
from .flow import Factor, Flow, FlowNode, Vertex
from .operations import ATTENTION, FUSED_ADDITIONS, NONLINEAR, SOFTMAX
from .recorder import tensors_of
from .spine import Addition, Term


@dataclass(frozen=True)
class MatrixUse:
    """One product with a `matrix` that is computed from `parameters`, at index `node` of `Flow.nodes`.

    `call` is the number of the recorded operation, -1 if there is none. `operand` is (that number, place of the matrix
    among its tensor arguments). For a lookup in a table, such as an embedding, `matrix`, `operand` and `fan_in` are
    None.
    """

    node: int
    call: int
    parameters: tuple[torch.Tensor, ...]
    fan_in: int | None
    fan_out: int
    operand: tuple[int, int] | None = None
    matrix: torch.Tensor | None = None


@dataclass
class Branch:
    """One contribution to an addition, computed from the state `source`.

    Going back from the sum, `factors` stand between the sum and `leaf`, and `inner` between `leaf` and the branch's
    output `raw`; `deep` is `raw` before views of it.

    - `norm_out`: a norm stands between `raw` and `leaf`.
    - `additive` are the parameters that the branch adds (biases), `gains` the vectors that scale what it reads.
    - `gates` are the matrices that make a factor of the branch from something else than its state, such as a condition.
    - `passes`: a part of the stream reaches the sum through the branch without a matrix.
    """

    leaf: Vertex
    factors: list[Factor]
    source: Vertex
    raw: Vertex
    deep: Vertex
    inner: list[Factor] = field(default_factory=list)
    norm_out: bool = False
    writers: list[MatrixUse] = field(default_factory=list)
    readers: list[MatrixUse] = field(default_factory=list)
    additive: list[torch.Tensor] = field(default_factory=list)
    additive_operands: list[tuple[int, int]] = field(default_factory=list)
    gains: list[Vertex] = field(default_factory=list)
    gates: list[MatrixUse] = field(default_factory=list)
    passes: bool = False
    softmax: bool = False


# Returns a branch's kind; parts of a sum are separate branches where their kinds differ.
KindOf = Callable[[Branch], str]


def branches_of(chain: Chain, addition: Addition, kind_of: KindOf) -> list[Branch]:
    """Return the branches of an addition in the order they were computed.

    A sum of parts of several kinds is split; `kind_of` tells the kind of a branch.
    """
    found = [branch for term in addition.terms for branch in _split(chain, addition, term, kind_of)]
    return sorted(found, key=lambda branch: max((use.call for use in branch.writers), default=-1))


def _split(chain: Chain, addition: Addition, term: Term, kind_of: KindOf) -> list[Branch]:
    whole = _branch(chain, addition, term)
    node = chain.flow.node(whole.deep)
    moving = [inner for inner in node.terms if chain.flow.dynamic(inner.vertex)]
    if whole.norm_out or node.kind != "sum" or whole.deep[0] in chain.found or not 1 < len(moving) == len(node.terms):
        return [whole]
    path = [*term.factors, *whole.inner]
    parts = [
        branch
        for inner in moving
        for branch in _split(chain, addition, Term(inner.vertex, [*path, inner.factor]), kind_of)
    ]
    return parts if len({kind_of(part) for part in parts}) > 1 else [whole]


def _branch(chain: Chain, addition: Addition, term: Term) -> Branch:
    assert term.leaf is not None
    flow = chain.flow
    branch = Branch(term.leaf, term.factors, chain.state_read(term.leaf), term.leaf, term.leaf)
    vertex = term.leaf
    while vertex not in chain.states and vertex[0] not in chain.found:
        branch.deep = vertex
        step = chain.step(vertex)
        if step is None or step.kind in ("pointwise", "cast") or step.source in chain.states:
            break
        vertex = step.source
        if step.kind == "view":
            continue
        branch.norm_out |= step.kind == "norm"
        branch.raw = vertex
        if step.kind == "scale":
            branch.inner.append(step.factor)
    own = reached_from(flow, branch.source, branch.leaf)
    _Writers(flow, chain.states, branch, own).walk()
    _read(flow, branch, own)
    return branch


class _Writers:
    """Walks back from a leaf to the first matrices on every path.

    `linear` is False past an operation that is not linear. `own` are the vertices computed from the branch's state.
    """

    def __init__(self, flow: Flow, states: frozenset[Vertex], branch: Branch, own: set[Vertex]) -> None:
        self.flow, self.states, self.branch, self.own = flow, states, branch, own
        self._found: list[tuple[MatrixUse, bool]] = []
        self._seen: set[tuple[Vertex, bool]] = set()
        self._stack: list[tuple[Vertex, bool]] = []

    def walk(self) -> None:
        self._push(self.branch.leaf, True)
        while self._stack:
            vertex, linear = self._stack.pop()
            self._visit(vertex, self.flow.node(vertex), linear)
        direct = [use for use, linear in self._found if linear]
        self.branch.writers = sorted(direct or (use for use, _ in self._found), key=lambda use: use.call)

    def _push(self, vertex: Vertex | None, linear: bool) -> None:
        if vertex is None or not self.flow.dynamic(vertex):
            return
        if vertex in self.states:
            self.branch.passes |= linear
            return
        if (vertex, True) not in self._seen and (vertex, linear) not in self._seen:
            self._seen.add((vertex, linear))
            self._stack.append((vertex, linear))

    def _visit(self, vertex: Vertex, node: FlowNode, linear: bool) -> None:
        use = matrix_use(self.flow, vertex[0])
        if use is not None:
            self._found.append((use, linear))
            if node.name in FUSED_ADDITIONS:
                self._add(node.inputs[0], (node.call.index, 0) if node.call else None)
            elif node.name == "Convolution" and len(node.inputs) > 2:
                self._add(node.inputs[2], (node.call.index, 2) if node.call else None)
            return
        added = node.inputs if node.kind == "sum" else node.inputs[2:] if node.kind == "norm" else ()
        for source in added:
            self._add(source, None)
        if node.kind == "norm":
            self._push(node.inputs[0], linear)
            return
        gated = node.kind == "product" and any(source in self.own for source in node.inputs)
        for place, source in enumerate(node.inputs):
            if gated and source is not None and source not in self.own and self.flow.dynamic(source):
                self.branch.gates += _first_matrices(self.flow, source)
                continue
            self._push(source, linear and linear_in(node, place))

    def _add(self, vertex: Vertex | None, operand: tuple[int, int] | None) -> None:
        if vertex is None or self.flow.dynamic(vertex):
            return
        self.branch.additive += self.flow.parameters_of(vertex)
        if operand is not None:
            self.branch.additive_operands.append(operand)


def _first_matrices(flow: Flow, vertex: Vertex) -> list[MatrixUse]:
    """Return the uses of parameters as a matrix that are met first on the ways back from a vertex."""
    found, seen, stack = [], {vertex}, [vertex]
    while stack:
        latest = stack.pop()
        use = matrix_use(flow, latest[0])
        if use is not None:
            found.append(use)
            continue
        fresh = [source for source in flow.moving(flow.node(latest)) if source not in seen]
        seen.update(fresh)
        stack += fresh
    return sorted(found, key=lambda use: use.call)


def linear_in(node: FlowNode, place: int) -> bool:
    """Return True if an operation is linear in its input number `place` while its other inputs are constant."""
    if node.name.startswith(ATTENTION):
        return place == 2
    if node.kind == "other":
        return node.name not in NONLINEAR
    return node.kind in ("view", "scale", "product", "matrix", "source", "sum") or node.name in ("Sum", "Mean")


def matrix_use(flow: Flow, index: int) -> MatrixUse | None:
    """Return how the operation at index `index` uses parameters, as a matrix or as a table of rows.

    None if it does not.
    """
    node = flow.nodes[index]
    if node.kind == "source" and node.parameter is None:
        number = -1 if node.call is None else node.call.index
        sources = [vertex for vertex in node.inputs if vertex is not None]
        parameters = [parameter for vertex in sources for parameter in flow.parameters_of(vertex)]
        return MatrixUse(index, number, tuple(parameters), None, node.shapes[0][-1]) if parameters else None
    if node.kind != "matrix" or node.operand is None or node.call is None:
        return None
    static = flow.static(node)
    place = node.operand[1]
    tensors = list(tensors_of(node.call.arguments, node.call.keywords))
    matrix = tensors[place]
    # A bias is the first argument of addmm; the matrix is the static one among the factors.
    candidates = static[1:] if len(static) > 1 and node.name in FUSED_ADDITIONS else static[:1]
    parameters = flow.parameters_of(candidates[0]) if candidates else []
    fan_in, fan_out = fans_of(node, tuple(matrix.shape), place)
    return MatrixUse(index, node.call.index, tuple(parameters), fan_in, fan_out, node.operand, matrix.detach())


def fans_of(node: FlowNode, shape: tuple[int, ...], place: int) -> tuple[int, int]:
    """Return (fan_in, fan_out) of a matrix of this `shape`, which is tensor number `place` of a product's arguments."""
    if node.name == "Convolution":
        return math.prod(shape[1:]), shape[0]
    if len(shape) < 2:
        return shape[0], 1
    first_factor = 1 if node.name in FUSED_ADDITIONS else 0
    return (shape[-1], shape[-2]) if place == first_factor else (shape[-2], shape[-1])


def reached_from(flow: Flow, state: Vertex, leaf: Vertex) -> set[Vertex]:
    """Return the vertices (outputs of operations) between two: computed from `state`, and used to compute `leaf`.

    `state` is included.
    """
    between = takewhile(lambda vertex: vertex[0] > state[0], (vertex for vertex, _ in flow.upstream(leaf)))
    reached = {state}
    for vertex in sorted(between):
        if not reached.isdisjoint(flow.node(vertex).inputs):
            reached.add(vertex)
    return reached


def _read(flow: Flow, branch: Branch, own: set[Vertex]) -> None:
    """Set a branch's readers (the first matrices on every path from the state to the leaf) and the gains before."""
    names = {flow.node(vertex).name for vertex in own if vertex != branch.source}
    branch.softmax = any(name in SOFTMAX or name.startswith(ATTENTION) for name in names)
    reached = {branch.source}
    for index in sorted({vertex[0] for vertex in own if vertex != branch.source}):
        node = flow.nodes[index]
        if reached.isdisjoint(node.inputs):
            continue
        use = matrix_use(flow, index) if node.kind == "matrix" else None
        if use is not None:
            branch.readers.append(use)
            continue
        branch.gains += gains_of(flow, node)
        reached.update((index, number) for number in range(len(node.shapes)))
    branch.readers.sort(key=lambda use: use.call)


def gains_of(flow: Flow, node: FlowNode) -> list[Vertex]:
    """Return the vertices of the vectors that a norm or a scaling multiplies by and that do not depend on the batch."""
    candidates = node.inputs[1:2] if node.kind == "norm" else node.inputs if node.kind == "scale" else ()
    return [vertex for vertex in candidates if vertex is not None and not flow.dynamic(vertex)]
