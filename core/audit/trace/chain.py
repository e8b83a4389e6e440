"""Find the chain of residual additions in a flow, without the name of any module or parameter.

A vertex is an output of a node of the flow. An addition is a sum of which one term, the shortcut, goes back to an
earlier vertex through views, casts, scalings and norms alone, while another term reads that same vertex through
parameters. That vertex is the state before the addition. The chain starts at the last such sum that all later values
depend on, and is followed back to the first. Chains beside it (an encoder, another tower, a stage of another width) are
streams of their own.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch

from .flow import Flow, FlowNode, Vertex
from .spine import LINEAR, VIEWLIKE, Addition, Spine, Step, Term, walk_back, without_ones

ALLOWED_IN_NORM = frozenset({"view", "scale", "norm", "pointwise", "product", "reduce", "sum"})


class Chain:
    """One residual stream of a flow. `additions` holds it in forward order, empty where none was found.

    `found` are all additions of the flow by node index. The chain `beside` another ends in the addition `last`.
    """

    def __init__(self, flow: Flow, beside: Chain | None = None, last: int | None = None) -> None:
        self.flow = flow
        self.main = beside is None
        self._steps: dict[Vertex, Step | None] = {} if beside is None else beside._steps
        self.found: dict[int, Addition] = {} if beside is None else beside.found
        # Vertices that every path from the batch to the root passes, last first.
        self.cuts: list[Vertex] = [] if beside is None else beside.cuts
        self._taken: set[int] = set() if beside is None else beside._taken
        if beside is None:
            self._find()
            last = self._terminal()
        self.additions = self._follow(last)
        ends = {vertex for addition in self.additions for vertex in (addition.state, addition.sum, addition.next_state)}
        self.states = frozenset(ends)
        self._carry()

    def _find(self) -> None:
        flow = self.flow
        self.cuts = [flow.root, *(v for _, ahead in flow.upstream(flow.root) if len(ahead) == 1 for v in ahead)]
        for index, node in enumerate(flow.nodes):
            if node.kind == "sum":
                addition = self._addition(index, node)
                if addition is not None and not all(self._statistic(term, addition) for term in addition.terms):
                    self.found[index] = addition

    def beside(self) -> list[Chain]:
        """Return the other streams in forward order, longest first taken; what lies inside a branch of one is none."""
        inside = self._inside()
        chains = []
        for last in sorted(self.found, key=lambda index: (-self.found[index].length, index)):
            if last not in self._taken and last not in inside:
                chain = Chain(self.flow, self, last)
                chains.append(chain)
                inside |= chain._inside()
        return sorted(chains, key=lambda chain: chain.additions[0].sum[0])

    def _inside(self) -> set[int]:
        """Return the additions found inside the branches of this chain, by node index."""
        starts = {addition.state for addition in self.additions}
        inside: set[int] = set()
        for addition in self.additions:
            for vertex, _ in self.flow.upstream(addition.sum):
                if vertex[0] <= addition.state[0]:
                    break
                inside.add(vertex[0])
        return {index for index in inside & set(self.found) if index not in self._taken} if starts else set()

    @property
    def base(self) -> Vertex:
        """The vertex of the first state of the stream."""
        return self.additions[0].state

    def step(self, vertex: Vertex) -> Step | None:
        """Return one step back from `vertex` through an operation that neither mixes positions nor has a matrix.

        None where the operation is another one, or where nothing before it depends on the batch.
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

    def _statistic(self, term: Term, addition: Addition) -> bool:
        """Return whether a term is a constant or a mean over features or positions, as a norm subtracts it."""
        if term.leaf is None or not self.flow.dynamic(term.leaf):
            return True
        *_, made = walk_back(self.step, term.leaf, LINEAR)
        fewer = math.prod(self.flow.shape(term.leaf)) < math.prod(self.flow.shape(addition.sum))
        return fewer and self.flow.node(made).kind == "reduce"

    def _follow(self, last: int | None) -> list[Addition]:
        additions: list[Addition] = []
        while last is not None and last not in self._taken:
            self._taken.add(last)
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

        An addition that stands alone, such as the difference of a loss, is taken only where there is no chain. None
        where there are no additions.
        """
        longest = max(self.found, key=lambda index: (self.found[index].length, index), default=None)
        cut = (vertex[0] for vertex in self.cuts if vertex[0] in self.found and self.found[vertex[0]].length > 1)
        return next(cut, longest)

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
