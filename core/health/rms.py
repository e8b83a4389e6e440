"""Root mean square over valid positions, in float64, safe from overflow and underflow."""

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
    """Return (rows of `values` `[E, n]` divided by a power of two each, the exponents `[E]`).

    The division is exact, and the squares of the results neither overflow nor vanish.
    """
    largest = values.abs().amax(dim=1, keepdim=True)
    exponent = torch.frexp(torch.where(largest.isfinite(), largest, 1.0)).exponent
    exponent = exponent.clamp(-EXPONENT_LIMIT, EXPONENT_LIMIT)
    return torch.ldexp(values, -exponent), exponent[:, 0]


def rms_of_rows(values: torch.Tensor) -> torch.Tensor:
    """Return the RMS `[E]` of each row of float64 `[E, n]`; it is not finite if a value in the row is not."""
    squares = values.square().mean(dim=1)
    if bool(((squares > SAFE_SQUARES[0]) & (squares < SAFE_SQUARES[1])).all()):
        return squares.sqrt()
    small, exponent = scaled(values)
    return torch.ldexp(small.square().mean(dim=1).sqrt(), exponent)


def valid_rms(x: torch.Tensor, valid: npt.NDArray[np.bool_]) -> torch.Tensor:
    """Return the RMS of `x` `[E, B, T, D]` over valid positions and features, for every member: float64 `[E]`.

    Raises `ObservationError` if shapes do not match or no position is valid.
    """
    return rms_of_rows(select_valid(x, valid))


def cosine_of_rows(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Return the cosine `[E]` between the rows of two tensors `[E, n]`; NaN where either row is zero."""
    a, _ = scaled(first)
    b, _ = scaled(second)
    lengths = a.square().sum(dim=1).sqrt() * b.square().sum(dim=1).sqrt()
    return (a * b).sum(dim=1) / lengths
