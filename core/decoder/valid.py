"""Selection of valid positions: others are removed, not multiplied by zero, so an infinite value is harmless."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from ..errors import ObservationError


def select_valid(x: torch.Tensor, valid: npt.NDArray[np.bool_]) -> torch.Tensor:
    """Return the features at the n valid positions of `x` `[E, B, T, D]`, one row per member: float64 `[E, n * D]`.

    `valid` is boolean `[B, T]`. Raises `ObservationError` if shapes do not match or no position is valid.
    """
    if x.dim() != 4 or tuple(x.shape[1:3]) != valid.shape:
        raise ObservationError(f"A state of shape {list(x.shape)} does not fit a validity mask of {list(valid.shape)}.")
    kept = np.flatnonzero(valid)
    if not len(kept):
        raise ObservationError("No position is valid; mark at least one position valid.")
    rows = x.detach().flatten(1, 2)
    if len(kept) != rows.shape[1]:
        rows = rows[:, torch.from_numpy(kept).to(rows.device)]
    return rows.to(torch.float64).flatten(1)
