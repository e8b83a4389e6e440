"""Causal self-attention, computed for all members (models of the batched run) at once.

Positions are rotary or learned, and query heads may share key/value heads. Optionally each block adds the attention
scores of the earlier blocks to its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from .batch import Batch
from .config import DecoderConfig
from .graph import Branch
from .operations import apply_norm, project, project_jointly
from .weights import Weights


@dataclass(frozen=True)
class Carry:
    """What a block hands to the next one beside the residual stream; gradients flow through it too.

    `scores` is the running sum of scaled query-key products over the blocks so far, `[E, B, kv_heads, heads / kv_heads,
    T, T]` for E members; None before the first block, and always if the recipe does not sum scores.
    """

    scores: torch.Tensor | None = None


@dataclass(frozen=True)
class AttentionGeometry:
    """What the attention of every block shares: the head counts, the epsilon of norms, the rotation and the mask.

    For B rows of T positions, `rotation` is complex `[B, T, 1, head_dim / 2]`: cos(a) + i sin(a) with the angle a =
    position * base^(-2i / head_dim) for feature pair i. It is None if positions are learned. `bias` `[B, 1, 1, T, T]`
    is added to the scores: 0 where the query position may see the key position, -inf elsewhere.
    """

    heads: int
    kv_heads: int
    head_dim: int
    epsilon: float
    rotation: torch.Tensor | None
    bias: torch.Tensor

    @classmethod
    def of(cls, config: DecoderConfig, batch: Batch, like: torch.Tensor) -> AttentionGeometry:
        """Return the geometry for one batch, on the device of `like`.

        `bias` is float64 if `like` is, otherwise float32; `rotation` is complex128 or complex64 accordingly. Angles are
        computed in float64 in both cases.
        """
        wide = torch.float64 if like.dtype == torch.float64 else torch.float32
        rotation = None
        if config.position_encoding == "rope":
            rotation = _rotation(config, batch, torch.complex128 if wide == torch.float64 else torch.complex64)
            rotation = rotation.to(like.device)
        hidden = torch.from_numpy(~batch.attention_mask())[:, None, None]
        bias = torch.zeros(hidden.shape, dtype=wide).masked_fill(hidden, -torch.inf).to(like.device)
        return cls(config.heads, config.key_value_heads, config.head_width, config.rms_epsilon, rotation, bias)


def attend(
    branch: Branch, read: torch.Tensor, weights: Weights, carry: Carry, geometry: AttentionGeometry
) -> tuple[torch.Tensor, Carry]:
    """Return the output of one attention branch `[E, B, T, D]` and the carry for the next block.

    `read` `[E, B, T, D]` holds what the branch reads, usually normalized states: E members, B rows, T positions, D
    features. `weights` are those of one block. Query head h reads key/value head h // (heads / kv_heads).
    """
    members, rows, length, _ = read.shape
    shared, groups, size = geometry.kv_heads, geometry.heads // geometry.kv_heads, geometry.head_dim
    heads = geometry.heads
    joint = project_jointly(read, weights, ("attention.query", "attention.key", "attention.value"))
    turned, value = torch.split(joint.view(members, rows, length, -1, size), [heads + shared, shared], dim=3)
    if geometry.rotation is not None:
        turned = rotate(turned, geometry.rotation)
    if branch.query_key_norm is not None:
        turned = apply_norm(branch.query_key_norm, turned, weights, geometry.epsilon)
    query, key = torch.split(turned, [heads, shared], dim=3)
    batched = members * rows * shared
    query = query.reshape(members, rows, length, shared, groups, size).permute(0, 1, 3, 4, 2, 5)
    query = query.reshape(batched, groups * length, size)
    key = key.permute(0, 1, 3, 4, 2).reshape(batched, size, length)
    value = value.permute(0, 1, 3, 2, 4).reshape(batched, length, size)
    products = torch.bmm(query, key).view(members, rows, shared, groups, length, length).to(geometry.bias.dtype)
    if branch.score_sum:
        products = products * branch.score_factor
        products = products if carry.scores is None else products + carry.scores
        carry, scores = Carry(products), products + geometry.bias
    else:
        scores = torch.add(geometry.bias, products, alpha=branch.score_factor)
    attention = torch.softmax(scores, dim=-1).to(value.dtype).view(batched, groups * length, length)
    mixed = torch.bmm(attention, value).view(members, rows, shared, groups, length, size)
    mixed = mixed.permute(0, 1, 4, 2, 3, 5).reshape(members, rows, length, heads * size)
    return project(mixed, weights, "attention.output"), carry


def rotate(x: torch.Tensor, rotation: torch.Tensor) -> torch.Tensor:
    """Return `x` `[E, B, T, heads, head_dim]` with its feature pairs (2i, 2i + 1) rotated by position.

    `rotation` is that of `AttentionGeometry`. The result has the dtype of `x`; below float64 it is computed in float32.
    """
    wide = x if x.dtype == torch.float64 else x.to(torch.float32)
    turned = torch.view_as_complex(wide.view(*x.shape[:-1], -1, 2)) * rotation
    return torch.view_as_real(turned).flatten(-2).to(x.dtype)


def _rotation(config: DecoderConfig, batch: Batch, dtype: torch.dtype) -> torch.Tensor:
    exponents = -2.0 * np.arange(config.head_width // 2) / config.head_width
    angles = batch.positions[:, :, None, None] * config.rope_base**exponents
    return torch.from_numpy(np.cos(angles) + 1j * np.sin(angles)).to(dtype)
