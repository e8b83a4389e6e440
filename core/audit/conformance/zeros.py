"""Branches that add exactly zero: which of their parameters still learn, and which branches are dead."""

from __future__ import annotations

import math

import torch

from core.audit.conformance.intact import listed
from core.audit.conformance.kinds import Finding
from core.audit.discovery import Discovery, Site
from core.audit.guard import undisturbed
from core.audit.loss import loss_of
from core.audit.names import numbered
from core.audit.proof import silent_blocks
from core.audit.recorder import Replay


def dead_branches(discovery: Discovery) -> list[Finding]:
    """Zero branches of which no parameter has a gradient, and blocks that never write to the stream."""
    findings = _silent(discovery)
    silent = _zero_branches(discovery)
    if not silent:
        return findings
    moving = _with_gradient(discovery)
    dead: list[str] = []
    for site, number in silent:
        names = discovery.names.of(branch_parameters(discovery, site, number))
        place = discovery.sites.index(site) + 1
        adjoint = discovery.adjoints[place] if place < len(discovery.adjoints) else None
        if names and adjoint is not None and bool((adjoint != 0).any()) and not moving & set(names):
            dead += names
    if dead:
        findings.append(
            Finding(
                kind="dead-branch",
                parameters=tuple(dict.fromkeys(dead)),
                measured=0.0,
                sentence=(
                    f"The branches of {listed(dict.fromkeys(dead))} add zero and none of their parameters has a "
                    "gradient, so they can never learn; leave one factor of each branch nonzero."
                ),
            )
        )
    return findings


def learning(discovery: Discovery, names: tuple[str, ...]) -> tuple[str, ...]:
    """Of these parameters, those with a gradient that is not zero."""
    moving = _with_gradient(discovery)
    return tuple(name for name in names if name in moving)


def branch_parameters(discovery: Discovery, site: Site, number: int) -> list[torch.Tensor]:
    """Every parameter between the state before an addition and what one of its branches adds."""
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
    """What stands between a branch's leaf and the sum: gates that are parameters among them."""
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
    found = []
    for site in discovery.sites:
        for number, branch in enumerate(site.measured.branches if site.measured is not None else ()):
            if not bool((branch.contribution != 0).any()):
                found.append((site, number))
    return found


def _silent(discovery: Discovery) -> list[Finding]:
    names: list[str] = []
    for problem in silent_blocks(discovery):
        prefix = problem.split(" ", 1)[0]
        names += [
            name
            for name in discovery.names.parameters
            if any(f"{container}.{number}".lstrip(".") == prefix for container, number in numbered(name))
        ]
    if not names:
        return []
    return [
        Finding(
            kind="dead-branch",
            parameters=tuple(names),
            measured=0.0,
            sentence=f"The blocks of {listed(names)} never write to the stream; connect them or take them out.",
        )
    ]


def _with_gradient(discovery: Discovery) -> frozenset[str]:
    """Names of all parameters whose gradient of the loss is not zero, by a forward of its own."""
    model, names = discovery.guard.model, discovery.names
    watch = Replay([])
    with undisturbed(model) as guard, guard.run(watch, discovery.inputs):
        parameters = {n: p for n, p in names.parameters.items() if p.is_floating_point()}
        with watch:
            output = guard.call(discovery.inputs.arguments, discovery.inputs.keywords)
        loss = loss_of(output, discovery.inputs).mean
        gradients = torch.autograd.grad(loss.sum(), list(parameters.values()), allow_unused=True)
    pairs = zip(parameters, gradients, strict=True)
    return frozenset(name for name, g in pairs if g is not None and _moves(g))


def _moves(gradient: torch.Tensor) -> bool:
    largest = float(gradient.detach().abs().max()) if gradient.numel() else 0.0
    return largest > 0 or math.isnan(largest)
