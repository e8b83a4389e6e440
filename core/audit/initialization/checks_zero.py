"""Checks of branches that add exactly zero: which of their parameters still learn, and which branches never can."""

from __future__ import annotations

from collections.abc import Container, Iterator

import torch

from ..sandbox.guard import Watch, undisturbed
from ..trace.coverage import silent_blocks
from ..trace.discovery import Discovery, Site
from ..trace.loss import loss_of
from ..trace.names import numbered
from . import words
from .findings import Finding
from .measure import MatrixStats, ModelStats


def zero_branches(discovery: Discovery, stats: ModelStats, *, lost: bool) -> Iterator[Finding]:
    """Yield findings on branches that add zero, on those that can never learn, and on blocks that never write.

    `lost`: the stream is lost, which is why earlier blocks seem never to write to it.
    """
    silent = [] if lost else _silent(discovery)
    if silent:
        yield Finding(kind="dead-branch", parameters=tuple(silent), measured=0.0, sentence=words.silent(silent))
    branches = _zero_branches(discovery)
    zero = stats.zero
    moving = _with_gradient(discovery) if branches or zero else frozenset()
    dead = _dead(discovery, branches, moving)
    if dead:
        yield Finding(kind="dead-branch", parameters=tuple(dead), measured=0.0, sentence=words.dead(dead))
    told = (*silent, *dead)
    gated = [m for m in zero if m.gates and m.weights.largest > 0]
    yield from _by_writer([m for m in zero if m not in gated and m.name not in told], moving)
    yield from _by_gate([m for m in gated if m.name not in told], moving)
    settled = {m.where for m in zero}
    inner = [pair for pair in branches if (discovery.sites.index(pair[0]), pair[1]) not in settled]
    yield from _by_inner(discovery, inner, told, moving)


def _by_writer(zero: list[MatrixStats], moving: frozenset[str]) -> Iterator[Finding]:
    names = list(dict.fromkeys(m.name for m in zero))
    if names:
        yield _zero(names, words.zero(zero, *_learning(names, moving)))


def _by_gate(gated: list[MatrixStats], moving: frozenset[str]) -> Iterator[Finding]:
    """Yield a finding on branches that a zero gate or gain multiplies."""
    gates = list(dict.fromkeys(name for m in gated for name in m.gates))
    names = [*gates, *dict.fromkeys(m.name for m in gated)]
    if gates:
        yield _zero(names, words.zero_gate(gates, gated, *_learning(names, moving)))


def _by_inner(
    discovery: Discovery, branches: list[tuple[Site, int]], told: Container[str], moving: frozenset[str]
) -> Iterator[Finding]:
    """Yield a finding on branches that add zero although neither their writer nor a gate behind it is zero."""
    inner: list[str] = []
    others: list[str] = []
    for site, number in branches:
        found = branch_parameters(discovery, site, number)
        zero = discovery.names.of(p for p in found if p.dim() >= 2 and not bool(p.any()))
        inner += zero
        others += [name for name in discovery.names.of(p for p in found if p.dim() >= 2) if name not in zero]
    inner = [name for name in dict.fromkeys(inner) if name not in told]
    if inner:
        learning, still = _learning([*inner, *dict.fromkeys(others)], moving)
        yield _zero(inner, words.zero_inner(inner, learning, still))


def _learning(names: list[str], moving: frozenset[str]) -> tuple[list[str], list[str]]:
    """Return the names with a gradient at the start, and those without."""
    return [n for n in names if n in moving], [n for n in names if n not in moving]


def _zero(names: list[str], sentence: str) -> Finding:
    return Finding(kind="zero-by-construction", parameters=tuple(names), measured=0.0, sentence=sentence)


def _dead(discovery: Discovery, branches: list[tuple[Site, int]], moving: frozenset[str]) -> list[str]:
    """Return the parameters of zero branches without any nonzero gradient although the state after them has one.

    `branches` are (site, index of the branch) pairs, `moving` the names of parameters with a nonzero gradient.
    """
    dead: list[str] = []
    for site, number in branches:
        names = discovery.names.of(branch_parameters(discovery, site, number))
        place = discovery.sites.index(site) + 1
        adjoint = discovery.adjoints[place] if place < len(discovery.adjoints) else None
        if names and adjoint is not None and bool((adjoint != 0).any()) and not moving & set(names):
            dead += names
    return list(dict.fromkeys(dead))


def branch_parameters(discovery: Discovery, site: Site, number: int) -> list[torch.Tensor]:
    """Return every parameter between the state before an addition and what its branch `number` adds."""
    flow, addition = discovery.chain.flow, site.addition
    others = {branch.leaf for place, branch in enumerate(site.branches) if place != number}
    start = site.branches[number].leaf
    found = {id(p): p for use in site.branches[number].gates for p in use.parameters}
    stack, seen = [start, *_path(discovery, site, start)], set(others)
    while stack:
        vertex = stack.pop()
        if vertex in seen or vertex == addition.state:
            continue
        seen.add(vertex)
        for source in flow.node(vertex).inputs:
            if source is None:
                continue
            if not flow.dynamic(source):
                found |= {id(p): p for p in flow.parameters_of(source)}
            elif source[0] > addition.state[0] and source not in discovery.chain.states:
                stack.append(source)
    return list(found.values())


def _path(discovery: Discovery, site: Site, leaf: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the vertices between a branch's leaf and the sum: views, norms and scales, such as gates."""
    flow, path = discovery.chain.flow, []
    queue = [leaf]
    while queue:
        vertex = queue.pop()
        for reader in flow.readers.get(vertex, ()):
            if leaf[0] < reader < site.addition.sum[0] and flow.nodes[reader].kind in ("view", "scale", "norm"):
                path.append((reader, 0))
                queue.append((reader, 0))
    return path


def _zero_branches(discovery: Discovery) -> list[tuple[Site, int]]:
    return [
        (site, number)
        for site in discovery.sites
        for number, branch in enumerate(site.contributions)
        if not bool((branch.contribution != 0).any())
    ]


def _silent(discovery: Discovery) -> list[str]:
    """Return the names of parameters of blocks that never write to the stream."""
    blocks = set(silent_blocks(discovery))
    return [
        name
        for name in discovery.names.parameters
        if any(f"{container}.{number}" in blocks for container, number in numbered(name))
    ]


def _with_gradient(discovery: Discovery) -> frozenset[str]:
    """Run another forward and return the names of all parameters with a nonzero gradient of the loss."""
    model, names = discovery.guard.model, discovery.names
    watch = Watch()
    with undisturbed(model) as guard, guard.run(watch, discovery.inputs):
        parameters = {n: p for n, p in names.parameters.items() if p.is_floating_point()}
        with watch:
            output = guard.call(discovery.inputs.arguments, discovery.inputs.keywords)
        loss = loss_of(output, discovery.inputs).mean
        gradients = torch.autograd.grad(loss.sum(), list(parameters.values()), allow_unused=True)
    pairs = zip(parameters, gradients, strict=True)
    return frozenset(name for name, g in pairs if g is not None and bool((g != 0).any()))
