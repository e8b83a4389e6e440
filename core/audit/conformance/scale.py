"""Findings about scale: what the diagnoses of all groups of writers, and the readers, come to."""

from __future__ import annotations

from core.audit.conformance import diagnosis as d
from core.audit.conformance.diagnosis import diagnose, ratio_of
from core.audit.conformance.kinds import Finding
from core.audit.conformance.matrices import Stored
from core.audit.conformance.reading import Reading, scaled_readers, visible, zero
from core.audit.conformance.rules import Rule
from core.audit.conformance.scale_readers import on_everything, on_reader, reader_fans, reader_ranges
from core.audit.conformance.scale_state import Scale, median, names_of, shown
from core.audit.conformance.scale_writers import conventions, fans, twice, unexplained, unscaled, writer_ranges
from core.audit.conformance.settle import Settled, grouped


def scale_findings(settled: Settled) -> list[Finding]:
    """All findings about scale; without a rule only those that need none."""
    first, rule = settled.readings[0], settled.rule
    findings = _zeros(first) + reader_ranges(settled) + reader_fans(settled)
    hidden = [m for m in first.writers if m.hidden and m.spread.std != 0]
    if rule is None:
        return findings + _hidden(first, hidden, None)
    diagnoses = diagnose(settled.readings, rule, grouped(visible(first)))
    scale = Scale(settled, rule, diagnoses, scaled_readers(first, rule))
    for step in (on_everything, on_reader, unscaled, twice, conventions, fans, writer_ranges, unexplained):
        step(scale)
    findings += scale.findings + (_hidden(first, hidden, rule) if rule.scales else [])
    if diagnoses and all(found.label == d.OK for found in diagnoses) and not scale.findings:
        findings.append(_applied(scale))
    return findings


def _applied(scale: Scale) -> Finding:
    first, rule = scale.first, scale.rule
    writers = [m for found in scale.diagnoses for m in found.writers]
    forward = any(m.forward != 1 for m in writers)
    depths = " and ".join(str(reading.blocks) for reading in scale.settled.readings)
    how = "; the forward's coefficients carry part or all of it" if forward else ""
    return Finding(
        kind="applied",
        parameters=names_of(writers),
        measured=ratio_of(first, rule, writers),
        expected=1.0,
        sentence=f"Every writer meets {rule.name}, {rule.formula}, at {depths} blocks{how}; nothing is to change.",
    )


def _zeros(first: Reading) -> list[Finding]:
    found = zero(first)
    if not found:
        return []
    gated = [m for m in found if m.spread.std != 0]
    how = "stand behind a forward coefficient of 0" if gated else "are zeros"
    return [
        Finding(
            kind="zero-by-construction",
            parameters=names_of(found),
            measured=0.0,
            expected=None,
            sentence=f"{shown(found)} {how}, so their branches add nothing at the start; nothing is to change.",
        )
    ]


def _hidden(first: Reading, hidden: list[Stored], rule: Rule | None) -> list[Finding]:
    """A scale that a norm takes away again is worth a warning only where somebody set one."""
    if rule is None:
        hidden = [
            m
            for group in grouped(hidden)
            for m in group
            if not first.fits(group, [m.forward for m in group]) and m.writes
        ]
    if not hidden:
        return []
    factor = median(first.stored(m) for m in hidden)
    return [
        Finding(
            kind="invisible-after-norm",
            parameters=names_of(hidden),
            measured=factor,
            expected=None,
            sentence=(
                f"A norm stands on the branch output, so the factor {factor:.4g} of {shown(hidden)} does not reach "
                "the stream; scale that norm's gain or the contribution instead, or declare no rule."
            ),
        )
    ]
