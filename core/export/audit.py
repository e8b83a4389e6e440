"""The content of the audit page for export: paragraphs, tables, figures, and the files of its gate."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from ..audit.report.gate import findings_of
from ..audit.report.junit import junit_report
from ..audit.report.repair_forms import PYTHON
from ..audit.report.sarif import sarif_report
from ..figures.audit import writer_profile_figure
from ..tables.audit import audit_tables
from ..tables.audit_words import audit_paragraphs, conformance_title, health_title
from .bundle import Contents, report_text
from .manifest import Export, SavedSetting, package_version
from .observe import site_figures

TITLE = "Audit a model"
# The files of the command line's --json, --junit and --sarif, with their types.
FILES = {"audit.json": "application/json", "audit.junit.xml": "application/xml", "audit.sarif": "application/json"}


def gate_file(document: Mapping[str, Any], name: str) -> bytes:
    """Return one of the files that the command line writes, by its name in `FILES`, as bytes.

    These are the document, the JUnit report and the SARIF log.
    """
    if name == "audit.junit.xml":
        return junit_report(document).encode()
    if name == "audit.sarif":
        return sarif_report(document).encode()
    return (json.dumps(document, allow_nan=False) + "\n").encode()


def audit_contents(document: Mapping[str, Any]) -> Contents:
    """Return all that the page can show of an audit document, on screen or not."""
    tables = audit_tables(document)
    return Contents(
        title=TITLE,
        lead=conformance_title(document) if document["health"] is None else f"{health_title(document)}.",
        paragraphs=[*audit_paragraphs(document), *(found["sentence"] for found in findings_of(document)[1:])],
        tables=tables,
        figures=_figures(document, tables),
        files={name: gate_file(document, name) for name in FILES} | repair_files(document),
    )


def repair_files(document: Mapping[str, Any]) -> dict[str, bytes]:
    """Return a dict from file name to bytes with the repairs in Python, one file per form; empty if there are none."""
    found: dict[str, list[str]] = {}
    for repair in document.get("repairs", ()):
        if repair["language"] == PYTHON:
            found.setdefault(f"repair.{repair['form']}.py", []).append(repair["code"])
    return {name: "\n\n".join(codes).encode() for name, codes in found.items()}


def audit_report(document: Mapping[str, Any]) -> str:
    """Return the report of an audit document as HTML text; the same document gives the same text."""
    export = Export(page="model_audit", saved=SavedSetting(setting={}), record=audit_record(document))
    return report_text(audit_contents(document), export)


def audit_record(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of a manifest on an audit: the model, its rule and base, verdicts and library version."""
    conformance = document["conformance"]
    return {
        "model": {key: value for key, value in document["model"].items() if key not in ("tied", "notes")},
        "rule": conformance["rule"],
        "base": conformance["base"],
        "verdict": conformance["verdict"],
        "identity": document["identity"]["verdict"],
        "library": package_version("transformers"),
    }


def _figures(document: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> dict[str, go.Figure]:
    found: dict[str, go.Figure] = {}
    if len(tables["profile"]):
        found["profile"] = writer_profile_figure(tables["profile"], document["conformance"]["rule"])
    if document["health"] is not None:
        found |= site_figures(tables)
    return found
