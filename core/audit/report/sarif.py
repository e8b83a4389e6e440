"""The findings of an audit as a SARIF 2.1.0 log, for code scanning services."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ... import __version__
from ..initialization.findings import MEANING, NOTHING, VERDICTS, severity
from .gate import BESIDE, judged_rows, nothing_judged
from .text import legal, relative_uri

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVELS = {"error": "error", "warning": "warning", "info": "note"}
ROOT = "%SRCROOT%"
RULES = {**MEANING, **BESIDE}
PLACE = {kind: place for place, kind in enumerate(RULES)}


def sarif_log(document: Mapping[str, Any], rows: Sequence[Mapping[str, Any]] | None = None) -> dict[str, Any]:
    """Return a SARIF log as a dict: one run, one rule per kind of finding, one result per row.

    A result has the parameters as logical locations. `rows` are those of `judged_rows`, None for those of the document
    alone.
    """
    rules = [
        {
            "id": kind,
            "shortDescription": {"text": meaning},
            "defaultConfiguration": {"level": LEVELS["error" if kind in BESIDE else severity(kind)]},
        }
        for kind, meaning in RULES.items()
    ]
    driver = {"name": "Depthscope", "semanticVersion": __version__, "rules": rules}
    uri = relative_uri(document["model"]["source"])
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "columnKind": "unicodeCodePoints",
                "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": _notes(document)}],
                "results": [_result(row, uri) for row in (judged_rows(document) if rows is None else rows)],
            }
        ],
    }


def sarif_report(document: Mapping[str, Any], rows: Sequence[Mapping[str, Any]] | None = None) -> str:
    """Return the SARIF log of `sarif_log` as JSON text."""
    return json.dumps(sarif_log(document, rows), indent=2, allow_nan=False) + "\n"


def _notes(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a notification that nothing could be judged, which is not a result of the log; empty if something was."""
    if not nothing_judged(document):
        return []
    return [{"level": "note", "message": {"text": f"{VERDICTS[NOTHING]}."}, "descriptor": {"id": NOTHING}}]


def _result(finding: Mapping[str, Any], uri: str) -> dict[str, Any]:
    kind = finding["kind"]
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": {"uri": uri, "uriBaseId": ROOT}}}
    names = list(dict.fromkeys(legal(name) for name in finding["parameters"]))
    if names:
        location["logicalLocations"] = [{"fullyQualifiedName": name, "kind": "member"} for name in names]
    return {
        "ruleId": kind,
        "ruleIndex": PLACE[kind],
        "level": LEVELS[finding["severity"]],
        "message": {"text": legal(finding["sentence"])},
        "locations": [location],
        "properties": {"measured": finding["measured"], "expected": finding["expected"]},
    }
