"""Exact Jacobians of a small decoder's additions, blocks and whole stack over all present positions.

A state of T rows and D features is one vector of n = T D entries, rows first. n copies of it run as n members of one
forward, and one reverse pass with the identity as upstream gradients gives the n rows of a Jacobian.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ...decoder.attention import AttentionGeometry, Carry
from ...decoder.forward_pass import step
from ...decoder.graph import Addition, Graph
from ...decoder.tape import Tape
from ...decoder.weights import WeightProvider
from ..decoder_source import DecoderOptions, decoder_tape, decoder_weights
from ..kit import FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class PathJacobians:
    """The tape of a decoder and `additions[b][i]` `[n, n]`, the Jacobian of addition i of block b at its own state."""

    tape: Tape
    graph: Graph
    additions: tuple[tuple[FloatArray, ...], ...]

    def block(self, block: int) -> FloatArray:
        """Derivative of a block's output with respect to its input: its additions' product, last one leftmost."""
        return ordered_product(self.additions[block])

    @property
    def blocks(self) -> tuple[FloatArray, ...]:
        """Every block's Jacobian, first block first."""
        return tuple(self.block(block) for block in range(len(self.additions)))


def path_jacobians(options: DecoderOptions) -> PathJacobians:
    """Jacobians of every addition of a decoder; each sees the stream alone, so callers refuse score routes."""
    weights = decoder_weights(options)
    graph = options.graph()
    tape = decoder_tape(options)
    geometry = AttentionGeometry.of(weights.config, options.batch(), tape.states[0])
    found, site = [], 0
    for block, additions in enumerate(graph.blocks):
        parts = []
        for addition in additions:
            parts.append(addition_jacobian(addition, block, tape.states[site].detach(), weights, geometry))
            site += 1
        found.append(tuple(parts))
    return PathJacobians(tape=tape, graph=graph, additions=tuple(found))


def addition_jacobian(
    addition: Addition, block: int, state: torch.Tensor, weights: WeightProvider, geometry: AttentionGeometry
) -> FloatArray:
    """Derivative `[n, n]` of one addition at `state` `[1, 1, T, D]`."""
    size = state.numel()
    copies = state.expand(size, *state.shape[1:]).clone().requires_grad_()
    output, *_ = step((addition,), block, copies, weights.block(block), Carry(), geometry, 1)
    upstream = torch.eye(size, dtype=state.dtype).view(size, *state.shape[1:])
    (rows,) = torch.autograd.grad(output, copies, upstream)
    matrix: FloatArray = rows.reshape(size, size).numpy()
    return matrix


def ordered_product(factors: Sequence[FloatArray]) -> FloatArray:
    """J_k ... J_2 J_1 for factors given first to last."""
    product = np.eye(len(factors[0]))
    for factor in factors:
        product = factor @ product
    return product


def spectral_norm(matrix: FloatArray) -> float:
    """Largest singular value."""
    return float(np.linalg.norm(matrix, 2))
