"""Laws of stored matrices: the coefficient that a recipe gives one matrix, from its place and the decoder's sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from core.errors import ZeroDepth

Normalize = Literal["columns", "rows"]


@dataclass(frozen=True)
class Matrix:
    """What a law may read: the matrix's block l (0 outside blocks), the depth L, its fans, the width and base std."""

    block: int
    blocks: int
    fan_in: int
    fan_out: int
    width: int
    base_std: float


@dataclass(frozen=True)
class Law:
    """`formula` says the coefficient in words; `normalize` sets every column or row to unit norm first."""

    formula: str
    coefficient: Callable[[Matrix], float] = lambda _: 1.0
    normalize: Normalize | None = None

    def __mul__(self, other: Law) -> Law:
        """Both laws on one matrix: unit norm first where either asks for it, then the product of the coefficients."""
        return Law(
            f"{self.formula} times {other.formula}",
            lambda matrix: self.coefficient(matrix) * other.coefficient(matrix),
            self.normalize or other.normalize,
        )


def depth_factor(blocks: int) -> float:
    """L^(-1/2) for L > 0 complete blocks; refuses L = 0, where it is not defined."""
    if isinstance(blocks, bool) or not isinstance(blocks, int) or blocks <= 0:
        raise ZeroDepth(f"The depth factor L^(-1/2) is not defined at {blocks!r} blocks; use at least one block.")
    return 1.0 / math.sqrt(blocks)


def power(formula: str, base: Callable[[Matrix], float], exponent: float = -0.5) -> Law:
    """The coefficient base^exponent; at -1/2 it rounds as 1 / sqrt does, like the published factor."""
    if exponent == -0.5:
        return Law(formula, lambda matrix: 1.0 / math.sqrt(base(matrix)))
    return Law(formula, lambda matrix: base(matrix) ** exponent)


def absolute(formula: str, std: Callable[[Matrix], float]) -> Law:
    """An absolute standard deviation: the base draw times std / its own standard deviation."""
    return Law(formula, lambda matrix: std(matrix) / matrix.base_std)
