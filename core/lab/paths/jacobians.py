"""Exact Jacobians of a small decoder: of every addition to the residual stream, every block, and all blocks together.

They cover all token positions of the row at once: a state of T positions and D features is one vector of n = T D
entries. To find a Jacobian `[n, n]`, n copies of the state run as one batch, and one reverse pass with the identity as
upstream gradients gives its n rows.
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
    """The recorded forward of a decoder, its graph, and the Jacobian `[n, n]` of each addition to the residual stream.

    `additions[b][i]` is the Jacobian of addition i of block b: the derivative of the state after it with respect to the
    state before it. n is the number of positions times the width.
    """

    tape: Tape
    graph: Graph
    additions: tuple[tuple[FloatArray, ...], ...]

    @property
    def blocks(self) -> tuple[FloatArray, ...]:
        """The Jacobian `[n, n]` of every block: the product of the Jacobians of its additions, the last one first."""
        return tuple(map(ordered_product, self.additions))


def path_jacobians(options: DecoderOptions) -> PathJacobians:
    """Return the Jacobians of every addition of the decoder that `options` describe.

    The decoder must not pass attention scores from block to block, since a Jacobian of the stream alone misses that
    path.
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
    """Return the Jacobian `[n, n]` of one addition of block `block` at `state` `[1, 1, T, D]`, with n = T * D."""
    size = state.numel()
    copies = state.expand(size, *state.shape[1:]).clone().requires_grad_()
    output, *_ = step((addition,), block, copies, weights.block(block), Carry(), geometry, 1)
    upstream = torch.eye(size, dtype=state.dtype).view(size, *state.shape[1:])
    (rows,) = torch.autograd.grad(output, copies, upstream)
    matrix: FloatArray = rows.reshape(size, size).numpy()
    return matrix
