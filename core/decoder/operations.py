"""Matrix products and norms for all members (models of the batched run) at once.

A weight has a leading size G that divides the number of members E; each slice serves E / G consecutive members.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from .drawn_matrix import DrawnMatrix
from .graph import TANH_SLOPE, Norm
from .weights import Weights, tensor

# From this many multiplications on torch multiplies batches of matrices by another kernel, whose last bits differ.
TINY_PRODUCT = 400
# Coordinates up to which the matrices of one member that read the same rows are copied side by side.
JOINT_SIZE = 4096


def members_view(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return `x` `[E, ..., D]` as `[G, rows, D]`, where G is the leading size of `weight`.

    Members that share a slice of the weight stand together, so that one product serves them.
    """
    return x.reshape(weight.shape[0], -1, x.shape[-1])


def project(x: torch.Tensor, weights: Weights, name: str) -> torch.Tensor:
    """Return x W + b `[E, B, T, fan_out]` for `x` `[E, B, T, fan_in]`.

    W `[G, fan_in, fan_out]` is the weight `{name}.weight` and b `[G, fan_out]` the weight `{name}.bias`, if present; G
    divides E.
    """
    y = product(x, matrix(weights, f"{name}.weight"))
    bias = tensor(weights, f"{name}.bias")
    return y if bias is None else add_by_channel(y, bias)


def product(x: torch.Tensor, weight: torch.Tensor | DrawnMatrix) -> torch.Tensor:
    """Return x W `[E, ..., fan_out]` for `x` `[E, ..., fan_in]` and W = `weight` `[G, fan_in, fan_out]`.

    G divides the number of members E. The bits of a member's result do not depend on the other members, unless W is
    drawn tile by tile.
    """
    if isinstance(weight, DrawnMatrix):
        return weight.product(x)
    member = x.numel() // x.shape[0] * weight.shape[-1]
    if member < TINY_PRODUCT <= member * (x.shape[0] // weight.shape[0]):
        weight = _spread(weight, x.shape[0])
    return torch.bmm(members_view(x, weight), weight).view(*x.shape[:-1], weight.shape[-1])


def project_jointly(x: torch.Tensor, weights: Weights, names: Sequence[str]) -> torch.Tensor:
    """Return the projections `names` of the same rows `x`, concatenated on the last axis.

    Small matrices are concatenated before one product; for large ones the copy would cost more than separate products.
    """
    found = [matrix(weights, f"{name}.weight") for name in names]
    matrices = [weight for weight in found if isinstance(weight, torch.Tensor)]
    size = sum(weight.shape[1] * weight.shape[2] for weight in matrices)
    if size > JOINT_SIZE or len(matrices) != len(found):
        return torch.cat([project(x, weights, name) for name in names], dim=-1)
    joint: dict[str, torch.Tensor | DrawnMatrix | None] = {"joint.weight": _side_by_side(matrices)}
    biases = [tensor(weights, f"{name}.bias") for name in names]
    if any(bias is not None for bias in biases):
        joint["joint.bias"] = _side_by_side(
            [
                weight.new_zeros(1, weight.shape[-1]) if bias is None else bias
                for bias, weight in zip(biases, matrices, strict=True)
            ]
        )
    return project(x, joint, "joint")


def _side_by_side(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Concatenate tensors on the last axis; leading sizes that differ are expanded to the smallest common size."""
    slices = math.lcm(*(one.shape[0] for one in tensors))
    return torch.cat([_spread(one, slices) for one in tensors], dim=-1)


def _spread(repeated: torch.Tensor, slices: int) -> torch.Tensor:
    repeats = slices // repeated.shape[0]
    return repeated if repeats == 1 else repeated.repeat_interleave(repeats, dim=0)


def matrix(weights: Weights, name: str) -> torch.Tensor | DrawnMatrix:
    """Return the weight `name`, a matrix: a tensor or a `DrawnMatrix`. Raises `KeyError` if there is none."""
    found = weights[name]
    assert found is not None
    return found


def looked_up(table: torch.Tensor | DrawnMatrix, ids: torch.Tensor) -> torch.Tensor:
    """Return the rows number `ids` of an embedding `[G, size, D]`: a tensor `[G, *ids.shape, D]`."""
    return table.rows(ids) if isinstance(table, DrawnMatrix) else table[:, ids.to(table.device)]


def add_by_channel(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Return `x` `[E, ..., D]` plus `bias` `[G, D]`; each slice of the bias is added to the members that share it."""
    return (members_view(x, bias) + bias[:, None]).view(x.shape)


def apply_norm(norm: Norm, x: torch.Tensor, weights: Weights, epsilon: float) -> torch.Tensor:
    """Return `x` after a norm over the last axis, in its shape and dtype.

    The norm's gain and bias `[G, D]` are then applied if `weights` holds them; absent ones are ones and zeros.
    """
    y = _row_transform(norm, x, epsilon)
    if norm.parameter is not None:
        gain, bias = tensor(weights, f"{norm.parameter}.gain"), tensor(weights, f"{norm.parameter}.bias")
        if gain is not None:
            y = (members_view(y, gain) * gain[:, None]).view(x.shape)
        if bias is not None:
            y = add_by_channel(y, bias)
    return y if norm.factor == 1.0 else y * norm.factor


def _row_transform(norm: Norm, x: torch.Tensor, epsilon: float) -> torch.Tensor:
    if norm.kind == "tanh":
        return torch.tanh(TANH_SLOPE * x)
    wide = x if x.dtype == torch.float64 else x.to(torch.float32)
    if norm.kind == "layernorm":
        wide = wide - wide.mean(dim=-1, keepdim=True)
    squares = (wide * wide).sum(dim=-1, keepdim=True)
    if norm.kind != "unit":
        # One kernel for sum / D + epsilon; this runs twice a block on small tensors, where kernels are the cost.
        squares = torch.add(wide.new_tensor(epsilon), squares, alpha=1 / x.shape[-1])
    return (wide * torch.rsqrt(squares)).to(x.dtype)
