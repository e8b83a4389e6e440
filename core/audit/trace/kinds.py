"""Tell the kind of a branch: attention, cross-attention, another mixing of positions, or feed-forward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.graph import GradientEdge

from ...errors import AuditError, first_line, no_memory
from .branches import Branch, reached_from
from .chain import Chain
from .flow import Flow, Vertex
from .layout import Layout, layout_at
from .operations import ATTENTION as FUSED_ATTENTION
from .operations import SOFTMAX

ATTENTION, MIXER, FEED_FORWARD, PARALLEL, SKIP = "attention", "mixer", "feed_forward", "parallel", "skip"
CROSS_ATTENTION = "cross_attention"


@dataclass(frozen=True)
class Kinds:
    """Tells the kinds of the branches of one chain, whose stream has `layout`."""

    chain: Chain
    layout: Layout

    def of(self, branch: Branch) -> str:
        """Return the kind of a branch: feed-forward if each position depends on no other position.

        A softmax over values that are not computed from the stream makes it cross-attention. Where the output has zero
        gradient (a gate or a writer of zeros), the inputs of its writers are tested instead.
        """
        flow, mixes = self.chain.flow, None
        read = [vertex for use in branch.writers for vertex in flow.moving(flow.nodes[use.node])]
        for vertex in (branch.deep, *read) if self.layout.positions > 1 else ():
            mixes = self._depends_elsewhere(vertex, branch.source)
            if mixes is not None:
                break
        if branch.softmax and not mixes and _reads_another(flow, branch):
            return CROSS_ATTENTION
        if not (branch.softmax if mixes is None else mixes):
            return FEED_FORWARD
        return ATTENTION if branch.softmax else MIXER

    def _depends_elsewhere(self, vertex: Vertex, state: Vertex) -> bool | None:
        """Return whether `vertex` at the last position depends on `state` at another; None without a gradient."""
        flow = self.chain.flow
        output, source = flow.edge(vertex), flow.edge(state)
        if output is None or source is None:
            return None
        marked = torch.zeros(flow.shape(vertex), dtype=flow.node(vertex).dtype)
        view = layout_at(flow, self.layout, vertex).normalized(marked)
        if view is None:
            return None
        # `normalized` gives a view wherever it can; where it gives a copy, nothing is marked.
        view[:, -1] = 1.0
        if not bool(marked.any()):
            return None
        try:
            (gradient,) = gradients([GradientEdge(*output)], [GradientEdge(*source)], [marked], retain_graph=True)
        except AuditError:
            # A backward hook may expect the gradients of a whole pass; one is run later.
            return None
        spread = None if gradient is None else layout_at(flow, self.layout, state).normalized(gradient)
        if spread is None or not bool((spread != 0).any()):
            return None
        return bool((spread[:, :-1] != 0).any())


def _reads_another(flow: Flow, branch: Branch) -> bool:
    """Return whether a softmax of the branch weights values that its state has no part in."""
    own = reached_from(flow, branch.source, branch.leaf)
    weights = {vertex for vertex in own if flow.node(vertex).name in SOFTMAX}
    for index in sorted({vertex[0] for vertex in own}):
        node = flow.nodes[index]
        if node.name.startswith(FUSED_ATTENTION):
            values = node.inputs[2:3]
        elif node.kind == "matrix" and node.operand is None and not weights.isdisjoint(node.inputs):
            values = tuple(vertex for vertex in node.inputs if vertex not in weights)
        else:
            if node.kind == "view" and not weights.isdisjoint(node.inputs):
                weights.add((index, 0))
            continue
        if any(_apart(flow, vertex, own) for vertex in values):
            return True
    return False


def _apart(flow: Flow, vertex: Vertex | None, own: set[Vertex]) -> bool:
    return vertex is not None and flow.dynamic(vertex) and vertex not in own


def gradients(
    outputs: Sequence[Any], inputs: Sequence[Any], marked: Sequence[Any] | None = None, *, retain_graph: bool = False
) -> tuple[torch.Tensor | None, ...]:
    """Return gradients by one reverse pass, None where there is no path. Raises `AuditError` where it fails."""
    try:
        return torch.autograd.grad(outputs, inputs, marked, retain_graph=retain_graph, allow_unused=True)
    except Exception as error:
        # A hook of the user's may raise anything.
        if no_memory(error):
            raise
        reason = first_line(error).removeprefix("RuntimeError: ")
        raise AuditError(f"The reverse pass of the model fails: {reason}.") from error
