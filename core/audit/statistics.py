"""What a stored matrix looks like: its standard deviation and the distribution it was drawn from."""

from __future__ import annotations

import math

import torch

# Fourth standardized moments of the candidates; a normal cut at two standard deviations lies between.
KURTOSIS = {"uniform": 1.8, "truncated normal": 2.3653, "normal": 3.0}
SMALLEST_SAMPLE = 256


def standard_deviation(tensor: torch.Tensor) -> float:
    """Population standard deviation of all values, in float64."""
    values = tensor.detach().to(torch.float64)
    return float(values.std(correction=0)) if values.numel() else 0.0


def distribution(tensor: torch.Tensor) -> str:
    """`zeros`, `constant`, `uniform`, `truncated normal`, `normal`, or `unclear` where the moments decide nothing."""
    values = tensor.detach().to(torch.float64).flatten()
    if not values.numel() or not bool(values.isfinite().all()):
        return "unclear"
    if not bool(values.any()):
        return "zeros"
    centred = values - values.mean()
    variance = float(centred.square().mean())
    if variance == 0.0:
        return "constant"
    if values.numel() < SMALLEST_SAMPLE:
        return "unclear"
    kurtosis = float((centred / math.sqrt(variance)).pow(4).mean())
    # The sampling error of a normal's kurtosis; that of the flatter candidates is smaller.
    tolerance = 5.0 * math.sqrt(24.0 / values.numel())
    name, distance = min(((n, abs(kurtosis - k)) for n, k in KURTOSIS.items()), key=lambda pair: pair[1])
    return name if distance <= tolerance else "unclear"
