"""The factors of the matrices of one model: their standard deviations divided by the base.

The base is the standard deviation before any depth rule. A writer is a matrix that ends a branch, a reader one that
begins a branch. The forward may multiply a branch by a factor too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from .base_std import BaseStd
from .laws import Rule
from .measure import MatrixStats, ModelStats
from .weight_stats import combined_tolerance, tolerance

# A division by zero at the first block is caught by code in many ways; none of them leaves less than this.
NOT_SMALL = 0.9
# Forward coefficients are exact but for the rounding of their type, at worst bfloat16.
FORWARD_MARGIN = 4e-3


@dataclass(frozen=True)
class Factors:
    """The measured matrices of one model, and the base that they are compared with.

    `pooled` is the base that the readers show, None if they show none.
    """

    stats: ModelStats
    base: BaseStd
    pooled: BaseStd | None = None

    @property
    def blocks(self) -> int:
        """The number of blocks of the measured model."""
        return self.stats.blocks

    @property
    def visible(self) -> list[MatrixStats]:
        """The writers (matrices that end a branch) whose scale reaches the stream: not zero, no norm behind them."""
        return self.stats.visible

    def on(self, base: BaseStd) -> Factors:
        """Return a copy with the same measured matrices and another base standard deviation."""
        return replace(self, base=base)

    def stored(self, matrix: MatrixStats) -> float:
        """Return the stored standard deviation of a matrix divided by the base's (that before any depth rule)."""
        return matrix.weights.std / self.base.std(matrix)

    def effective(self, matrix: MatrixStats) -> float:
        """Return a matrix's stored factor on the base times the forward's factor on its branch.

        Infinite if it is not finite. The base is the standard deviation before any depth rule.
        """
        factor = self.stored(matrix) * matrix.forward
        return factor if math.isfinite(factor) else math.inf

    def asked(self, rule: Rule, matrix: MatrixStats) -> float:
        """Return the factor that a rule requires of a writer, a matrix that ends a branch.

        It is the factor on its weights times that in the forward.
        """
        return rule.stored(matrix, self.stats, self.base) * rule.forward(matrix.block, self.blocks)

    def margin(self, *matrices: MatrixStats) -> float:
        """Return how far the pooled factor of matrices may be off by chance, as a difference of logarithms."""
        return combined_tolerance(tolerance(sum(m.weights.count for m in matrices)), self.base.tolerance)

    def meets(self, matrix: MatrixStats, factor: float) -> bool:
        """Return True if the effective factor of a writer (matrix that ends a branch) is `factor` within sampling
        error.

        If `factor` is infinite, return True if the effective factor is at least `NOT_SMALL`.
        """
        if factor == math.inf:
            return self.effective(matrix) >= NOT_SMALL
        return close(self.effective(matrix), factor, self.margin(matrix))

    def at_base(self, reader: MatrixStats, rule: Rule | None) -> bool:
        """Return True if a reader (a matrix that begins a branch) has the base standard deviation.

        The base times a factor that the rule allows for readers counts too. The base is the one before any depth rule.
        """
        return self.near(reader, (1.0,) if rule is None else (1.0, *self.allowed(rule, reader)))

    def near(self, matrix: MatrixStats, factors: Sequence[float]) -> bool:
        """Return True if a matrix's stored factor is one of `factors`, within its sampling tolerance."""
        return any(close(self.stored(matrix), factor, self.margin(matrix)) for factor in factors)

    def allowed(self, rule: Rule, reader: MatrixStats) -> tuple[float, ...]:
        """Return the factors, as a tuple, that a rule allows for a reader (a matrix that begins a branch)."""
        return rule.readers(reader, self.stats, self.base)

    def deviation(self, matrices: Sequence[MatrixStats], wanted: Sequence[float]) -> float:
        """Return the root mean square of (effective factor / wanted factor) over all values of the matrices.

        NaN for no matrices.
        """
        count = sum(m.weights.count for m in matrices)
        if not count:
            return math.nan
        power = sum(m.weights.count * (self.effective(m) / f) ** 2 for m, f in zip(matrices, wanted, strict=True))
        return math.sqrt(power / count)

    def fits(self, matrices: Sequence[MatrixStats], factor: Callable[[MatrixStats], float] | float) -> bool:
        """Return True if every matrix has its wanted `factor`, and all of them pooled do too; True for no matrices."""
        wanted = [factor(m) if callable(factor) else factor for m in matrices]
        if not wanted:
            return True
        if self.carried(matrices):
            return all(close(m.forward, f, FORWARD_MARGIN) for m, f in zip(matrices, wanted, strict=True))
        if not all(self.meets(m, f) for m, f in zip(matrices, wanted, strict=True)):
            return False
        if any(f <= 0 or not math.isfinite(f) for f in wanted):
            return True
        return close(self.deviation(matrices, wanted), 1.0, self.margin(*matrices))

    def carried(self, matrices: Sequence[MatrixStats]) -> bool:
        """Return True if the matrices are unscaled and their whole depth factor is in the forward (so it is exact)."""
        forward = [m.forward for m in matrices]
        if 0 in forward or all(factor == 1 for factor in forward):
            return False
        each = all(close(self.stored(m), 1.0, self.margin(m)) for m in matrices)
        return each and close(self.deviation(matrices, forward), 1.0, self.margin(*matrices))

    def ratio(self, rule: Rule | None, matrices: Sequence[MatrixStats]) -> float:
        """Return the pooled ratio of the writers' factors to those that the rule requires, or to 1 without a rule.

        Infinite if one of the factors is infinite, or if the rule requires 0 or less.
        """
        wanted = [1.0 if rule is None else self.asked(rule, m) for m in matrices]
        infinite = rule is not None and any(math.isinf(self.effective(m)) for m in matrices)
        return math.inf if infinite or any(f <= 0 for f in wanted) else self.deviation(matrices, wanted)

    def alike(self, group: Sequence[MatrixStats]) -> list[MatrixStats]:
        """Return the visible writers (matrices that end a branch) of this model in the same groups as those given.

        A group is the name without its numbers, so that a matrix has the same group in every block.
        """
        names = {m.group for m in group}
        return [m for m in self.visible if m.group in names]


def close(one: float, two: float, margin: float) -> bool:
    """Return True if two factors differ by at most `margin` in their logarithms.

    Factors that are not positive and finite must be equal.
    """
    if one <= 0 or two <= 0 or not (math.isfinite(one) and math.isfinite(two)):
        return one == two
    return abs(math.log(one / two)) <= margin
