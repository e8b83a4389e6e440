"""A page as one zip: report, tables, figures and manifest; the same page gives the same bytes."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from .csv import csv_text
from .html import html_report
from .json import figure_json, json_text
from .manifest import Export, manifest_text
from .pictures import image
from .report import report_html

LIBRARY = "plotly.min.js"
MANIFEST = "manifest.json"
REPORT = "report.html"
# The earliest time that a zip can hold; a real one would change the bytes.
STAMP = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, kw_only=True)
class Contents:
    """The content of a page: title, verdict (`lead`), paragraphs, and tables, figures and further files by name."""

    title: str
    lead: str = ""
    paragraphs: Sequence[str] = ()
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    figures: Mapping[str, go.Figure] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)


def report_text(contents: Contents, export: Export) -> str:
    """Return the report of a page as HTML text."""
    return report_html(contents.title, contents.lead, contents.paragraphs, contents.figures, export)


def bundle_files(contents: Contents, export: Export) -> dict[str, bytes]:
    """Return a dict from path to bytes with all files of the zip; the manifest comes last and has their digests."""
    files: dict[str, bytes] = {REPORT: report_text(contents, export).encode()}
    for name, table in contents.tables.items():
        files[f"tables/{name}.csv"] = csv_text(table).encode()
        files[f"tables/{name}.json"] = json_text(table).encode()
    for name, figure in contents.figures.items():
        title = name.replace("-", " ")
        files[f"figures/{name}.html"] = html_report(title, {}, {title: figure}, script=f"../{LIBRARY}").encode()
        files[f"figures/{name}.json"] = figure_json(figure).encode()
        files[f"figures/{name}.svg"] = image(figure, "svg")
    files |= contents.files
    if contents.figures:
        files[LIBRARY] = get_plotlyjs().encode()
    files[MANIFEST] = manifest_text(export, files).encode()
    return files


def bundle(contents: Contents, export: Export) -> bytes:
    """Return the zip of all files of a page, as bytes."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in bundle_files(contents, export).items():
            entry = zipfile.ZipInfo(name, STAMP)
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED, compresslevel=6)
    return target.getvalue()
