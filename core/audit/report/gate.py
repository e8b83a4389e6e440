"""The gate of an audit for continuous integration, which decides the exit status, and the findings as text.

The exit status, the terminal's text, JUnit and SARIF all read `judged_rows`, so that they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ..initialization.findings import NOTHING, VERDICTS

Gate = Literal["error", "warning"]
Document = Mapping[str, Any]
# The severities that fail each gate.
REFUSED: Mapping[str, frozenset[str]] = {"error": frozenset({"error"}), "warning": frozenset({"error", "warning"})}
UNPROVED, CHANGED = "unproved", "golden-changed"
# What a gate refuses beside findings.
BESIDE: Mapping[str, str] = {
    UNPROVED: "The residual stream is not proved, so the judgement may miss a part of the model",
    CHANGED: "The audit differs from the golden file",
}


def gate_fails(
    document: Document, gate: Gate | None, *, changes: Sequence[str] = (), allow_unproved: bool = False
) -> bool:
    """Return True if some row of `judged_rows` has a severity that the gate covers; False if `gate` is None."""
    return gate is not None and bool(refused_rows(document, gate, changes=changes, allow_unproved=allow_unproved))


def refused_rows(
    document: Document, gate: Gate, *, changes: Sequence[str] = (), allow_unproved: bool = False
) -> list[dict[str, Any]]:
    """Return the rows of `judged_rows` that the gate fails on, as dicts."""
    rows = judged_rows(document, changes=changes, allow_unproved=allow_unproved)
    return [row for row in rows if row["severity"] in REFUSED[gate]]


def judged_rows(
    document: Document, *, changes: Sequence[str] = (), allow_unproved: bool = False
) -> list[dict[str, Any]]:
    """Return as dicts what a gate judges, worst first: an unproved stream, changes, then the findings.

    The first is a row if the stream is not proved (`info` if `allow_unproved`). Each of `changes` against a golden file
    is a row.
    """
    rows = []
    identity = document["identity"]
    if identity["verdict"] != "proved":
        reason = identity["reason"] or "No residual stream was found."
        severity = "info" if allow_unproved else "error"
        rows.append(_row(UNPROVED, severity, f"The residual stream is not proved ({identity['verdict']}): {reason}"))
    rows += [_row(CHANGED, "error", f"Against the golden file: {change}") for change in changes]
    return [*rows, *findings_of(document)]


def _row(kind: str, severity: str, sentence: str) -> dict[str, Any]:
    return {
        "kind": kind, "severity": severity, "parameters": [], "measured": None, "expected": None, "sentence": sentence,
    }  # fmt: skip


def findings_of(document: Document) -> list[dict[str, Any]]:
    """Return the findings of an audit document as dicts, worst first; empty if the initialization was not judged."""
    conformance = document.get("conformance") or {}
    return list(conformance.get("findings") or ())


def nothing_judged(document: Document) -> bool:
    """Return True if the initialization was examined but no part of it could be judged."""
    return (document.get("conformance") or {}).get("verdict") == NOTHING


def readable_conformance(document: Document) -> list[str]:
    """Return the rule, the base standard deviation, the findings and the profiles as lines for a terminal."""
    conformance = document.get("conformance")
    if conformance is None:
        return ["Conformance was not judged."]
    base, rule = conformance["base"], conformance["rule"] or "no rule"
    lines = [f"conformance {conformance['verdict']} ({rule})"]
    if base is not None:
        law = "" if base["law"] == "constant" else f" times {base['law']}"
        lines[0] += f"; base std {base['constant']:.4g}{law}, from {base['source']}"
    if nothing_judged(document):
        lines.append(f"  {VERDICTS[NOTHING]}; no gate fails on that.")
    lines += [f"  {f['severity']:<8}{f['kind']}: {f['sentence']}" for f in findings_of(document)]
    lines += [f"  profile {row['group']}: {row['shape']}" for row in conformance["profile"]]
    lines += [f"  note: {note}" for note in conformance["notes"]]
    return lines + _twin(document)


def _twin(document: Document) -> list[str]:
    health, twin = document.get("health"), document.get("twin")
    if health is None or twin is None:
        return []
    pairs = [
        ("as it is", health),
        ("repaired twin", twin),
    ]
    return [
        f"  {what}: last activation ratio {arm['sites'][-1]['activation_ratio']:.6g}, first adjoint ratio "
        f"{arm['sites'][0]['adjoint_ratio']:.6g}, {'within' if arm['within_band'] else 'outside'} the band"
        for what, arm in pairs
    ]
