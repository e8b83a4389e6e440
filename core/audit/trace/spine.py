"""One sum read as a residual addition: the walk back along one of its terms to the state that the others read."""

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
    """One step back along a stream to what a vertex was made of.

    `kind` is view, cast (to a coarser type), scale, norm, pointwise, or mix where the batch decides how much passes.
    """

    source: Vertex
    kind: str
    factor: Factor = 1.0


StepOf: TypeAlias = Callable[[Vertex], Step | None]


@dataclass
class Term:
    """A leaf of an addition, or a constant; `factors` lead from it to the sum."""

    leaf: Vertex | None
    factors: list[Factor] = field(default_factory=list)
    constant: torch.Tensor | None = None


@dataclass
class Addition:
    """sum = shortcut + carried + terms, read back to the `state` before it; `after` leads on to the state behind it.

    `shortcut` is what the state became on its way, `state_factors` lead from the state itself to the sum and `kinds`
    name the steps between. `carried` are terms that earlier states bring without a matrix.
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
        """Of several readings of one sum: the longest chain, then the plainest shortcut, then the latest state."""
        return (self.length, "norm" not in self.kinds, self.state[0])


class Spine:
    """The walk from one sum; `found` are the additions that end before it, `step` takes one step back."""

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
        """The addition, None where this term leads to no state."""
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
        """Go on along one term of a sum; the others are what the stream gains."""
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
        """Pass an inner sum that nothing else reads: its other terms belong to this addition too."""
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
        """A product of the stream with something the batch decides: gates, and mixtures of several streams."""
        if node.kind not in ("product", "matrix") or node.operand is not None:
            return None
        for source in self.flow.moving(node):
            way = walk_back(self.step, source, LINEAR)
            if any(vertex[0] in self.found or self.readers.reads(vertex) for vertex in way):
                return Step(source, MIX)
        return None

    def _reaches(self, vertex: Vertex) -> int | None:
        """The earlier addition that a vertex is the outcome of, None where there is none."""
        return next((earlier[0] for earlier in walk_back(self.step, vertex) if earlier[0] in self.found), None)


def walk_back(step_of: StepOf, vertex: Vertex, kinds: Collection[str] | None = None) -> Iterator[Vertex]:
    """A vertex and what it was made of, one step after the other, through steps of these kinds alone."""
    yield vertex
    while (step := step_of(vertex)) is not None and (kinds is None or step.kind in kinds):
        vertex = step.source
        yield vertex


def without_ones(factors: list[Factor]) -> list[Factor]:
    """Factors that do something."""
    return [factor for factor in factors if isinstance(factor, torch.Tensor) or factor != 1.0]


class _Readers:
    """Answers whether a watched leaf is computed from a vertex, by more than scaling it."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._heap: list[tuple[int, Vertex]] = []
        self._through: dict[Vertex, int] = {}

    def watch(self, leaf: Vertex) -> None:
        if leaf not in self._through:
            self._through[leaf] = 0
            heapq.heappush(self._heap, (-leaf[0], leaf))

    def reads(self, vertex: Vertex) -> bool:
        """Whether `vertex` is read on the way to a watched leaf; asked in descending order."""
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
