"""Checks of the stream itself: where it is lost, its norms, its floating type, and the size of its first state.

A state is the stream before or after an addition; a vertex is an output of a node of the recorded flow.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

import torch

from ..report.result import Stream, stream_of
from ..trace.branches import matrix_use
from ..trace.discovery import Discovery, Site
from ..trace.flow import Vertex
from ..trace.names import numbered
from . import words_stream as words
from .findings import Finding
from .measure import median

# A first state of this RMS or more is large where the forward multiplies the table by a factor, or where the branches
# add this many times less.
LARGE, MULTIPLIED, FAR = 3.0, 1.5, 100.0


def stream_findings(discovery: Discovery) -> Iterator[Finding]:
    """Yield the findings about the stream: lost, norms at some additions only, large input, coarse floating type."""
    names = lost_matrices(discovery)
    if names:
        yield Finding(kind="stream-lost", parameters=tuple(names), sentence=words.lost(names))
    yield from _mixed_topology(discovery)
    yield from _embedding_scale(discovery)
    yield from _narrow(discovery)


def lost_matrices(discovery: Discovery) -> list[str]:
    """Return the names of matrices that replace the stream instead of adding to it: no path leads around them."""
    if not discovery.sites:
        return []
    flow, chain = discovery.chain.flow, discovery.chain
    found = {index: one for index, one in chain.found.items() if _same_width(discovery, (index, 0))}
    spans, base = [(discovery.sites[-1].addition.sum, flow.root)], chain.base
    written = {place for site in discovery.sites for name in _writers(discovery, site) for place in _block(name)}
    while True:
        upstream = {vertex[0] for vertex, _ in flow.upstream(base)}
        last = max((index for index in found if index < base[0] and index in upstream), default=None)
        if last is None:
            break
        spans.append(((last, 0), base))
        addition = found[last]
        while True:
            leaves = [term.leaf for term in addition.terms if term.leaf is not None]
            names = [name for leaf in leaves for name in _through(discovery, leaf, addition.state)]
            written |= {place for name in names for place in _block(name)}
            if addition.previous is None or addition.previous not in found:
                break
            addition = found[addition.previous]
        base = addition.state
    lost = [name for start, end in reversed(spans) for name in _between(discovery, start, end, written)]
    return list(dict.fromkeys(lost))


def _writers(discovery: Discovery, site: Site) -> list[str]:
    return discovery.names.of(p for use in site.writers for p in use.parameters)


def _block(name: str) -> list[tuple[str, int]]:
    """Return the innermost numbered container of a parameter, and its number; empty where it has no number."""
    return numbered(name)[-1:]


def _same_width(discovery: Discovery, vertex: Vertex) -> bool:
    flow = discovery.chain.flow
    return flow.shape(vertex)[-1:] == flow.shape(discovery.chain.base)[-1:]


def _through(discovery: Discovery, start: Vertex, end: Vertex) -> list[str]:
    """Return the names of the first matrices on every path back from `start` to the earlier vertex `end`."""
    flow, found, queue, seen = discovery.chain.flow, list[torch.Tensor](), [start], {start}
    while queue:
        vertex = queue.pop()
        node = flow.node(vertex)
        if node.kind == "matrix" and node.operand is not None:
            found += [p for source in flow.static(node) for p in flow.parameters_of(source)]
            continue
        fresh = [source for source in flow.moving(node) if source[0] > end[0] and source not in seen]
        seen.update(fresh)
        queue += fresh
    return discovery.names.of(found)


def _between(
    discovery: Discovery, start: Vertex, end: Vertex, written: Container[tuple[str, int]]
) -> list[str]:  # fmt: skip
    """Return the names of the matrices of blocks that every path from a sum to a later vertex passes.

    Empty where some path passes none, so that the stream is kept. `written` are the blocks that write to the stream.
    """
    flow = discovery.chain.flow
    after = {start}
    for index in range(start[0] + 1, end[0] + 1):
        if any(source in after for source in flow.nodes[index].inputs):
            after |= {(index, place) for place in range(len(flow.nodes[index].shapes))}
    found: list[str] = []
    queue, seen = [end], {end}
    while queue:
        vertex = queue.pop()
        if vertex == start:
            return []
        names = _overwriting(discovery, vertex)
        if any(place in written for name in names for place in _block(name)):
            found += names
            continue
        fresh = [source for source in flow.moving(flow.node(vertex)) if source in after and source not in seen]
        seen.update(fresh)
        queue += fresh
    return found


def _overwriting(discovery: Discovery, vertex: Vertex) -> list[str]:
    """Return the names of a matrix that gives a state of the stream's width from one tensor; empty for anything else.

    A matrix that joins two tensors, as a long skip does, keeps the state that is one of them.
    """
    flow = discovery.chain.flow
    use = matrix_use(flow, vertex[0]) if flow.node(vertex).kind == "matrix" else None
    if use is None or use.fan_out != discovery.width:
        return []
    joined = flow.moving(flow.node(vertex))
    while len(joined) == 1 and flow.node(joined[0]).kind == "view":
        joined = flow.moving(flow.node(joined[0]))
    if len(joined) != 1 or flow.node(joined[0]).name == "Cat":
        return []
    return discovery.names.of(use.parameters)


def _mixed_topology(discovery: Discovery) -> Iterator[Finding]:
    """Yield a finding on norms that stand on the stream at some additions and not at others."""
    if stream_of(discovery) is not Stream.SOME_NORMS:
        return
    normed = [site for site in discovery.sites[:-1] if any(step.kind == "norm" for step in site.addition.after)]
    # A single norm after the stem or between stages is no fault; one that is repeated per block is.
    if len({site.block for site in normed}) < 2 or len(normed) >= len(discovery.sites) - 1:
        return
    names = [name for site in normed for name in _norm_parameters(discovery, site)]
    labels = [site.label for site in normed]
    yield Finding(
        kind="mixed-topology",
        parameters=tuple(dict.fromkeys(names)),
        measured=float(len(normed)),
        expected=0.0,
        sentence=words.mixed(labels, len(discovery.sites)),
    )


def _norm_parameters(discovery: Discovery, site: Site) -> list[str]:
    flow = discovery.chain.flow
    path, vertex = [], site.addition.next_state
    for _ in site.addition.after:
        step = discovery.chain.step(vertex)
        if step is None:
            break
        if step.kind == "norm":
            path += [p for source in flow.static(flow.node(vertex)) for p in flow.parameters_of(source)]
        vertex = step.source
    return discovery.names.of(path)


def _embedding_scale(discovery: Discovery) -> Iterator[Finding]:
    """Yield a finding on a first state that is large by a factor of the forward, or beside what the branches add."""
    if not discovery.states or any(site.measured is None for site in discovery.sites):
        return
    kept = torch.from_numpy(discovery.valid)
    size = _rms(discovery.states[0][kept])
    gained = [
        _rms(branch.contribution.expand(branch.raw.shape)[kept])
        for site in discovery.sites
        for branch in site.contributions
    ]
    typical = median(value for value in gained if value > 0)
    factor, names = _table(discovery)
    if not size >= LARGE or not names or not (factor >= MULTIPLIED or size >= FAR * typical):
        return
    sentence = words.embedding(names, size, factor, typical)
    yield Finding(
        kind="embedding-scale", parameters=tuple(names), measured=size, expected=1.0, sentence=sentence
    )  # fmt: skip


def _table(discovery: Discovery) -> tuple[float, list[str]]:
    """Return the product of the constants between the tables and the first state, and the tables' names."""
    flow, names, largest = discovery.chain.flow, list[str](), 1.0
    queue: list[tuple[Vertex, float]] = [(discovery.chain.base, 1.0)]
    while queue:
        vertex, factor = queue.pop()
        node = flow.node(vertex)
        if node.kind == "source":
            largest = max(largest, factor)
            names += discovery.names.of(p for source in flow.static(node) for p in flow.parameters_of(source))
        elif node.kind in ("view", "sum", "scale"):
            scale = abs(node.factor) if node.kind == "scale" and not isinstance(node.factor, torch.Tensor) else 1.0
            parts = {term.vertex: term.factor for term in node.terms if not isinstance(term.factor, torch.Tensor)}
            queue += [(source, factor * scale * abs(parts.get(source, 1.0))) for source in flow.moving(node)]
    return largest, list(dict.fromkeys(names))


def _narrow(discovery: Discovery) -> Iterator[Finding]:
    """Yield a finding on states whose floating type is coarser than that of the weights that write to them."""
    writers = {p.dtype for site in discovery.sites for use in site.writers for p in use.parameters}
    finest = min((dtype for dtype in writers if dtype.is_floating_point), key=_step, default=None)
    if finest is None:
        return
    pairs = zip(discovery.labels, discovery.states, strict=False)
    narrow = [(label, state.dtype) for label, state in pairs if _step(state.dtype) > _step(finest)]
    if narrow:
        dtype = max((dtype for _, dtype in narrow), key=_step)
        sentence = words.narrow([label for label, _ in narrow], len(discovery.states), dtype, finest)
        yield Finding(
            kind="narrow-stream", measured=_step(dtype), expected=_step(finest), sentence=sentence
        )  # fmt: skip


def _step(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps


def _rms(values: torch.Tensor) -> float:
    return float(values.detach().double().square().mean().sqrt())
