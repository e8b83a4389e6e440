"""Reads one sum as a residual addition: walks back along one of its terms to the state that the other terms read.

A vertex is an output of an operation in the recorded flow. The state is the vertex of the stream before the addition;
the term that comes from it is the shortcut.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import torch

from .flow import Factor, Flow, FlowNode, Vertex

MIX = "mix"
VIEWLIKE = frozenset({"view", "cast"})
LINEAR = VIEWLIKE | {"scale"}


@dataclass(frozen=True)
class Step:
    """One step back along a stream, from a vertex to the vertex `source` that it was computed from.

    `kind` is view, cast (to a coarser type), scale (by `factor`), norm, pointwise, or mix: a product with something
    that depends on the batch.
    """

    source: Vertex
    kind: str
    factor: Factor = 1.0


StepOf: TypeAlias = Callable[[Vertex], Step | None]


@dataclass
class Term:
    """A term of an addition: a vertex `leaf` or a constant, times all `factors`."""

    leaf: Vertex | None
    factors: list[Factor] = field(default_factory=list)
    constant: torch.Tensor | None = None


@dataclass
class Addition:
    """One residual addition: sum = shortcut + carried + terms.

    `state` is the state before it, and the steps `after` lead from the sum to `next_state`. `shortcut` is the term that
    comes from the state, `state_factors` are all factors between state and sum, and `kinds` are those of the steps
    between. `carried` are terms that earlier states add without a matrix; `terms` are the contributions of branches.
    `previous` is the node index of the addition before, None for the first, and `length` the number of additions up to
    this one.
    """

    sum: Vertex
    state: Vertex
    shortcut: Term
    state_factors: list[Factor]
    kinds: list[str]
    terms: list[Term]
    previous: int | None
    length: int
    carried: list[Term] = field(default_factory=list)
    after: list[Step] = field(default_factory=list)
    next_state: Vertex = (-1, 0)

    @property
    def rank(self) -> tuple[int, bool, int]:
        """The sort key to choose between readings of one sum, the largest first.

        It prefers the longest chain, then a shortcut without a norm, then the latest state.
        """
        return (self.length, "norm" not in self.kinds, self.state[0])


class Spine:
    """The walk back from one sum along its term number `place`, until a state of the stream is found.

    `found` are the additions before it by node index; `step` takes one step back.
    """

    def __init__(
        self,
        flow: Flow,
        found: Mapping[int, Addition],
        step: StepOf,
        index: int,
        place: int,
    ) -> None:
        self.flow, self.found, self.step, self.index = flow, found, step, index
        self.terms: list[Term] = []
        self.kinds: list[str] = []
        self.factors: list[Factor] = []
        self.readers = _Readers(flow)
        self.plain: list[set[Vertex]] = []
        self.vertex = self._split(index, place)

    def walk(self) -> Addition | None:
        """Return the `Addition`; None if this term does not lead to a state of a stream."""
        while True:
            if self.plain and all(self.vertex in path for path in self.plain):
                # Shares of one tensor are that tensor scaled, not an addition.
                return None
            if self.readers.reads(self.vertex):
                return self._addition(self.vertex)
            shared = len(self.flow.readers.get(self.vertex, ())) > 1
            if self.vertex[0] in self.found:
                if shared:
                    return self._addition(self.vertex)
                self._through(self.vertex[0])
                continue
            node = self.flow.node(self.vertex)
            if node.kind == "sum" and self._constant_sum(node):
                continue
            step = self.step(self.vertex) or self._mixed(node)
            if step is None:
                return None
            if shared and self._reaches(self.vertex) is not None:
                return self._addition(self.vertex)
            self.kinds.append(step.kind)
            if step.kind == "scale":
                self.factors.append(step.factor)
            self.vertex = step.source

    def _addition(self, state: Vertex) -> Addition:
        previous = self._reaches(state)
        length = 1 + (self.found[previous].length if previous is not None else 0)
        return Addition((self.index, 0), state, self.shortcut, self.factors, self.kinds, self.terms, previous, length)

    def _split(self, index: int, place: int) -> Vertex:
        """Follow one term of a sum, keep the others as terms of the addition, and return the followed vertex."""
        terms = self.flow.nodes[index].terms
        gained = [
            Term(term.vertex, without_ones([*self.factors, term.factor]), term.constant)
            for other, term in enumerate(terms)
            if other != place
        ]
        self.terms += gained
        for term in gained:
            if term.leaf is not None and self.flow.dynamic(term.leaf):
                self.readers.watch(term.leaf)
                self.plain.append(set(walk_back(self.step, term.leaf, LINEAR)))
        spine = terms[place].vertex
        assert spine is not None
        self.factors = without_ones([*self.factors, terms[place].factor])
        self.shortcut = Term(spine, list(self.factors))
        return spine

    def _through(self, index: int) -> None:
        """Pass an inner sum that nothing else reads: its other terms become terms of this addition."""
        leaves = {term.leaf for term in self.found[index].terms}
        terms = self.flow.nodes[index].terms
        # The inner sum's own shortcut is the one of its terms that is no contribution.
        self.vertex = self._split(index, next(i for i, t in enumerate(terms) if t.vertex and t.vertex not in leaves))

    def _constant_sum(self, node: FlowNode) -> bool:
        moving = [place for place, term in enumerate(node.terms) if self.flow.dynamic(term.vertex)]
        spine = node.terms[moving[0]].vertex if len(moving) == 1 else None
        if spine is None or self._reaches(spine) is None:
            return False
        self.vertex = self._split(self.vertex[0], moving[0])
        return True

    def _mixed(self, node: FlowNode) -> Step | None:
        """Return the step through a product of the stream with a value that depends on the batch, such as a gate.

        None where the node is no such product.
        """
        if node.kind not in ("product", "matrix") or node.operand is not None:
            return None
        for source in self.flow.moving(node):
            way = walk_back(self.step, source, LINEAR)
            if any(vertex[0] in self.found or self.readers.reads(vertex) for vertex in way):
                return Step(source, MIX)
        return None

    def _reaches(self, vertex: Vertex) -> int | None:
        """Return the node index of the earlier addition that `vertex` results from; None where there is none."""
        return next((earlier[0] for earlier in walk_back(self.step, vertex) if earlier[0] in self.found), None)


def walk_back(step_of: StepOf, vertex: Vertex, kinds: Collection[str] | None = None) -> Iterator[Vertex]:
    """Yield a vertex (an output of an operation), then step by step those that it was computed from.

    It ends before a step whose kind is not in `kinds`, if these are given.
    """
    yield vertex
    while (step := step_of(vertex)) is not None and (kinds is None or step.kind in kinds):
        vertex = step.source
        yield vertex


def without_ones(factors: list[Factor]) -> list[Factor]:
    """Return the list of factors without those that are the number 1."""
    return [factor for factor in factors if isinstance(factor, torch.Tensor) or factor != 1.0]


class _Readers:
    """Finds whether a watched leaf reads a vertex through parameters or by mixing positions, not just by scaling."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._heap: list[tuple[int, Vertex]] = []
        self._through: dict[Vertex, int] = {}

    def watch(self, leaf: Vertex) -> None:
        if leaf not in self._through:
            self._through[leaf] = 0
            heapq.heappush(self._heap, (-leaf[0], leaf))

    def reads(self, vertex: Vertex) -> bool:
        """Return whether a watched leaf reads `vertex`; vertices must be asked for in descending order."""
        flow = self._flow
        while self._heap and -self._heap[0][0] > vertex[0]:
            _, top = heapq.heappop(self._heap)
            node = flow.node(top)
            met = self._through[top] | _met(node, bool(flow.static(node)))
            for source in flow.moving(node):
                if source not in self._through:
                    heapq.heappush(self._heap, (-source[0], source))
                self._through[source] = self._through.get(source, 0) | met
        met = self._through.get(vertex, 0)
        return met & READ == READ or met & MIXES == MIXES


# What stands between a vertex and a leaf: a parameter, something beyond scaling and norms, a mixing of positions.
PARAMETER, TRANSFORM, MIXES = 1, 2, 4
READ = PARAMETER | TRANSFORM
PLAIN = frozenset({"view", "scale", "norm", "sum"})


def _met(node: FlowNode, static: bool) -> int:
    mixes = node.kind == "other" or (node.kind == "matrix" and node.operand is None)
    return PARAMETER * static | TRANSFORM * (node.kind not in PLAIN) | MIXES * mixes
