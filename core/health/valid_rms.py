"""Root mean square over valid positions: by selection, safe from overflow and underflow, in float64."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from core.errors import GeometryError, NoValidPositions

# Beyond this power of two the scale itself would leave the range of normal numbers.
EXPONENT_LIMIT = 1000


def select_valid(x: torch.Tensor, valid: npt.NDArray[np.bool_]) -> torch.Tensor:
    """The valid features of `[E, B, T, D]` as float64 `[E, n * D]`; invalid ones are left out, not multiplied."""
    if x.dim() != 4 or tuple(x.shape[1:3]) != valid.shape:
        raise GeometryError(f"A state of shape {list(x.shape)} does not fit a validity mask of {list(valid.shape)}.")
    kept = np.flatnonzero(valid)
    if not len(kept):
        raise NoValidPositions("No position is valid; mark at least one position valid.")
    rows = x.detach().flatten(1, 2)
    if len(kept) != rows.shape[1]:
        rows = rows[:, torch.from_numpy(kept).to(rows.device)]
    return rows.to(torch.float64).flatten(1)


def scaled(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`values` `[E, n]` divided by a power of two a row, exactly, so that squares neither overflow nor vanish."""
    largest = values.abs().amax(dim=1, keepdim=True)
    exponent = torch.frexp(torch.where(largest.isfinite(), largest, 1.0)).exponent
    exponent = exponent.clamp(-EXPONENT_LIMIT, EXPONENT_LIMIT)
    return torch.ldexp(values, -exponent), exponent[:, 0]


def rms_of_rows(values: torch.Tensor) -> torch.Tensor:
    """RMS of each row of `[E, n]` float64, `[E]`; nonfinite where a value is."""
    small, exponent = scaled(values)
    return torch.ldexp(small.square().mean(dim=1).sqrt(), exponent)


def valid_rms(x: torch.Tensor, valid: npt.NDArray[np.bool_]) -> torch.Tensor:
    """sqrt(sum of squares over valid positions and features / (n D)) of every member: float64 `[E]`.

    Raises `GeometryError` where shapes do not fit and `NoValidPositions` where nothing is valid.
    """
    return rms_of_rows(select_valid(x, valid))


def cosine_of_rows(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Cosine of each pair of rows of `[E, n]`; NaN where either is zero, for it is undefined there."""
    a, _ = scaled(first)
    b, _ = scaled(second)
    lengths = a.square().sum(dim=1).sqrt() * b.square().sum(dim=1).sqrt()
    return (a * b).sum(dim=1) / lengths
