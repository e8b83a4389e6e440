"""The gate of an audit for continuous integration, which decides the exit status, and the findings as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ..initialization.findings import NOTHING, VERDICTS

Gate = Literal["error", "warning"]
Document = Mapping[str, Any]
# The severities that fail each gate.
REFUSED: Mapping[str, frozenset[str]] = {"error": frozenset({"error"}), "warning": frozenset({"error", "warning"})}


def gate_fails(document: Document, gate: Gate | None, *, changed: bool = False) -> bool:
    """Return whether the gate fails: on a finding with a severity that it covers, or if the golden file `changed`.

    False where `gate` is None.
    """
    if gate is None:
        return False
    return changed or any(finding["severity"] in REFUSED[gate] for finding in findings_of(document))


def findings_of(document: Document) -> list[dict[str, Any]]:
    """Return the findings of an audit document, worst first; empty where the initialization was not judged."""
    conformance = document.get("conformance") or {}
    return list(conformance.get("findings") or ())


def nothing_judged(document: Document) -> bool:
    """Return whether the initialization was examined but no part of it could be judged."""
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
