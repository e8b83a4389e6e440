"""Find the chain of residual additions in a flow, without the name of any module or parameter.

A vertex is an output of a node of the flow. An addition is a sum of which one term, the shortcut, goes back to an
earlier vertex through views, casts, scalings and norms alone, while another term reads that same vertex through
parameters. That vertex is the state before the addition. The chain starts at the last such sum that all later values
depend on, and is followed back to the first.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch

from .flow import Flow, FlowNode, Vertex
from .spine import LINEAR, VIEWLIKE, Addition, Spine, Step, Term, walk_back, without_ones

ALLOWED_IN_NORM = frozenset({"view", "scale", "norm", "pointwise", "product", "reduce", "sum"})


class Chain:
    """The residual additions of a recorded dataflow.

    `additions` is the residual stream in forward order, empty if none was found. `found` has all sums that were read as
    additions, by node index, and `states` the vertices of all states of the stream.
    """

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self._steps: dict[Vertex, Step | None] = {}
        self.found: dict[int, Addition] = {}
        for index, node in enumerate(flow.nodes):
            if node.kind == "sum":
                addition = self._addition(index, node)
                if addition is not None:
                    self.found[index] = addition
        self.additions = self._follow()
        ends = {vertex for addition in self.additions for vertex in (addition.state, addition.sum, addition.next_state)}
        self.states = frozenset(ends)
        self._carry()

    @property
    def base(self) -> Vertex:
        """The vertex (node index, output number) of the first state of the stream."""
        return self.additions[0].state

    def step(self, vertex: Vertex) -> Step | None:
        """Return one step back from `vertex` through an operation that neither mixes positions nor has a matrix.

        None if the operation is another one, or if nothing before it depends on the batch.
        """
        if vertex not in self._steps:
            self._steps[vertex] = self._one_step(vertex)
        return self._steps[vertex]

    def state_read(self, leaf: Vertex) -> Vertex:
        """Return the latest state that `leaf` is computed from."""
        read = (vertex for vertex, _ in self.flow.upstream(leaf) if vertex in self.states and vertex != leaf)
        return next(read, self.base)

    def _one_step(self, vertex: Vertex) -> Step | None:
        node = self.flow.node(vertex)
        moving = self.flow.moving(node)
        if not moving or node.kind in ("matrix", "other", "source", "parameter"):
            return None
        if node.kind in ("view", "scale") and len(moving) == 1:
            coarser = torch.finfo(node.dtype).eps > torch.finfo(self.flow.node(moving[0]).dtype).eps
            return Step(moving[0], "cast" if coarser else node.kind, node.factor)
        if node.kind == "norm":
            return Step(moving[0], "norm")
        return self._region(vertex)

    def _region(self, vertex: Vertex) -> Step | None:
        """Return the step over a norm, or over a function of each feature, that consists of several operations.

        They have one output and one dynamic input, of the same size. None where there are no such operations.
        """
        reduced = False
        for inside, frontier in self.flow.upstream(vertex):
            node = self.flow.node(inside)
            if inside[0] in self.found or node.kind not in ALLOWED_IN_NORM:
                return None
            reduced |= node.kind in ("reduce", "norm")
            if len(frontier) == 1 and math.prod(self.flow.shape(*frontier)) == math.prod(self.flow.shape(vertex)):
                return Step(next(iter(frontier)), "norm" if reduced else "pointwise")
        return None

    def _addition(self, index: int, node: FlowNode) -> Addition | None:
        places = [place for place, term in enumerate(node.terms) if self.flow.dynamic(term.vertex)]
        read = [Spine(self.flow, self.found, self.step, index, place).walk() for place in places]
        return max((one for one in read if one is not None), key=lambda one: one.rank, default=None)

    def _follow(self) -> list[Addition]:
        last = self._terminal()
        additions: list[Addition] = []
        while last is not None:
            addition = self.found[last]
            additions.append(addition)
            last = addition.previous
        additions.reverse()
        for earlier, later in pairwise(additions):
            earlier.next_state = later.state
            earlier.after = self._steps_between(later.state, earlier.sum)
        if additions:
            self._close(additions)
        return additions

    def _close(self, additions: list[Addition]) -> None:
        """Find the state after the last addition: it follows by the same steps (such as a norm) as after the others."""
        final = additions[-1]
        final.next_state = final.sum
        usual = [step.kind for step in additions[-2].after if step.kind not in VIEWLIKE] if len(additions) > 1 else []
        if not usual:
            return
        for vertex in self.cuts:
            steps = self._steps_between(vertex, final.sum)
            if steps and [step.kind for step in steps if step.kind not in VIEWLIKE] == usual:
                final.next_state, final.after = vertex, steps

    def _steps_between(self, start: Vertex, end: Vertex) -> list[Step]:
        steps: list[Step] = []
        vertex = start
        while vertex != end:
            step = self.step(vertex)
            if step is None or step.source[0] < end[0]:
                return []
            steps.append(step)
            vertex = step.source
        return steps

    def _terminal(self) -> int | None:
        """Return the last addition that all later values depend on, else the last of the longest chain.

        None where there are no additions.
        """
        flow = self.flow
        # Vertices that every path from the batch to the root passes, last first.
        self.cuts = [flow.root, *(v for _, ahead in flow.upstream(flow.root) if len(ahead) == 1 for v in ahead)]
        last = next((vertex[0] for vertex in self.cuts if vertex[0] in self.found), None)
        if last is None:
            last = max(self.found, key=lambda index: (self.found[index].length, index), default=None)
        return last

    def _carry(self) -> None:
        """Move from `terms` to `carried` what earlier states add without a matrix (a multiple of a state, a skip)."""
        if not self.additions:
            return
        earlier = {vertex for vertex, _ in self.flow.upstream(self.base)} | self.states
        for addition in self.additions:
            terms, addition.terms = addition.terms, []
            for term in terms:
                self._sort(addition, term, earlier)

    def _sort(self, addition: Addition, term: Term, earlier: set[Vertex]) -> None:
        if not self.flow.dynamic(term.leaf):
            # Constants and vectors of parameters: the stream is moved by them, but no branch writes them.
            addition.carried.append(term)
            return
        vertex: Vertex | None = term.leaf
        factors = list(term.factors)
        while vertex is not None:
            if vertex in earlier:
                # A multiple of the state itself counts in its coefficient.
                addition.carried.append(Term(vertex, factors) if vertex == addition.state else term)
                return
            node = self.flow.node(vertex)
            if node.kind == "sum" and any(self._brings(inner.vertex, earlier) for inner in node.terms):
                for inner in node.terms:
                    part = Term(inner.vertex, without_ones([*factors, inner.factor]), inner.constant)
                    self._sort(addition, part, earlier)
                return
            step = self.step(vertex)
            if step is None or step.kind == "pointwise":
                break
            if step.kind == "norm":
                if self._brings(step.source, earlier):
                    addition.carried.append(term)
                    return
                break
            if step.kind == "scale":
                factors.append(step.factor)
            vertex = step.source
        addition.terms.append(term)

    def _brings(self, vertex: Vertex | None, earlier: set[Vertex]) -> bool:
        return vertex is not None and any(each in earlier for each in walk_back(self.step, vertex, LINEAR))
