"""What is kept of a cell beside its sites: a few scalars, from which every summary is made."""

from __future__ import annotations

import numpy as np

from ..decoder.splitmix64 import FloatArray
from ..health.sites import site_ratios

RATIOS = (
    "largest_activation_ratio", "smallest_activation_ratio", "last_activation_ratio",
    "largest_adjoint_ratio", "smallest_adjoint_ratio", "input_adjoint_ratio",
)  # fmt: skip
QUANTITIES = (*RATIOS, "loss_nats")
# Indices of the quantities that decide whether every ratio of a cell lies within the band.
EXTREMES = [QUANTITIES.index(name) for name in RATIOS if name.startswith(("largest", "smallest"))]


def split_numbers(numbers: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Loss `[n]`, activation RMS `[n, S]` and adjoint RMS `[n, S]` of stored rows `[n, 1 + 2 S]`."""
    sites = (numbers.shape[1] - 1) // 2
    return numbers[:, 0], numbers[:, 1 : 1 + sites], numbers[:, 1 + sites :]


def ratios(numbers: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Activation ratio to the input and adjoint ratio to the last site of stored rows, `[n, S]` each."""
    _, activation, adjoint = split_numbers(numbers)
    return site_ratios(activation, adjoint)


def quantities(numbers: FloatArray) -> FloatArray:
    """The scalars of `QUANTITIES` of every stored row, `[n, len(QUANTITIES)]`."""
    activation, adjoint = ratios(numbers)
    columns = [
        activation.max(axis=1), activation.min(axis=1), activation[:, -1],
        adjoint.max(axis=1), adjoint.min(axis=1), adjoint[:, 0],
        numbers[:, 0],
    ]  # fmt: skip
    return np.stack(columns, axis=1)
