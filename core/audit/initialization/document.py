"""The judgement as JSON rows of the audit document: conformance, matrices, depths, profiles and the corrected model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import DepthscopeError
from ...health.band import Band
from ...health.document import arm_document
from ...numerals import finite
from .base_std import BaseStd
from .corrected import Corrected
from .factors import Factors
from .findings import Finding, verdict_of
from .measure import MatrixStats, grouped
from .profile import shape_of
from .resolution import Resolution
from .weight_stats import tolerance
from .words import base_source

Document = dict[str, Any]


def conformance_document(
    rule: str | None, findings: Sequence[Finding], found: Resolution | None, notes: Sequence[str]
) -> Document:
    """Return the part `conformance` of the document as a dict; `found` is None if no scale could be judged."""
    return {
        "rule": rule,
        "formula": found.rule.formula if found is not None and found.rule is not None else None,
        "verdict": verdict_of(findings),
        "base": None if found is None else _base_row(found.first.base),
        "depths": [] if found is None else [_depth_row(found, depth) for depth in found.depths],
        "findings": [finding.row() for finding in findings],
        "profile": [] if found is None else [_profile(found, group) for group in grouped(found.first.stats.writers)],
        "notes": list(notes),
    }


def twin_document(corrected: Corrected | None, band: Band) -> Document:
    """Return the keys of the corrected model (`twin`, `twin_refusal`, `twin_factors`, `twin_draws`) as a dict.

    All values are null or empty if there is no corrected model.
    """
    if corrected is None:
        return {"twin": None, "twin_refusal": None, "twin_factors": {}, "twin_draws": None}
    health, refusal = None, corrected.refusal
    if corrected.observation is not None:
        try:
            health, refusal = arm_document(corrected.observation, 0, band), None
        except DepthscopeError as error:
            refusal = str(error)
    # A base may be so large that a factor is not finite.
    factors = {name: finite(factor) for name, factor in corrected.factors.items()}
    return {
        "twin": health, "twin_refusal": refusal, "twin_factors": factors, "twin_draws": corrected.draws.sentence,
    }  # fmt: skip


def matrix_rows(found: Resolution, matrices: Sequence[MatrixStats], hashes: Mapping[str, str]) -> list[Document]:
    """Return one dict per matrix, or per slice of one: what was measured, and what the rule requires.

    `hashes` maps names to digests of the random draw.
    """
    return [_matrix_row(found, matrix, hashes.get(matrix.name)) for matrix in matrices]


def _matrix_row(found: Resolution, matrix: MatrixStats, draw: str | None) -> Document:
    first, weights, base = found.first, matrix.weights, found.first.base.std(matrix)
    factor = _asked(found, matrix)
    declared = None if factor is None else factor * base
    return {
        "name": matrix.name,
        "block": matrix.block,
        "fan_in": matrix.fan_in,
        "fan_out": matrix.fan_out,
        "distribution": weights.distribution,
        "std": finite(weights.std),
        "declared_std": declared,
        "ratio": finite(weights.std / declared) if declared else None,
        "part": matrix.part,
        "branch": matrix.kind,
        "truncation": weights.truncation,
        "mean": finite(weights.mean),
        "base_std": base,
        "base_ratio": finite(weights.std / base),
        "forward": matrix.forward if matrix.writes else None,
        "effective_ratio": finite(first.ratio(found.rule, [matrix])) if matrix.writes and found.rule else None,
        "tolerance": finite(math.expm1(tolerance(weights.count))),
        "coordinates": weights.count,
        "draw": draw,
    }


def _asked(found: Resolution, matrix: MatrixStats) -> float | None:
    """Return the factor that the rule asks of a stored matrix.

    None without a rule, or where a reader may have several.
    """
    first, rule = found.first, found.rule
    if rule is None:
        return None
    if matrix.writes:
        return rule.stored(matrix, first.stats, first.base)
    allowed = rule.readers(matrix, first.stats, first.base)
    return allowed[0] if len(allowed) == 1 else None


def _base_row(base: BaseStd) -> Document:
    return {
        "law": base.law.formula,
        "constant": base.constant,
        "source": base_source(base),
        "readers_agreeing": base.agreeing,
        "readers": base.readers,
        "truncation_shrink": base.shrink,
    }


def _depth_row(found: Resolution, depth: Factors) -> Document:
    """Return the pooled ratio of each group of writers at one depth; zero writers are left out."""
    groups = grouped(m for m in depth.stats.writers if m.weights.std != 0)
    ratios = {group[0].group: finite(depth.ratio(found.rule, group)) for group in groups}
    return {"blocks": depth.blocks, "base_std": depth.base.constant, "ratios": ratios}


def _profile(found: Resolution, group: Sequence[MatrixStats]) -> Document:
    """Return the profile of one group of writers over the blocks: the ratios to the rule, to the base if there is none.

    An infinite ratio is null. `tolerances` holds the relative sampling tolerance of each ratio, `unscaled` the ratio
    that each writer would have at the base.
    """
    first, rule = found.first, found.rule
    if rule is None:
        ratios = [first.effective(m) for m in group]
    else:
        ratios = [first.ratio(rule, [m]) if m.weights.std != 0 else 0.0 for m in group]
    unscaled = [None if rule is None else 1 / (first.asked(rule, m) or math.nan) for m in group]
    margin = 1.5 * tolerance(min(m.weights.count for m in group), 4.0)
    return {
        "group": group[0].group,
        "blocks": [m.block for m in group],
        "ratios": [finite(ratio) for ratio in ratios],
        "shape": shape_of(ratios, bare=unscaled[-1], margin=margin),
        "tolerances": [finite(math.expm1(tolerance(m.weights.count))) for m in group],
        "unscaled": [finite(value) for value in unscaled],
    }
