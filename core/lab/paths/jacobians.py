"""Exact Jacobians of a small decoder's additions, blocks and all blocks together, over all present positions.

A state of T rows and D features is one vector of n = T D entries, row by row. n copies of it run as n members of one
forward, and one reverse pass with the identity as upstream gradients gives the n rows of a Jacobian.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ...decoder.attention import AttentionGeometry, Carry
from ...decoder.forward_pass import step
from ...decoder.graph import Addition, Graph
from ...decoder.tape import Tape
from ...decoder.weights import WeightProvider
from ..decoder_source import DecoderOptions, decoder_tape, decoder_weights
from ..kit import FloatArray
from ..moments import ordered_product


@dataclass(frozen=True, kw_only=True, eq=False)
class PathJacobians:
    """The tape of a decoder and `additions[b][i]` `[n, n]`: the Jacobian of addition i of block b at its input."""

    tape: Tape
    graph: Graph
    additions: tuple[tuple[FloatArray, ...], ...]

    @property
    def blocks(self) -> tuple[FloatArray, ...]:
        """The derivative of every block's output with respect to its input.

        It is the product of the Jacobians of its additions, the last one leftmost.
        """
        return tuple(map(ordered_product, self.additions))


def path_jacobians(options: DecoderOptions) -> PathJacobians:
    """Return the Jacobians of every addition of a decoder.

    Callers must exclude decoders that carry scores between blocks.
    """
    weights = decoder_weights(options)
    graph = options.graph()
    tape = decoder_tape(options)
    geometry = AttentionGeometry.of(weights.config, options.batch(), tape.states[0])
    states = iter(tape.states)
    found = tuple(
        tuple(addition_jacobian(addition, block, next(states).detach(), weights, geometry) for addition in additions)
        for block, additions in enumerate(graph.blocks)
    )
    return PathJacobians(tape=tape, graph=graph, additions=found)


def addition_jacobian(
    addition: Addition, block: int, state: torch.Tensor, weights: WeightProvider, geometry: AttentionGeometry
) -> FloatArray:
    """Return the derivative `[n, n]` of one addition at `state` `[1, 1, T, D]`."""
    size = state.numel()
    copies = state.expand(size, *state.shape[1:]).clone().requires_grad_()
    output, *_ = step((addition,), block, copies, weights.block(block), Carry(), geometry, 1)
    upstream = torch.eye(size, dtype=state.dtype).view(size, *state.shape[1:])
    (rows,) = torch.autograd.grad(output, copies, upstream)
    matrix: FloatArray = rows.reshape(size, size).numpy()
    return matrix
