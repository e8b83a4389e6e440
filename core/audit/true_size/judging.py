"""Judge a model at its true size: the statistics of every matrix as it was drawn, through the usual resolution.

What only the code decides (saving and loading, which parameters of a zero branch learn, a second depth) is tried on the
small model in which the stream was proved.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ...errors import AuditError, shown
from ...health.band import DEFAULT_BAND, Band
from ..initialization.checks_integrity import reloaded, sharing, unwritten
from ..initialization.checks_scale import CHECKS
from ..initialization.checks_stream import stream_findings
from ..initialization.checks_zero import zero_branches
from ..initialization.corrected import Corrected, corrections
from ..initialization.document import matrix_rows, twin_document
from ..initialization.findings import Finding, ordered
from ..initialization.judge import Judgement, at_depth, stream_notes
from ..initialization.laws import declared_rule
from ..initialization.measure import MatrixStats, ModelStats, measure
from ..initialization.rebuild import Rebuilder
from ..initialization.resolution import Resolution
from ..initialization.resolve import resolve
from ..initialization.sign_hash import compare_digests, repeated_digests, sign_hashes
from ..report.answer import answered
from ..report.result import AuditResult
from ..trace.discovery import Discovery
from .drawing import Drawing

ONE_DEPTH = "Judged at {} blocks alone, where a depth law can be met by coincidence."
NOT_AGAIN = "The corrected model is not observed block by block; audit it again after the repair."


def document_at_true_size(
    result: AuditResult,
    small: AuditResult,
    drawing: Drawing,
    source: Rebuilder,
    *,
    rule: str,
    sigma: float | None,
    deep: bool,
    band: Band = DEFAULT_BAND,
) -> dict[str, Any]:
    """Return the document of a model that was measured at its true size, its stream having been proved in `small`.

    `source` builds the small model again and holds the large one's settings; with `deep` its other depth counts.
    """
    judgement = judged_at_true_size(result, small, drawing, source, rule=rule, sigma=sigma, deep=deep)
    found = judgement.resolution
    assert found is not None
    document = result.document(
        band,
        matrices=(
            matrix_rows(found, found.first.stats.writers, judgement.hashes),
            matrix_rows(found, found.first.stats.readers, judgement.hashes),
        ),
        conformance=judgement.document(),
        twin=twin_document(judgement.corrected, band),
    )
    return document | answered(document, result, found, judgement.findings, source, reseeds=False, band=band)


def judged_at_true_size(
    result: AuditResult,
    small: AuditResult,
    drawing: Drawing,
    source: Rebuilder,
    *,
    rule: str,
    sigma: float | None,
    deep: bool,
) -> Judgement:
    """Return the judgement of every tensor, as `core.audit.initialization.judge.judge` does for a model in memory."""
    names = result.discovery.names
    declared = declared_rule(rule, len({site.block for site in result.discovery.sites}))
    first = stats_at_true_size(measure(small.discovery), small.discovery, result.discovery, drawing)
    if not first.writers:
        raise AuditError(f"No writer was found, so no scale can be judged: {result.identity.reason}")
    other = at_depth(small, source, first.blocks) if deep else None
    stats = [first, other] if other is not None and other.blocks != first.blocks else [first]
    found = resolve(stats, declared, sigma=sigma, settings=source.settings)
    vectors = {name: p for name, p in names.parameters.items() if not p.is_meta}
    digests = drawing.digests | sign_hashes({name: p for name, p in vectors.items() if p.dim() > 1})
    factors = corrections(found)
    every = f"Every one of the {len(names.parameters):,} tensors was drawn and read."
    return Judgement(
        rule=found.rule.name if found.rule else None,
        findings=ordered(
            [
                *_checked(small, found, drawing),
                *sharing(repeated_digests(digests), names.aliases),
                *reloaded(small.discovery.guard.model, source),
            ]
        ),
        resolution=found,
        corrected=_not_again(factors) if factors else None,
        notes=(every, *([ONE_DEPTH.format(first.blocks)] if len(stats) == 1 else []), *stream_notes(result)),
        hashes=drawing.digests,
    )


def _checked(small: AuditResult, found: Resolution, drawing: Drawing) -> Iterator[Finding]:
    """Yield findings about scale, unwritten memory and branches that add zero."""
    scale = [finding for check in CHECKS for finding in check(found)]
    yield from scale
    explained = {name for f in scale if f.kind == "depth-convention" for name in f.parameters}
    blank = [name for name, reading in drawing.readings.items() if reading.blank]
    odd = [n for n, reading in drawing.readings.items() if reading.odd and n not in explained and n not in blank]
    yield from unwritten(blank, odd, max((drawing.readings[name].weights.largest for name in odd), default=0.0))
    stream = list(stream_findings(small.discovery))
    yield from stream
    lost = any(finding.kind == "stream-lost" for finding in stream)
    yield from zero_branches(small.discovery, found.first.stats, lost=lost)


def _not_again(factors: Mapping[tuple[str, str], float]) -> Corrected:
    named = {name + part: factor for (name, part), factor in factors.items()}
    return Corrected(observation=None, refusal=NOT_AGAIN, factors=named, draws=compare_digests({}, {}))


def stats_at_true_size(stats: ModelStats, small: Discovery, large: Discovery, drawing: Drawing) -> ModelStats:
    """Return the writers and readers of the small model with the large one's statistics, shapes, fans and slices."""
    writers = tuple(_at_size(stats.writers, small, large, drawing))
    readers = tuple(_at_size(stats.readers, small, large, drawing))
    inside = {m.name for m in (*writers, *readers)}
    outside = {
        name: (drawing.readings[name].weights.std, p.numel())
        for name, p in large.names.parameters.items()
        if p.dim() == 2 and name not in inside and min(p.shape) > 1 and name in drawing.readings
    }
    return replace(stats, width=large.width, writers=writers, readers=readers, outside=outside)


