"""Root mean square over valid positions: by selection, safe from overflow and underflow, in float64."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from ..decoder.valid import select_valid

# Beyond this power of two the scale itself would leave the range of normal numbers.
EXPONENT_LIMIT = 1000
# Between these a mean of squares has met no overflow, and no square that counts has vanished.
SAFE_SQUARES = (2.0**-900, 2.0**900)


def scaled(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`values` `[E, n]` divided by a power of two a row, exactly, so that squares neither overflow nor vanish."""
    largest = values.abs().amax(dim=1, keepdim=True)
    exponent = torch.frexp(torch.where(largest.isfinite(), largest, 1.0)).exponent
    exponent = exponent.clamp(-EXPONENT_LIMIT, EXPONENT_LIMIT)
    return torch.ldexp(values, -exponent), exponent[:, 0]


def rms_of_rows(values: torch.Tensor) -> torch.Tensor:
    """RMS of each row of `[E, n]` float64, `[E]`; nonfinite where a value is."""
    squares = values.square().mean(dim=1)
    if bool(((squares > SAFE_SQUARES[0]) & (squares < SAFE_SQUARES[1])).all()):
        return squares.sqrt()
    small, exponent = scaled(values)
    return torch.ldexp(small.square().mean(dim=1).sqrt(), exponent)


def valid_rms(x: torch.Tensor, valid: npt.NDArray[np.bool_]) -> torch.Tensor:
    """sqrt(sum of squares over valid positions and features / (n D)) of every member: float64 `[E]`.

    Raises `ObservationError` where shapes do not fit or nothing is valid.
    """
    return rms_of_rows(select_valid(x, valid))


def cosine_of_rows(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Cosine of each pair of rows of `[E, n]`; NaN where either is zero, for it is undefined there."""
    a, _ = scaled(first)
    b, _ = scaled(second)
    lengths = a.square().sum(dim=1).sqrt() * b.square().sum(dim=1).sqrt()
    return (a * b).sum(dim=1) / lengths
