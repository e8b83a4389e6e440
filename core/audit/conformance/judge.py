"""Judge a model's initialization: every finding, the verdict, the profile over blocks, and the repaired twin."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from core.audit.conformance.draws import draws_of
from core.audit.conformance.intact import alike, duplicated, listed, missing, reloaded, unwritten
from core.audit.conformance.kinds import Finding, ordered, verdict_of
from core.audit.conformance.reading import Reading, read
from core.audit.conformance.request import AUTO, checked_sigma
from core.audit.conformance.rows import depth_row, matrix_rows, profile_of
from core.audit.conformance.rules import declared_rule
from core.audit.conformance.scale import scale_findings
from core.audit.conformance.settle import Settled, settle
from core.audit.conformance.source import Source, rebuilt, source_of
from core.audit.conformance.stream import stream_notes
from core.audit.conformance.twin import Twin, twin_of
from core.audit.conformance.zeros import dead_branches, learning
from core.audit.discovery import discover
from core.audit.guard import undisturbed
from core.audit.recorder import DEFAULT_BYTES
from core.audit.result import AuditResult
from core.errors import DepthscopeError
from core.health.band import DEFAULT_BAND, Band
from core.health.document import arm_document

# Beyond this many blocks the second depth is half the first, not twice.
DEEP = 8


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What an audit says of an initialization. `settled` is None where nothing could be measured."""

    rule: str | None
    findings: tuple[Finding, ...]
    settled: Settled | None = None
    twin: Twin | None = None
    notes: tuple[str, ...] = ()
    draws: Mapping[str, str] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """The kind of the worst finding that judges the initialization, `nothing-to-judge` where there is none."""
        return verdict_of(self.findings)

    def fill(self, document: dict[str, Any], band: Band = DEFAULT_BAND) -> dict[str, Any]:
        """The audit document with its writers, conformance and twin filled in."""
        twin, refusal = _arm(self.twin, band)
        return {
            **document,
            **self._matrices(document),
            "conformance": self.document(),
            "twin": twin,
            "twin_refusal": refusal,
            "twin_factors": _finite(self.twin.factors) if self.twin is not None else {},
            "twin_draws": self.twin.draws.sentence if self.twin is not None else None,
        }

    def _matrices(self, document: dict[str, Any]) -> dict[str, Any]:
        if self.settled is None:
            return {}
        first = self.settled.readings[0]
        return {
            side: matrix_rows(document[side], matrices, self.settled, self.draws)
            for side, matrices in (("writers", first.writers), ("readers", first.readers))
        }

    def document(self) -> dict[str, Any]:
        """The conformance part of the document."""
        settled = self.settled
        return {
            "rule": self.rule,
            "formula": settled.rule.formula if settled is not None and settled.rule is not None else None,
            "verdict": self.verdict,
            "base": settled.readings[0].base.row() if settled is not None else None,
            "depths": [depth_row(settled, reading) for reading in settled.readings] if settled is not None else [],
            "findings": [finding.row() for finding in self.findings],
            "profile": profile_of(settled) if settled is not None else [],
            "notes": list(self.notes),
        }


def judge(
    result: AuditResult,
    *,
    rule: str = AUTO,
    sigma: float | None = None,
    source: Source | None = None,
    with_twin: bool = True,
) -> Judgement:
    """Judge an audited model against a declared rule, or the one that most of its writers meet.

    `sigma` is the base standard deviation where it is declared. `source` tells where the model comes from; None asks
    the model itself. Raises `AuditError` or `RecipeError` for a rule or a sigma that cannot be judged by.
    """
    sigma = checked_sigma(sigma)
    model = result.discovery.guard.model
    source = source or source_of(model)
    trained = source.trained if source.trained is not None else result.facts.trained
    blocks = max(1, len({site.block for site in result.discovery.sites}))
    declared = declared_rule(rule, blocks)
    whole = [*missing(source), *duplicated(model), *reloaded(model, source)]
    if trained:
        note = "The weights are trained, so they say nothing of their initialization."
        return _judgement(declared.name if declared else None, [*whole, _no_rule(note)], notes=(note,))
    marked = rebuilt(source, model, sentinel=True)
    same = marked is not None and alike(model, marked)
    readings, notes = _readings(result, source, sigma, deep=same)
    if marked is not None and not same:
        notes.append("The model is not as its source builds it anew, so it is judged by what it holds.")
        marked = None
    if not readings:
        note = f"No writer was found, so no scale can be judged: {result.identity.reason}"
        return _judgement(None, [*whole, *unwritten(model, marked), _no_rule(note)], notes=(note,))
    return _judged(result, settle(readings, declared), whole, marked, notes, with_twin=with_twin)