def _once(matrices: Iterable[MatrixStats]) -> Iterator[MatrixStats]:
    """Yield the first of the slices of each parameter."""
    seen: set[str] = set()
    for matrix in matrices:
        if matrix.name not in seen:
            seen.add(matrix.name)
            yield matrix


def _at_size(
    matrices: tuple[MatrixStats, ...], small: Discovery, large: Discovery, drawing: Drawing
) -> Iterator[MatrixStats]:
    for matrix in _once(matrices):
        if matrix.part.startswith("[at"):
            raise AuditError(
                f"The parameter {shown(matrix.name)} is read and written in parts, which is not judged block by block; "
                "audit the model with small widths."
            )
        branch = large.sites[matrix.place].branches[matrix.branch]
        uses = branch.writers if matrix.writes else branch.readers
        use = next(use for use in uses if matrix.name in large.names.of(use.parameters))
        assert use.fan_in is not None
        factor = _coefficient(large, matrix) / (_coefficient(small, matrix) or math.inf) if matrix.writes else 1.0
        for part, weights in drawing.parts[matrix.name]:
            yield replace(
                matrix,
                part=part.label,
                fan_in=use.fan_in,
                fan_out=use.fan_out,
                shape=drawing.shapes[matrix.name],
                weights=weights,
                joint=matrix.joint * use.fan_out // matrix.fan_out,
                piece=matrix.piece * use.fan_out // matrix.fan_out,
                forward=matrix.forward * factor if math.isfinite(factor) and factor > 0 else matrix.forward,
            )


def _coefficient(discovery: Discovery, matrix: MatrixStats) -> float:
    """Return the size of the coefficient on a matrix's branch; 1 where it was not measured or depends on the batch."""
    contributions = discovery.sites[matrix.place].contributions
    if not contributions or contributions[matrix.branch].coefficient.spread == "varying":
        return 1.0
    return abs(contributions[matrix.branch].coefficient.value)
