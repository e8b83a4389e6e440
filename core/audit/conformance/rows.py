"""Writers, readers, depths and profiles as they stand in the document."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from core.audit.conformance.diagnosis import ratio_of
from core.audit.conformance.matrices import Stored
from core.audit.conformance.profile import profile_rows
from core.audit.conformance.reading import Reading
from core.audit.conformance.settle import Settled, grouped
from core.audit.conformance.spread import tolerance


def matrix_rows(
    rows: list[dict[str, Any]], matrices: Sequence[Stored], settled: Settled, draws: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The measured rows of writers or readers, a part of a tensor a row, beside what is declared."""
    first, rule = settled.readings[0], settled.rule
    filled = []
    for matrix in matrices:
        row = next((row for row in rows if row["name"] == matrix.name), {"name": matrix.name, "block": matrix.block})
        factor: float | None = None
        if rule is not None and matrix.writes:
            factor = rule.stored(matrix, first.blocks, first.width, first.base)
        elif rule is not None:
            allowed = rule.readers(matrix, first.blocks, first.width, first.base)
            factor = allowed[0] if len(allowed) == 1 else None
        base = first.base.std(matrix)
        declared = None if factor is None else factor * base
        filled.append(
            {
                **row,
                "fan_in": matrix.fan_in,
                "fan_out": matrix.fan_out,
                "part": matrix.part,
                "branch": matrix.kind,
                "distribution": matrix.spread.distribution,
                "truncation": matrix.spread.truncation,
                "std": _finite(matrix.spread.std),
                "mean": _finite(matrix.spread.mean),
                "declared_std": declared,
                "ratio": _finite(matrix.spread.std / declared) if declared else None,
                "base_std": base,
                "base_ratio": _finite(matrix.spread.std / base),
                "forward": matrix.forward if matrix.writes else None,
                "effective_ratio": _effective(settled, matrix) if matrix.writes else None,
                "tolerance": _finite(math.expm1(tolerance(matrix.spread.count))),
                "coordinates": matrix.spread.count,
                "draw": draws.get(matrix.name),
            }
        )
    return filled


def _effective(settled: Settled, matrix: Stored) -> float | None:
    """Stored and forward factor together over what the rule asks of both."""
    if settled.rule is None:
        return None
    return _finite(ratio_of(settled.readings[0], settled.rule, [matrix]))


def profile_of(settled: Settled) -> list[dict[str, Any]]:
    """Ratios of each group of writers over the blocks; without a rule they are to the base.

    `tolerances` is what sampling allows each ratio, relatively; `unscaled` the ratio of a writer left at the base.
    """
    first, rule = settled.readings[0], settled.rule
    ratios: dict[str, list[tuple[int, float]]] = {}
    levels: dict[str, float | None] = {}
    margins: dict[str, float] = {}
    beside: list[dict[str, Any]] = []
    for group in grouped(first.writers):
        pairs: list[tuple[int, float]] = []
        for m in group:
            value = first.effective(m) if rule is None else ratio_of(first, rule, [m]) if m.spread.std != 0 else 0.0
            pairs.append((m.block, value))
        ratios[group[0].group] = pairs
        margins[group[0].group] = 1.5 * tolerance(min(m.spread.count for m in group), 4.0)
        unscaled = [None if rule is None else 1 / (first.declared(rule, m) or math.nan) for m in group]
        levels[group[0].group] = unscaled[-1]
        tolerances = [_finite(math.expm1(tolerance(m.spread.count))) for m in group]
        beside.append({"tolerances": tolerances, "unscaled": [None if u is None else _finite(u) for u in unscaled]})
    rows = profile_rows(ratios, levels, margins)
    return [{**row, **more} for row, more in zip(rows, beside, strict=True)]


def depth_row(settled: Settled, reading: Reading) -> dict[str, Any]:
    """Pooled ratio of each group of writers at one depth."""
    groups = {}
    for group in grouped([m for m in reading.writers if m.spread.std != 0]):
        value = (
            ratio_of(reading, settled.rule, group)
            if settled.rule is not None
            else reading.deviation(group, [1.0] * len(group))
        )
        groups[group[0].group] = _finite(value)
    return {"blocks": reading.blocks, "base_std": reading.base.constant, "ratios": groups}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