def _judged(
    result: AuditResult,
    settled: Settled,
    whole: Sequence[Finding],
    marked: nn.Module | None,
    notes: Sequence[str],
    *,
    with_twin: bool,
) -> Judgement:
    """Every finding on settled readings, beside those `whole` that need none, and the twin."""
    model = result.discovery.guard.model
    scale = scale_findings(settled)
    explained = frozenset(name for f in scale for name in f.parameters if f.kind == "depth-convention")
    dead = dead_branches(result.discovery)
    findings = [*_alive(result, scale, dead), *whole, *unwritten(model, marked, explained), *dead]
    if settled.rule is None:
        findings.append(_no_rule(_unruled(settled)))
    chosen = settled.rule
    twin = twin_of(result, settled.readings[0], chosen) if with_twin and chosen is not None and chosen.scales else None
    notes = [*notes, *stream_notes(result)]
    name, draws = chosen.name if chosen else None, draws_of(result.discovery.names.parameters)
    return _judgement(name, findings, settled=settled, twin=twin, notes=tuple(notes), draws=draws)


def judged_document(
    result: AuditResult,
    *,
    rule: str = AUTO,
    sigma: float | None = None,
    source: Source | None = None,
    band: Band = DEFAULT_BAND,
) -> dict[str, Any]:
    """The whole audit document, conformance and twin included."""
    return judge(result, rule=rule, sigma=sigma, source=source).fill(result.document(band), band)


def _judgement(
    rule: str | None,
    findings: Sequence[Finding],
    *,
    settled: Settled | None = None,
    twin: Twin | None = None,
    notes: tuple[str, ...] = (),
    draws: Mapping[str, str] | None = None,
) -> Judgement:
    return Judgement(
        rule=rule, findings=tuple(ordered(findings)), settled=settled, twin=twin, notes=notes, draws=draws or {}
    )


def _readings(
    result: AuditResult, source: Source, sigma: float | None, *, deep: bool
) -> tuple[list[Reading], list[str]]:
    """The model as it is and, where it can be built, at another depth."""
    first = read(result.discovery, sigma, source.settings)
    if first is None:
        return [], []
    readings, notes = [first], []
    if deep and source.deep:
        depth = 2 * first.blocks if first.blocks <= DEEP else first.blocks // 2
        second = _at_depth(result, source, sigma, depth)
        if second is not None and second.blocks != first.blocks:
            readings.append(second)
    if len(readings) == 1:
        notes.append(f"Judged at {first.blocks} blocks alone, where a depth law can be met by coincidence.")
    return readings, notes


def _at_depth(result: AuditResult, source: Source, sigma: float | None, depth: int) -> Reading | None:
    again = rebuilt(source, result.discovery.guard.model, blocks=depth)
    if again is None:
        return None
    try:
        with undisturbed(again) as guard:
            discovery = discover(guard, result.discovery.inputs, max_bytes=DEFAULT_BYTES)
            return read(discovery, sigma, source.settings)
    except Exception:
        # Another depth is a bonus; a model that fails at it is judged at its own.
        return None


def _no_rule(sentence: str) -> Finding:
    return Finding(kind="no-rule-declared", sentence=sentence)


def _unruled(settled: Settled) -> str:
    first = settled.readings[0]
    forward = sorted({round(m.forward, 6) for m in first.writers if m.forward != 1})
    carried = ""
    if forward:
        values = ", ".join(format(value, ".4g") for value in forward[:4])
        carried = f" The forward multiplies contributions by {values}, which counts as scaling."
        if len(settled.readings) > 1:
            again = sorted({round(m.forward, 6) for m in settled.readings[1].writers if m.forward != 1})
            values = ", ".join(format(value, ".4g") for value in again[:4])
            carried = f"{carried[:-1]}; at {settled.readings[1].blocks} blocks by {values}."
    return (
        f"No depth rule is declared, and no known one is met by half of the {len(first.writers)} writers; "
        f"declare one with --rule to have it checked.{carried}"
    )


def _alive(result: AuditResult, findings: Sequence[Finding], dead: Sequence[Finding]) -> list[Finding]:
    """Of zero branches, say which writers learn at the start; those of dead branches have a finding of their own."""
    gone = {name for finding in dead for name in finding.parameters}
    kept = []
    for finding in findings:
        if finding.kind != "zero-by-construction":
            kept.append(finding)
            continue
        names = tuple(name for name in finding.parameters if name not in gone)
        if names:
            moving = learning(result.discovery, names)
            still = [name for name in names if name not in moving]
            told = f" {listed(moving)} {'has' if len(moving) == 1 else 'have'} a gradient." if moving else ""
            told += f" {listed(still)} {'has' if len(still) == 1 else 'have'} none at the start." if still else ""
            kept.append(replace(finding, parameters=names, sentence=finding.sentence + told))
    return kept


def _finite(factors: Mapping[str, float]) -> dict[str, float | None]:
    """Factors as JSON has them; None where a base is so large that there is none."""
    return {name: factor if math.isfinite(factor) else None for name, factor in factors.items()}


def _arm(twin: Twin | None, band: Band) -> tuple[dict[str, Any] | None, str | None]:
    if twin is None or twin.observation is None:
        return None, None if twin is None else twin.refusal
    try:
        return arm_document(twin.observation, 0, band), None
    except DepthscopeError as error:
        return None, str(error)
