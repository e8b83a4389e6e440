"""What a stored matrix looks like: its standard deviation and the distribution it was drawn from."""

from __future__ import annotations

import math

import torch

# Fourth standardized moments of the candidates; a normal cut at two standard deviations lies between.
KURTOSIS = {"uniform": 1.8, "truncated normal": 2.3653, "normal": 3.0}
SMALLEST_SAMPLE, LARGEST_SAMPLE = 256, 2**16


def standard_deviation(tensor: torch.Tensor) -> float:
    """Population standard deviation of all values, in float64."""
    values = tensor.detach().to(torch.float64)
    return float(values.std(correction=0)) if values.numel() else 0.0


def distribution(tensor: torch.Tensor) -> str:
    """`zeros`, `constant`, `uniform`, `truncated normal`, `normal`, or `unclear` where the moments decide nothing.

    Large tensors are judged by `LARGEST_SAMPLE` of their values, spread over all rows and columns.
    """
    values = tensor.detach()
    if not values.numel() or not math.isfinite(float(values.sum(dtype=torch.float64))):
        return "unclear"
    if not bool(values.any()):
        return "zeros"
    sample = _sample(values).to(torch.float64)
    squares = (sample - sample.mean()).square_()
    variance = float(squares.mean())
    if variance == 0.0:
        return "constant"
    if sample.numel() < SMALLEST_SAMPLE:
        return "unclear"
    kurtosis = float(squares.square_().mean()) / variance**2
    # The sampling error of a normal's kurtosis; that of the flatter candidates is smaller.
    tolerance = 5.0 * math.sqrt(24.0 / sample.numel())
    name, distance = min(((n, abs(kurtosis - k)) for n, k in KURTOSIS.items()), key=lambda pair: pair[1])
    return name if distance <= tolerance else "unclear"


def _sample(values: torch.Tensor) -> torch.Tensor:
    """At most `LARGEST_SAMPLE` values at a step that falls on every column alike."""
    step = -(-values.numel() // LARGEST_SAMPLE)
    while step > 1 and math.gcd(step, values.shape[-1]) > 1:
        step += 1
    return values.flatten()[::step]
