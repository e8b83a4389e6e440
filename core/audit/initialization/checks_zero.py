"""Checks of branches that add exactly zero: which of their parameters still learn, and which branches never can."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ..sandbox.guard import Watch, undisturbed
from ..trace.coverage import silent_blocks
from ..trace.discovery import Discovery, Site
from ..trace.loss import loss_of
from ..trace.names import numbered
from . import words
from .findings import Finding
from .measure import ModelStats


def zero_branches(discovery: Discovery, stats: ModelStats) -> Iterator[Finding]:
    """Yield findings on zero writers, zero branches that can never learn, and blocks that never write to the stream."""
    silent = _silent(discovery)
    if silent:
        yield Finding(kind="dead-branch", parameters=tuple(silent), measured=0.0, sentence=words.silent(silent))
    branches = _zero_branches(discovery)
    zero = stats.zero
    moving = _with_gradient(discovery) if branches or zero else frozenset()
    dead = _dead(discovery, branches, moving)
    if dead:
        yield Finding(kind="dead-branch", parameters=tuple(dead), measured=0.0, sentence=words.dead(dead))
    names = [name for name in dict.fromkeys(m.name for m in zero) if name not in (*silent, *dead)]
    if names:
        learning, still = ([n for n in names if (n in moving) == wanted] for wanted in (True, False))
        sentence = words.zero(zero, learning, still)
        yield Finding(kind="zero-by-construction", parameters=tuple(names), measured=0.0, sentence=sentence)


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
    found: dict[int, torch.Tensor] = {}
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
