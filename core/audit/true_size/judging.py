"""Judges a model at its true size, by the statistics of every matrix as it was drawn.

What only the code decides (saving and loading, which parameters of a zero branch learn, a second depth) is tried on the
small model in which the stream was proved.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from ...errors import AuditError, shown
from ..initialization.checks_integrity import reloaded, sharing, unwritten
from ..initialization.corrected import Corrected, corrections
from ..initialization.findings import Finding, ordered
from ..initialization.judge import Judgement, at_depth, checked, stream_notes
from ..initialization.laws import declared_rule
from ..initialization.measure import MatrixStats, ModelStats, measure
from ..initialization.rebuild import Rebuilder
from ..initialization.resolve import resolve
from ..initialization.sign_hash import compare_digests, repeated_digests, sign_hashes
from ..report.result import AuditResult
from ..trace.discovery import Discovery
from .drawing import Drawing

ONE_DEPTH = "Judged at {} blocks alone, where a depth law can be met by coincidence."
NOT_AGAIN = "The corrected model is not observed block by block; audit it again after the repair."


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
    """Return the `Judgement` of a model at its true size, as `judge` does for a model in memory."""
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
    every = (
        f"Each of the {len(drawing.readings):,} matrices was drawn and read; the other "
        f"{len(names.parameters) - len(drawing.readings):,} tensors are in memory."
    )
    return Judgement(
        rule=found.rule.name if found.rule else None,
        findings=ordered(
            [
                *checked(small.discovery, found, partial(_unwritten, drawing)),
                *sharing(repeated_digests(digests), names.aliases),
                *reloaded(small.discovery.guard.model, source),
            ]
        ),
        resolution=found,
        corrected=_not_again(factors) if factors else None,
        notes=(every, *([ONE_DEPTH.format(first.blocks)] if len(stats) == 1 else []), *stream_notes(result)),
        hashes=drawing.digests,
    )


def _unwritten(drawing: Drawing, explained: frozenset[str]) -> Iterator[Finding]:
    """Yield findings about matrices that the library never wrote or wrote odd values to."""
    blank = [name for name, reading in drawing.readings.items() if reading.blank]
    odd = [n for n, reading in drawing.readings.items() if reading.odd and n not in explained and n not in blank]
    yield from unwritten(blank, odd, max((drawing.readings[name].weights.largest for name in odd), default=0.0))


def _not_again(factors: Mapping[tuple[str, str], float]) -> Corrected:
    named = {name + part: factor for (name, part), factor in factors.items()}
    return Corrected(observation=None, refusal=NOT_AGAIN, factors=named, draws=compare_digests({}, {}))


def stats_at_true_size(stats: ModelStats, small: Discovery, large: Discovery, drawing: Drawing) -> ModelStats:
    """Return the `ModelStats` of the small model with the statistics, shapes, fans and slices of the large one."""
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
