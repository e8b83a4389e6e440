"""What stands behind a contribution: its own output, the matrices that write it and those that read the stream.

Writers are the matrices on whose output the contribution depends linearly; readers are the first matrices that the
state before the addition meets. Both are found by walking the flow, and fans are those of the product as computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from .chain import Chain
from .flow import Factor, Flow, FlowNode, Vertex
from .operations import ATTENTION, FUSED_ADDITIONS, NONLINEAR, SOFTMAX
from .recorder import tensors_of
from .spine import Addition, Term


@dataclass(frozen=True)
class MatrixUse:
    """A product with a matrix made of `parameters`; `operand` is the address of that matrix in the run."""

    node: int
    call: int
    parameters: tuple[torch.Tensor, ...]
    fan_in: int | None
    fan_out: int | None
    operand: tuple[int, int] | None
    linear: bool = True


@dataclass
class Branch:
    """One contribution, read from the state `source`.

    `factors` lead from the leaf to the sum, `inner` from `raw` to the leaf.

    `deep` is `raw` before views of it. `norm_out` tells that a norm stands between raw and leaf. `additive` are the
    parameters that the branch adds by itself (biases), `gains` the vectors that scale what it reads. `passes` tells
    that some of the stream reaches the sum through the branch without a matrix.
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
    passes: bool = False
    softmax: bool = False


# Tells a branch's kind; parts of a sum are separate branches where their kinds differ.
KindOf = Callable[[Branch], str]


def branches_of(chain: Chain, addition: Addition, kind_of: KindOf) -> list[Branch]:
    """The branches of one addition in the order they were computed; a sum of parts of several kinds is taken apart."""
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
    _Writers(flow, chain.states, branch).walk()
    _read(flow, branch)
    return branch


class _Writers:
    """Walks back from a leaf to the first matrices; `linear` is lost at anything that is not linear."""

    def __init__(self, flow: Flow, states: frozenset[Vertex], branch: Branch) -> None:
        self.flow, self.states, self.branch = flow, states, branch
        self._found: list[MatrixUse] = []
        self._seen: set[tuple[Vertex, bool]] = set()
        self._stack: list[tuple[Vertex, bool]] = []

    def walk(self) -> None:
        self._push(self.branch.leaf, True)
        while self._stack:
            vertex, linear = self._stack.pop()
            self._visit(vertex, self.flow.node(vertex), linear)
        linear_uses = {use.node for use in self._found if use.linear}
        chosen = [use for use in self._found if use.linear]
        chosen = chosen or [use for use in self._found if use.node not in linear_uses]
        self.branch.writers = sorted(chosen, key=lambda use: use.call)

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
        use = matrix_use(self.flow, vertex[0], linear)
        if use is not None:
            self._found.append(use)
            if node.name in FUSED_ADDITIONS:
                self._add(node.inputs[0], (node.call.index, 0) if node.call else None)
            elif node.name == "Convolution" and len(node.inputs) > 2:
                self._add(node.inputs[2], (node.call.index, 2) if node.call else None)
            return
        if node.kind == "sum":
            for term in node.terms:
                self._push(term.vertex, linear)
                self._add(term.vertex, None)
        elif node.kind == "norm":
            self._push(node.inputs[0], linear)
            for source in node.inputs[2:]:
                self._add(source, None)
        elif node.name.startswith(ATTENTION):
            for place, source in enumerate(node.inputs):
                self._push(source, linear and place == 2)
        else:
            keeps = node.kind in ("view", "scale", "product", "matrix", "source") or (
                node.kind == "reduce" and node.name in ("Sum", "Mean")
            )
            keeps |= node.kind == "other" and node.name not in NONLINEAR
            for source in node.inputs:
                self._push(source, linear and keeps)

    def _add(self, vertex: Vertex | None, operand: tuple[int, int] | None) -> None:
        if vertex is None or self.flow.dynamic(vertex):
            return
        self.branch.additive += self.flow.parameters_of(vertex)
        if operand is not None:
            self.branch.additive_operands.append(operand)


def matrix_use(flow: Flow, index: int, linear: bool = True) -> MatrixUse | None:
    """The use of a parameter as a matrix or as a table of rows at one node, None where the node is neither."""
    node = flow.nodes[index]
    if node.kind == "source" and node.parameter is None:
        number = -1 if node.call is None else node.call.index
        sources = [vertex for vertex in node.inputs if vertex is not None]
        parameters = [parameter for vertex in sources for parameter in flow.parameters_of(vertex)]
        return (
            MatrixUse(index, number, tuple(parameters), None, node.shapes[0][-1], None, linear) if parameters else None
        )
    if node.kind != "matrix" or node.operand is None or node.call is None:
        return None
    static = flow.static(node)
    place = node.operand[1]
    tensors = list(tensors_of(node.call.arguments, node.call.keywords))
    matrix = tensors[place]
    # A bias is the first argument of addmm; the matrix is the static one among the factors.
    candidates = static[1:] if len(static) > 1 and node.name in FUSED_ADDITIONS else static[:1]
    parameters = flow.parameters_of(candidates[0]) if candidates else []
    fan_in, fan_out = _fans(node, matrix, place)
    return MatrixUse(index, node.call.index, tuple(parameters), fan_in, fan_out, node.operand, linear)


def _fans(node: FlowNode, matrix: torch.Tensor, place: int) -> tuple[int | None, int | None]:
    shape = tuple(matrix.shape)
    if node.name == "Convolution":
        kernel = 1
        for size in shape[2:]:
            kernel *= size
        return shape[1] * kernel, shape[0]
    if len(shape) < 2:
        return shape[0], 1
    first_factor = 1 if node.name in FUSED_ADDITIONS else 0
    return (shape[-1], shape[-2]) if place == first_factor else (shape[-2], shape[-1])


def _read(flow: Flow, branch: Branch) -> None:
    """The first matrices after the state, on every way to the leaf, and the vectors that scale it before them."""
    state = branch.source
    above, stack = {branch.leaf}, [branch.leaf]
    while stack:
        vertex = stack.pop()
        for source in flow.node(vertex).inputs:
            if source is not None and source[0] > state[0] and source not in above and flow.dynamic(source):
                above.add(source)
                stack.append(source)
    inside = {vertex[0] for vertex in above}
    branch.softmax = any(
        flow.nodes[index].name in SOFTMAX or flow.nodes[index].name.startswith(ATTENTION) for index in inside
    )
    seen: set[int] = set()
    queue = [reader for reader in flow.readers.get(state, ()) if reader in inside]
    while queue:
        index = queue.pop()
        if index in seen:
            continue
        seen.add(index)
        use = matrix_use(flow, index)
        if use is not None and flow.nodes[index].kind == "matrix":
            branch.readers.append(use)
            continue
        branch.gains += _gains(flow, flow.nodes[index])
        for number in range(len(flow.nodes[index].shapes)):
            queue += [reader for reader in flow.readers.get((index, number), ()) if reader in inside]
    branch.readers.sort(key=lambda use: use.call)


def _gains(flow: Flow, node: FlowNode) -> list[Vertex]:
    if node.kind == "norm":
        candidates = node.inputs[1:2]
    elif node.kind == "scale":
        candidates = node.inputs
    else:
        return []
    return [vertex for vertex in candidates if vertex is not None and not flow.dynamic(vertex)]
