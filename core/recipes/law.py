"""Laws: the factor by which a recipe multiplies a weight matrix, as a function of its block and the decoder's sizes.

A law is written as an expression of symbols such as `(2 * L) ** -HALF`. The printed formula and the value both come
from this one object.
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
    """The numbers that a law may use for one weight matrix.

    `block` is its block l counted from 0 (0 outside the blocks), `blocks` the depth L, `base_std` the standard
    deviation of its base weights.
    """

    block: int
    blocks: int
    fan_in: int
    fan_out: int
    width: int
    base_std: float


@dataclass(frozen=True)
class Expression:
    """A formula: its text, and a function that returns its value for one `Matrix`.

    `binding` is the precedence of its outermost operator, from which parentheses follow.
    """

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
    """Return the expression that has the same value for every matrix."""
    return Expression(f"{value:g}", lambda _: value)


def stepwise(*steps: tuple[float, int], beyond: float) -> Expression:
    """Return an expression that is a step function of the depth L.

    `steps` are pairs (value, last depth) with increasing depths; the value is that of the first step with L <= last
    depth, and `beyond` after the last step.
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
    """The law on one weight matrix: first normalize its columns or rows if `normalize` says so, then multiply it.

    `coefficient` returns the factor for a `Matrix`; `formula` is that factor as text.
    """

    formula: str
    coefficient: Callable[[Matrix], float] = lambda _: 1.0
    normalize: Normalize | None = None

    def __mul__(self, other: Law) -> Law:
        """Return the law that applies both: unit norm first if either law has it, then the product of the factors."""
        return Law(
            f"{self.formula} times {other.formula}",
            lambda matrix: self.coefficient(matrix) * other.coefficient(matrix),
            self.normalize or other.normalize,
        )


UNIT_COLUMNS = Law("every column of unit norm", normalize="columns")
UNIT_ROWS = Law("every row of unit norm", normalize="rows")


def relative(factor: Expression) -> Law:
    """Return the law that multiplies the base weights by `factor`."""
    return Law(factor.text, factor.value)


def absolute(std: Expression) -> Law:
    """Return the law that gives the weights the standard deviation `std`: it multiplies them by std / their own std."""
    return Law(f"std {std.text}", lambda matrix: std.value(matrix) / matrix.base_std)


def forward_factor(factor: Expression) -> DepthLaw:
    """Return a factor of the forward pass from an expression, which may use only the block l and the depth L."""
    return DepthLaw(factor.text, lambda block, blocks: factor.value(Matrix(block, blocks, 0, 0, 0, 0.0)))


def depth_factor(blocks: int) -> float:
    """Return L^(-1/2) for L = `blocks` complete blocks. Raises `ConstructionError` if L is not a positive integer."""
    if isinstance(blocks, bool) or not isinstance(blocks, int) or blocks <= 0:
        raise ConstructionError(
            f"The depth factor L^(-1/2) is not defined at {blocks!r} blocks; use at least one block."
        )
    return 1.0 / math.sqrt(blocks)
