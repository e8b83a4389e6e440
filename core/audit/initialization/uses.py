"""How the forward uses a matrix: the factors around it, the gates behind it, and the pieces of its output.

A writer is a matrix that writes to the residual stream, a reader one that reads it. A vertex is an output of a node of
the recorded flow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from ..trace.branches import Branch, MatrixUse, linear_in
from ..trace.discovery import Discovery, Site
from ..trace.flow import Vertex

# A factor nearer to 1 than this is a cast to a coarser type.
CAST = 1e-2
# Operations that cut a tensor into several.
CUTS = frozenset({"Split", "SplitWithSizes", "Unbind"})


@dataclass(frozen=True)
class Reading:
    """How a branch depends on a reader's output.

    `linear`: linearly on all of it. `partly`: linearly on a part, as in a fused projection with values. `piece` is the
    number of output features in the equal pieces that the output is cut into; 0 if it is not cut, or unequally.
    """

    linear: bool
    partly: bool
    piece: int


def behind(discovery: Discovery, site: Site, number: int, use: MatrixUse) -> float:
    """Return the factor on the output of branch `number` of an addition, divided by that on the shortcut.

    1 if it depends on the batch; 0 if the branch adds exactly zero although the writer's own output is not zero.
    """
    if site.measured is None:
        return 1.0
    measured, shortcut = site.measured.branches[number], site.measured.shortcut
    output = discovery.chain.flow.value((use.node, 0))
    if output is not None and bool(output.any()) and not bool(measured.contribution.any()):
        return 0.0
    factor = 1.0 if measured.coefficient.spread == "varying" else abs(measured.coefficient.value)
    return factor / abs(shortcut.value) if shortcut is not None and shortcut.value != 0 else factor


def before(discovery: Discovery, use: MatrixUse) -> float:
    """Return the product of the constants that multiply the input of a writer (the matrix that ends a branch)."""
    flow, factor = discovery.chain.flow, 1.0
    moving = flow.moving(flow.nodes[use.node])
    while len(moving) == 1:
        node = flow.node(moving[0])
        if node.kind not in ("view", "scale") or isinstance(node.factor, torch.Tensor):
            break
        factor *= abs(node.factor) if node.kind == "scale" else 1.0
        moving = flow.moving(node)
    return factor


def on_matrix(operand: torch.Tensor | None, parameter: torch.Tensor) -> float:
    """Return the factor that multiplies a parameter before a product uses it; 1 if it is used as it is stored."""
    if operand is None or operand.numel() != parameter.numel():
        return 1.0
    if operand.untyped_storage().data_ptr() == parameter.untyped_storage().data_ptr():
        return 1.0
    one, two = operand.to(torch.float64), parameter.to(torch.float64)
    size, other = float(two.std(correction=0)), float(two.abs().mean())
    if size == 0 or other == 0 or not math.isfinite(size):
        return 1.0
    factor = float(one.std(correction=0)) / size
    proportional = abs(float(one.abs().mean()) / other - factor) < 1e-3 * factor
    return factor if proportional and abs(factor - 1) > CAST else 1.0


def gates(discovery: Discovery, site: Site, number: int) -> tuple[str, ...]:
    """Return the names of the parameters that multiply a branch after its writers: gains, scalars and modulations."""
    flow, branch = discovery.chain.flow, site.branches[number]
    found = {id(p): p for use in branch.gates for p in use.parameters}
    for node in path_to_sum(discovery, site, [(use.node, 0) for use in branch.writers]):
        if flow.nodes[node].kind == "scale":
            found |= {id(p): p for vertex in flow.static(flow.nodes[node]) for p in flow.parameters_of(vertex)}
    return tuple(discovery.names.of(found.values()))


def path_to_sum(discovery: Discovery, site: Site, starts: list[Vertex]) -> Iterator[int]:
    """Yield the indices of the operations between `starts` and the sum of an addition, the sum left out."""
    flow, end = discovery.chain.flow, site.addition.sum[0]
    queue, seen = list(starts), {start[0] for start in starts}
    while queue:
        vertex = queue.pop()
        for reader in flow.readers.get(vertex, ()):
            if vertex[0] < reader < end and reader not in seen:
                seen.add(reader)
                yield reader
                queue += [(reader, place) for place in range(len(flow.nodes[reader].shapes))]


def reading(discovery: Discovery, branch: Branch, reader: MatrixUse) -> Reading:
    """Return the `Reading`: how a branch depends on the output of `reader`, the matrix that begins it.

    Every path from it to the matrix that ends the branch counts.
    """
    flow, ways = discovery.chain.flow, set[bool]()
    stack = [(vertex, True) for use in branch.writers for vertex in flow.moving(flow.nodes[use.node])]
    seen = set(stack)
    while stack:
        vertex, linear = stack.pop()
        if vertex[0] == reader.node:
            ways.add(linear)
            continue
        node = flow.node(vertex)
        for place, source in enumerate(node.inputs):
            if source is None or not flow.dynamic(source) or source[0] < reader.node:
                continue
            kept = linear and linear_in(node, place)
            if (source, kept) not in seen:
                seen.add((source, kept))
                stack.append((source, kept))
    return Reading(ways == {True}, ways == {True, False}, _piece(discovery, reader))


def _piece(discovery: Discovery, reader: MatrixUse) -> int:
    """Return the number of output features of the equal pieces that a product is cut into; 0 where it is not."""
    flow = discovery.chain.flow
    whole = math.prod(flow.shape((reader.node, 0)))
    sizes: set[int] = set()
    stack = [(reader.node, 0)]
    while stack:
        vertex = stack.pop()
        for index in flow.readers.get(vertex, ()):
            node = flow.nodes[index]
            if (node.kind not in ("view", "sum") and node.name not in CUTS) or len(flow.moving(node)) != 1:
                continue
            for place, shape in enumerate(node.shapes):
                size = math.prod(shape)
                if size < whole:
                    sizes.add(size)
                elif size == whole:
                    stack.append((index, place))
    if len(sizes) != 1 or whole % next(iter(sizes)):
        return 0
    return reader.fan_out * next(iter(sizes)) // whole
