"""The findings of an audit as a JUnit XML report: one test case per kind, failed where the gate fails."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from typing import Any

from ..initialization.findings import MEANING, NOTHING, VERDICTS, severity
from .gate import BESIDE, REFUSED, Gate, judged_rows, nothing_judged
from .text import legal, relative_uri


def junit_report(
    document: Mapping[str, Any], gate: Gate = "error", rows: Sequence[Mapping[str, Any]] | None = None
) -> str:
    """Return a JUnit report as XML text: one suite with one test case per kind of finding.

    There is a case for each kind that can fail and each other kind that was found; it fails if the gate fails on it.
    `rows` are those of `judged_rows`, None for those of the document alone.
    """
    refused, found = REFUSED[gate], judged_rows(document) if rows is None else rows
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for finding in found:
        by_kind.setdefault(finding["kind"], []).append(finding)
    kinds = [kind for kind in BESIDE if kind in by_kind]
    kinds += [kind for kind in MEANING if severity(kind) != "info" or kind in by_kind]
    kinds += [NOTHING] if nothing_judged(document) else []
    # A finding may be milder than its kind: a rule that was guessed yields no error.
    failing = {kind: rows[0]["severity"] for kind, rows in by_kind.items() if rows[0]["severity"] in refused}
    counts = {"tests": str(len(kinds)), "failures": str(len(failing)), "errors": "0", "skipped": "0"}
    root = ET.Element("testsuites", {"name": "depthscope audit", **counts})
    suite = ET.SubElement(root, "testsuite", {"name": legal(document["model"]["class"]), **counts})
    where = legal(relative_uri(document["model"]["source"]))
    for kind in kinds:
        case = ET.SubElement(suite, "testcase", {"name": kind, "classname": where, "time": "0"})
        text = legal("\n".join(_lines(finding) for finding in by_kind.get(kind, ())))
        if kind in failing:
            first = legal(by_kind[kind][0]["sentence"])
            ET.SubElement(case, "failure", {"message": first, "type": failing[kind]}).text = text
        elif text or kind == NOTHING:
            ET.SubElement(case, "system-out").text = text or VERDICTS[NOTHING]
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _lines(finding: Mapping[str, Any]) -> str:
    """Return a finding's sentence, its numbers, and one line per parameter."""
    number = (
        "" if finding["measured"] is None else f"\nmeasured {finding['measured']!r}, expected {finding['expected']!r}"
    )
    return "\n".join([finding["sentence"] + number, *(f"  {name}" for name in finding["parameters"])])
