"""The repairs of findings: which parameters to draw again, and with which standard deviation.

`repair_code` writes the code. The standard deviation is absolute, so a repair may be run twice, or beside another.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ...recipes.catalogue import recipe
from ..initialization.base_std import (
    CONSTANT,
    FAN_IN,
    HARD_CODED,
    LARGER_FAN,
    BaseStd,
    FanLaw,
    Origin,
    configured_base,
)
from ..initialization.findings import Finding
from ..initialization.laws import Rule
from ..initialization.measure import MatrixStats, grouped
from ..initialization.resolution import Remark, Resolution
from ..initialization.weight_stats import ORTHOGONAL

# Findings that drawing the named parameters at their own standard deviation mends.
BY_SCALE = frozenset({
    "absent", "partial", "on-reader", "on-everything", "twice", "depth-convention", "wrong-fan-in", "mixed-depth",
    "range-ignored",
})  # fmt: skip
# The rule that a model without one is offered: the most common on public code.
OFFERED = "gpt2"
NORMAL = "normal"
_INDEX = re.compile(r"\[((?::, )*)(\d+):(\d+)\]")


@dataclass(frozen=True, kw_only=True)
class Draw:
    """How to draw one parameter, or the range `part` of it: std = `constant` * law(fan_in, fan_out).

    `axes` are the axes of the parameter's shape that are (fan_in, fan_out). A truncated normal is cut at `cut` standard
    deviations, and `shrink` is its standard deviation over that before the cut. If `fill` is given, the parameter is
    filled with this number instead.
    """

    name: str
    constant: float
    part: str = ""
    law: FanLaw = CONSTANT
    axes: tuple[int, int] = (1, 0)
    distribution: str = NORMAL
    cut: float | None = None
    shrink: float = 1.0
    fill: float | None = None

    def std(self, shape: Sequence[int]) -> float:
        """Return the standard deviation to draw a parameter of this shape with."""
        if self.law == CONSTANT:
            return self.constant
        return self.constant * self.law.of(shape[self.axes[0]], shape[self.axes[1]])

    def of(self, parameter: torch.Tensor) -> torch.Tensor:
        """Return the part of a parameter that is drawn, as a view of the tensor."""
        index = _INDEX.fullmatch(self.part)
        if index is None:
            return parameter
        start = int(index[2])
        return parameter.narrow(index[1].count(":"), start, int(index[3]) - start)


@dataclass(frozen=True, kw_only=True)
class Repair:
    """The repair of one kind of finding: the parameters to draw again (`draws`) and the rule of their numbers."""

    kind: str
    rule: Rule | None
    blocks: int
    draws: tuple[Draw, ...]
    # Whether the numbers hold for the widths alone that were audited.
    at_this_width: bool = False


def repairs(
    found: Resolution,
    findings: Sequence[Finding],
    parameters: Mapping[str, torch.Tensor],
    settings: Mapping[str, Any] | None = None,
) -> list[Repair]:
    """Return one `Repair` per finding that drawing parameters anew corrects, in the order of the findings.

    `settings` is the configuration, read for the declared standard deviation.
    """
    asked = _Targets(found, settings)
    mended = []
    for finding in findings:
        draws = _merged(found, list(_draws(asked, finding, parameters)))
        if draws:
            mended.append(asked.repair(finding.kind, found.rule, draws))
    return mended


def offered(found: Resolution) -> Repair | None:
    """Return the `Repair` that is offered to a model without a rule: its writers, drawn by the rule `OFFERED`.

    Writers are the matrices that end a branch. None if a rule is declared or met, or if a norm hides a writer from the
    stream.
    """
    stats = found.first.stats
    if found.rule is not None or not found.first.visible or any(m.hidden for m in stats.writers):
        return None
    asked = _Targets(replace(found, rule=Rule(recipe(OFFERED), guessed=True)), None)
    draws = _merged(found, [draw for m in found.first.visible if (draw := asked.draw(m)) is not None])
    return asked.repair("no-rule-declared", asked.found.rule, draws) if draws else None


@dataclass(frozen=True)
class _Targets:
    """Decides how each matrix should be drawn."""

    found: Resolution
    settings: Mapping[str, Any] | None

    @property
    def base(self) -> BaseStd:
        """The base standard deviation to draw from.

        The configured one where no matrix follows it; by fan_in where all matrices were drawn by fan_out.
        """
        base, readers = self.found.first.base, self.found.first.stats.readers
        if self.found.remark is Remark.UNUSED_RANGE:
            return configured_base(self.settings, readers) or base
        if self.found.remark is Remark.BY_FAN_OUT:
            return replace(base, law=FAN_IN)
        return base

    def repair(self, kind: str, rule: Rule | None, draws: Sequence[Draw]) -> Repair:
        """Return the repair of one kind of finding, with these draws."""
        width = rule is not None and rule.absolute
        return Repair(
            kind=kind, rule=rule, blocks=self.found.first.blocks, draws=tuple(draws), at_this_width=width
        )  # fmt: skip

    def draw(self, matrix: MatrixStats) -> Draw | None:
        """Return the draw of a matrix at the standard deviation that it should have.

        None where that is not known, or where the part is not a range.
        """
        base, factor = self.base, self._factor(matrix)
        if not 0 < factor < math.inf or (matrix.part and _INDEX.fullmatch(matrix.part) is None):
            return None
        axes = _axes(matrix)
        constant = base.constant * base.shrink * factor
        if base.law != CONSTANT and axes is None:
            constant *= base.law.of(matrix.fan_in, matrix.fan_out)
        return _as_drawn(
            Draw(
                name=matrix.name, part=matrix.part, constant=_rounded(constant),
                law=CONSTANT if axes is None else base.law, axes=axes or (1, 0),
            ),
            matrix,
        )  # fmt: skip

    def as_measured(self, group: Sequence[MatrixStats]) -> Iterator[Draw]:
        """Yield draws of matrices at the pooled standard deviation that they have now."""
        count = sum(m.weights.count for m in group)
        pooled = math.sqrt(sum(m.weights.count * m.weights.std**2 for m in group) / count) if count else math.nan
        if 0 < pooled < math.inf:
            for matrix in group:
                if not matrix.part or _INDEX.fullmatch(matrix.part):
                    yield _as_drawn(Draw(name=matrix.name, part=matrix.part, constant=_rounded(pooled)), matrix)

    def table(self, name: str, parameter: torch.Tensor) -> Draw:
        """How to initialize a parameter that neither writes to nor reads from the residual stream.

        A matrix (an embedding table, a projection) is drawn with the base std, or with 0.02 where the base is unknown.
        A vector is filled: with 1 where its name ends in `weight` (a norm's gain), else with 0 (a bias).
        """
        base = self.base
        if parameter.dim() < 2:
            return Draw(name=name, constant=0.0, fill=1.0 if name.rsplit(".", 1)[-1] == "weight" else 0.0)
        known = base.origin is not Origin.NOTHING
        constant = base.constant * base.shrink if known else HARD_CODED
        law = base.law if known and parameter.dim() == 2 and base.law != LARGER_FAN else CONSTANT
        if known and base.law != law:
            constant *= base.law.of(parameter.shape[-1], parameter.shape[-2])
        return Draw(name=name, constant=_rounded(constant), law=law)

    def _factor(self, matrix: MatrixStats) -> float:
        """Return the factor on the base standard deviation that a stored matrix should have."""
        first, rule = self.found.first, self.found.rule
        if rule is None:
            return 1.0
        if matrix.writes:
            return first.on(self.base).asked(rule, matrix) / (matrix.forward or 1.0)
        allowed = rule.readers(matrix, first.stats, self.base)
        has = first.stored(matrix)
        return min(allowed, key=lambda factor: abs(math.log(has / factor)) if 0 < has < math.inf else 0.0)


def _draws(asked: _Targets, finding: Finding, parameters: Mapping[str, torch.Tensor]) -> Iterator[Draw]:
    stats = asked.found.first.stats
    named = [m for m in (*stats.writers, *stats.readers) if m.name in finding.parameters]
    if finding.kind in BY_SCALE:
        if asked.found.remark is Remark.UNUSED_RANGE and finding.kind == "range-ignored":
            named = [*stats.readers, *asked.found.first.visible]
        yield from (draw for m in named if (draw := asked.draw(m)) is not None)
    elif finding.kind == "duplicated":
        rule = asked.found.rule
        own = [m for m in named if m.writes and not m.hidden and rule is not None]
        yield from (draw for m in own if (draw := asked.draw(m)) is not None)
        for group in grouped(m for m in named if m not in own):
            yield from asked.as_measured(group)
        yield from _others(asked, finding.parameters, named, parameters)
    elif finding.kind in ("never-initialised", "dead-branch"):
        if finding.kind == "dead-branch":
            named = _zero(named)
        yield from (draw for m in named if (draw := asked.draw(m)) is not None)
        if finding.kind == "never-initialised":
            yield from _others(asked, finding.parameters, named, parameters)


def _others(
    asked: _Targets, names: Sequence[str], known: Sequence[MatrixStats], parameters: Mapping[str, torch.Tensor]
) -> Iterator[Draw]:
    """Yield draws of the parameters among `names` that neither write to nor read from the stream."""
    matrices = {m.name for m in known}
    yield from (asked.table(name, parameters[name]) for name in names if name not in matrices and name in parameters)


def _zero(named: Sequence[MatrixStats]) -> list[MatrixStats]:
    """Return the zero matrices to draw in branches that add zero: the readers, else the writers.

    A branch whose writer alone is zero can learn.
    """
    zero = [m for m in named if m.weights.std == 0]
    return [m for m in zero if not m.writes] or zero


def _merged(found: Resolution, draws: Sequence[Draw]) -> list[Draw]:
    """Return the draws in order, each once; the parts of a parameter are one draw where all are drawn alike."""
    stats = found.first.stats
    parts: dict[str, set[str]] = {}
    for matrix in (*stats.writers, *stats.readers):
        parts.setdefault(matrix.name, set()).add(matrix.part)
    merged: dict[tuple[str, str], Draw] = {}
    for draw in draws:
        own = {d.part for d in draws if d.name == draw.name and replace(d, part="") == replace(draw, part="")}
        whole = replace(draw, part="") if own == parts.get(draw.name, own) else draw
        merged.setdefault((whole.name, whole.part), whole)
    return list(merged.values())


def _as_drawn(draw: Draw, matrix: MatrixStats) -> Draw:
    """Return the draw with the matrix's present distribution; a plain normal where that is not known."""
    name = matrix.weights.distribution
    if name in ("uniform", ORTHOGONAL):
        return replace(draw, distribution=name)
    if matrix.weights.truncation is not None:
        cut = float(f"{matrix.weights.truncation:.2g}")
        return replace(draw, distribution=name, cut=cut, shrink=_rounded(matrix.weights.shrink))
    return draw


def _axes(matrix: MatrixStats) -> tuple[int, int] | None:
    """Return the axes of the parameter's shape that are (fan_in, fan_out); None where no two axes are."""
    shape, last = matrix.shape, len(matrix.shape) - 1
    pairs = [(last, last - 1), (last - 1, last)] if not matrix.part else []
    return next((p for p in pairs if (shape[p[0]], shape[p[1]]) == (matrix.fan_in, matrix.fan_out)), None)


def _rounded(value: float) -> float:
    """Return the value rounded to six digits, as it is printed in code."""
    return float(f"{value:.6g}")
