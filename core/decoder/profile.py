"""The profile step of the Admin recipe: shortcut coefficients w measured by one forward pass on a given batch.

Source: Liu et al., "Understanding the difficulty of training Transformers" (2020). Addition i multiplies the stream by
w_i before it adds its branch. w_i^2 = 1 + the sum of the output variances of all earlier branches j < i, measured with
every w equal to 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch

from .attention import AttentionGeometry, Carry
from .batch import Batch
from .forward_pass import embed, step
from .graph import Addition, Graph
from .tape import recording
from .valid import select_valid
from .weights import WeightProvider, Weights

Scalars = Sequence[Mapping[str, torch.Tensor]]
Record = dict[str, torch.Tensor]
# Returns what a named step leaves: computed by the call given, or found where an earlier process has kept it.
Done = Callable[[str, Callable[[], Record]], Record]


def computed(name: str, compute: Callable[[], Record]) -> Record:
    """Return `compute()`: the default `done` of `measured_shortcuts`, which stores nothing."""
    return compute()


@recording()
def measured_shortcuts(
    graph: Graph, provider: Callable[[Scalars], WeightProvider], batch: Batch, done: Done = computed
) -> Scalars:
    """Return the measured shortcut coefficients: one mapping per block, from the coefficient's key to float64 `[E]`.

    E is the number of members (models). The first coefficient is 1. Variances are population variances over all valid
    positions and features. `provider(scalars)` must return the weights of the decoder with these coefficients; blocks
    are requested one at a time. `done(name, compute)` must return `compute()` or a stored result of it; it is called
    for the input and for every block.
    """
    keys = [[str(addition.shortcut) for addition in additions] for additions in graph.blocks]
    weights = provider([{key: torch.ones(1, dtype=torch.float64) for key in block} for block in keys])
    with torch.no_grad():
        record = done("profile-input", lambda: _start(graph, weights, batch))
        geometry = AttentionGeometry.of(weights.config, batch, record["state"])
        measured = []
        for block, additions in enumerate(graph.blocks):
            call = partial(_measured, additions, block, record, weights.block, geometry, batch)
            record = done(f"profile-{block:05}", call)
            measured.append({key: record[key] for key in keys[block]})
    return measured


def _start(graph: Graph, weights: WeightProvider, batch: Batch) -> Record:
    x = embed(weights.stem(), batch, weights.members, graph.embedding_factor)
    return {"state": x, "total": torch.ones(weights.members, dtype=torch.float64)}


def _measured(
    additions: tuple[Addition, ...],
    block: int,
    before: Record,
    weights: Callable[[int], Weights],
    geometry: AttentionGeometry,
    batch: Batch,
) -> Record:
    """Return a block's coefficients, the running sum of variances, and what the next block needs."""
    carry = Carry(before.get("scores"))
    x, _, parts, carry = step(additions, block, before["state"], weights(block), carry, geometry, 0)
    total, record = before["total"], {"state": x}
    for addition, part in zip(additions, parts, strict=True):
        record[str(addition.shortcut)] = total.sqrt()
        total = total + select_valid(part.raw, batch.valid).var(dim=1, correction=0).cpu()
    return record | {"total": total} | ({} if carry.scores is None else {"scores": carry.scores})
