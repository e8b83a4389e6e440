"""Everything that is judged of one build of a model: its matrices, their base, and its depth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from core.audit.conformance.base import Base, configured_std, declared_base, pooled_base, usable
from core.audit.conformance.matrices import Stored, stored_matrices
from core.audit.conformance.rules import Rule, close
from core.audit.conformance.spread import joint, tolerance
from core.audit.discovery import Discovery

# A division by zero at the first block is caught by code in many ways; none of them leaves less than this.
NOT_SMALL = 0.9


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One build at one depth. `outside` are standard deviation and count of tables outside the blocks."""

    blocks: int
    width: int
    writers: Sequence[Stored]
    readers: Sequence[Stored]
    base: Base
    pooled: Base | None
    outside: Mapping[str, tuple[float, int]] = field(default_factory=dict)

    def stored(self, matrix: Stored) -> float:
        """Standard deviation over the base's."""
        return matrix.spread.std / self.base.std(matrix)

    def effective(self, matrix: Stored) -> float:
        """The same times what the forward does."""
        factor = self.stored(matrix) * matrix.forward
        return factor if math.isfinite(factor) else math.inf

    def margin(self, matrix: Stored) -> float:
        """Sampling tolerance of a matrix's factor, in log."""
        return joint(tolerance(matrix.spread.count), self.base.tolerance)

    def group_margin(self, matrices: Sequence[Stored]) -> float:
        """Sampling tolerance of the pooled factor of several matrices, in log."""
        return joint(tolerance(sum(m.spread.count for m in matrices)), self.base.tolerance)

    def meets(self, matrix: Stored, factor: float) -> bool:
        """Whether a writer's factor, with the forward, is `factor`; an infinite one is met by any that is not small."""
        if factor == math.inf:
            return self.effective(matrix) >= NOT_SMALL
        return close(self.effective(matrix), factor, self.margin(matrix))

    def deviation(self, matrices: Sequence[Stored], factors: Sequence[float]) -> float:
        """Pooled standard deviation of the matrices over what the factors ask of them."""
        count = sum(m.spread.count for m in matrices)
        power = sum(m.spread.count * (self.effective(m) / f) ** 2 for m, f in zip(matrices, factors, strict=True))
        return math.sqrt(power / count)

    def fits(self, matrices: Sequence[Stored], factors: Sequence[float]) -> bool:
        """Whether every matrix meets its factor, and all of them together do."""
        if not all(self.meets(m, f) for m, f in zip(matrices, factors, strict=True)):
            return False
        if any(f <= 0 or not math.isfinite(f) for f in factors):
            return True
        return close(self.deviation(matrices, factors), 1.0, self.group_margin(matrices))

    def declared(self, rule: Rule, matrix: Stored) -> float:
        """The factor that a rule asks of a writer, forward included."""
        return rule.effective(matrix, self.blocks, self.width, self.base)


def read(discovery: Discovery, sigma: float | None, settings: Mapping[str, Any] | None) -> Reading | None:
    """Measure every writer and reader of a discovery and settle the base; None where there is no writer.

    The base is `sigma`, else the configuration's, else the readers' pooled one. A configured value that no reader and
    no writer could come from is not used, and the finding of ignored ranges says so.
    """
    writers, readers = stored_matrices(discovery)
    if not writers:
        return None
    pooled = pooled_base(readers or writers)
    configured = configured_std(settings)
    if sigma is not None:
        base = declared_base(sigma, "--sigma", readers)
    elif configured is not None:
        base = declared_base(configured[0], configured[1], readers)
    else:
        base = pooled or declared_base(1.0, "nothing to read it from, so 1", readers)
    inside = {m.name for m in (*writers, *readers)}
    outside = {
        name: (float(p.detach().double().std(correction=0)), p.numel())
        for name, p in discovery.names.parameters.items()
        if p.dim() == 2 and name not in inside and min(p.shape) > 1 and p.is_floating_point()
    }
    return Reading(
        blocks=len({site.block for site in discovery.sites}),
        width=discovery.width,
        writers=writers,
        readers=readers,
        base=base,
        pooled=pooled,
        outside=outside,
    )


def rebased(reading: Reading, base: Base) -> Reading:
    """The same measurements beside another base."""
    return replace(reading, base=base)


def visible(reading: Reading) -> list[Stored]:
    """Writers whose scale the stream sees: not zero, not hidden behind a norm; those that are not finite included."""
    return [m for m in reading.writers if not m.hidden and m.spread.std != 0 and m.forward != 0]


def zero(reading: Reading) -> list[Stored]:
    """Writers that are zero, or that the forward multiplies by zero."""
    return [m for m in reading.writers if m.spread.std == 0 or m.forward == 0]


def scaled_readers(reading: Reading, rule: Rule) -> list[Stored]:
    """Readers that carry the factor of their own branch's writer, where the rule leaves readers alone."""
    found = []
    for matrix in usable(reading.readers):
        if matrix.orthonormal:
            continue
        allowed = rule.readers(matrix, reading.blocks, reading.width, reading.base)
        wanted = _writer_factor(reading, rule, matrix)
        factor, margin = reading.stored(matrix), reading.margin(matrix)
        if wanted is None or any(close(factor, one, margin) for one in allowed):
            continue
        if close(factor, wanted, margin):
            found.append(matrix)
    return found


def _writer_factor(reading: Reading, rule: Rule, reader: Stored) -> float | None:
    for matrix in reading.writers:
        if (matrix.place, matrix.branch) == (reader.place, reader.branch):
            return rule.effective(matrix, reading.blocks, reading.width, reading.base)
    return None
