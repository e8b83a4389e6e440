"""The profile step of Admin: shortcut coefficients measured by one forward on a given batch.

Source: Liu et al., "Understanding the difficulty of training Transformers" (2020): w_i^2 = 1 + the sum over earlier
additions j < i of the output variance of branch j, measured with every w = 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from .batch import Batch
from .forward_pass import forward
from .graph import Graph
from .tape import recording
from .valid import select_valid
from .weights import WeightProvider

Scalars = Sequence[Mapping[str, torch.Tensor]]


@recording()
def measured_shortcuts(graph: Graph, provider: Callable[[Scalars], WeightProvider], batch: Batch) -> Scalars:
    """Return the shortcut coefficients `[E]` of every addition, by block and key; w_0 = 1.

    The variance is the population variance, pooled over rows, valid positions and channels. `provider` builds the
    weights for given coefficients.
    """
    keys = [[addition.shortcut for addition in additions] for additions in graph.blocks]
    ones = [{str(key): torch.ones(1, dtype=torch.float64) for key in block} for block in keys]
    with torch.no_grad():
        tape = forward(graph, provider(ones), batch)
    total = torch.ones(tape.loss.shape[0], dtype=torch.float64)
    measured: list[dict[str, torch.Tensor]] = [{} for _ in keys]
    for contribution, key in zip(tape.contributions, (key for block in keys for key in block), strict=True):
        measured[contribution.block][str(key)] = total.sqrt()
        total = total + select_valid(contribution.raw, batch.valid).var(dim=1, correction=0).cpu()
    return measured
