"""Laws of stored matrices: the coefficient that a recipe gives one matrix, from its place and the decoder's sizes.

A law is written as an expression of symbols, `(2 * L) ** -HALF`; its printed formula and its value come from this one
object.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from ..decoder.graph import DepthLaw
from ..errors import ConstructionError

Normalize = Literal["columns", "rows"]
# How tightly the outermost operator of an expression binds.
SUM, PRODUCT, POWER, SYMBOL = range(4)
HALF, FOURTH = Fraction(1, 2), Fraction(1, 4)


@dataclass(frozen=True)
class Matrix:
    """What a law may use: the matrix's block l (0 outside blocks), the depth L, its fans, the width, the base std."""

    block: int
    blocks: int
    fan_in: int
    fan_out: int
    width: int
    base_std: float


@dataclass(frozen=True)
class Expression:
    """A formula: its text, and a function that gives its value for one matrix."""

    text: str
    value: Callable[[Matrix], float]
    binding: int = SYMBOL

    def __add__(self, number: int) -> Expression:
        return Expression(f"{self.text}+{number}", lambda m: self.value(m) + number, SUM)

    def __rsub__(self, number: int) -> Expression:
        return Expression(f"{number} - {self._operand(PRODUCT)}", lambda m: number - self.value(m), SUM)

    def __mul__(self, other: Expression) -> Expression:
        text = f"{self._operand(PRODUCT)} {other._operand(PRODUCT)}"
        return Expression(text, lambda m: self.value(m) * other.value(m), PRODUCT)

    def __rmul__(self, number: int) -> Expression:
        return Expression(f"{number}{self._operand(PRODUCT)}", lambda m: number * self.value(m), PRODUCT)

    def __truediv__(self, number: int) -> Expression:
        return Expression(f"{self._operand(PRODUCT)}/{number}", lambda m: self.value(m) / number, PRODUCT)

    def __rtruediv__(self, number: int) -> Expression:
        return Expression(f"{number}/{self._operand(POWER)}", lambda m: number / self.value(m), PRODUCT)

    def __pow__(self, exponent: Fraction | int) -> Expression:
        return Expression(f"{self._operand(SYMBOL)}^({exponent})", lambda m: _power(self.value(m), exponent), POWER)

    def _operand(self, binding: int) -> str:
        return self.text if self.binding >= binding else f"({self.text})"


def _power(base: float, exponent: Fraction | int) -> float:
    """Return base^exponent; roots and reciprocals are rounded as sqrt and division are, like the published factor."""
    if abs(exponent) == HALF:
        base, exponent = math.sqrt(base), int(2 * exponent)
    return 1.0 / base if exponent == -1 else float(base ** float(exponent))


L = Expression("L", lambda m: m.blocks)
l = Expression("l", lambda m: m.block)  # noqa: E741 (the letter of the printed formulas)
d = Expression("d", lambda m: m.width)
fan_in = Expression("fan_in", lambda m: m.fan_in)


def constant(value: float) -> Expression:
    """Return the expression that has this value for every matrix, whatever its block and sizes."""
    return Expression(f"{value:g}", lambda _: value)


def stepwise(*steps: tuple[float, int], beyond: float) -> Expression:
    """Return an expression of the depth L: the value of the first step (value, last depth) with L <= last depth.

    Beyond all steps the value is `beyond`.
    """
    (first, depth), *rest = steps
    told = [f"{_short(first)} to {depth} blocks", *(f"{_short(value)} to {depth}" for value, depth in rest)]
    return Expression(
        ", ".join([*told, f"{_short(beyond)} beyond"]),
        lambda m: next((value for value, depth in steps if m.blocks <= depth), beyond),
        SUM,
    )


def _short(value: float) -> str:
    return f"{value:g}".replace("e-0", "e-")


@dataclass(frozen=True)
class Law:
    """A law on one matrix: `formula` is the coefficient as text.

    `normalize` first sets columns or rows to unit norm.
    """

    formula: str
    coefficient: Callable[[Matrix], float] = lambda _: 1.0
    normalize: Normalize | None = None

    def __mul__(self, other: Law) -> Law:
        """Return both laws on one matrix: unit norm first if either has it, then the product of the coefficients."""
        return Law(
            f"{self.formula} times {other.formula}",
            lambda matrix: self.coefficient(matrix) * other.coefficient(matrix),
            self.normalize or other.normalize,
        )


UNIT_COLUMNS = Law("every column of unit norm", normalize="columns")
UNIT_ROWS = Law("every row of unit norm", normalize="rows")


def relative(factor: Expression) -> Law:
    """Return the law that multiplies the base draw by a factor."""
    return Law(factor.text, factor.value)


def absolute(std: Expression) -> Law:
    """Return the law that sets an absolute standard deviation: it multiplies the base draw by std / its own std."""
    return Law(f"std {std.text}", lambda matrix: std.value(matrix) / matrix.base_std)


def forward_factor(factor: Expression) -> DepthLaw:
    """Return a coefficient of the forward; it may use only the block and the depth."""
    return DepthLaw(factor.text, lambda block, blocks: factor.value(Matrix(block, blocks, 0, 0, 0, 0.0)))


def depth_factor(blocks: int) -> float:
    """Return L^(-1/2) for L > 0 complete blocks. Raises `ConstructionError` for L = 0, where it is not defined."""
    if isinstance(blocks, bool) or not isinstance(blocks, int) or blocks <= 0:
        raise ConstructionError(
            f"The depth factor L^(-1/2) is not defined at {blocks!r} blocks; use at least one block."
        )
    return 1.0 / math.sqrt(blocks)
