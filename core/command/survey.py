"""`survey`: every family of the installed transformers, audited at small size and two depths."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from typing import Any

import click

from core.audit.confine import OFFLINE
from core.audit.hub import families
from core.audit.survey import FAMILY_BYTES, FAMILY_SECONDS, survey
from core.audit.survey_table import write_survey
from core.command import options as opt
from core.errors import ModelFileError, shown


@click.command(name="survey")
@click.option("--families", "wanted", default="all", show_default=True, metavar="all|A,B,...", help="Model types.")
@click.option("--out", required=True, type=opt.PATH, metavar="DIR", help="Folder for survey.csv and manifest.json.")
@click.option("--workers", type=opt.WHOLE, help="Processes at once; as many as cores unless given.")
@click.option("--max-seconds", type=opt.WHOLE, default=FAMILY_SECONDS, show_default=True, help="Time of a family.")
@click.option("--max-memory", type=opt.WHOLE, default=FAMILY_BYTES, show_default=True, help="Bytes of a family.")
@opt.json_option
def command(**options: Any) -> None:
    """Audit the causal language models of the installed transformers and write one row a family."""
    os.environ.update(OFFLINE)
    chosen = _chosen(options["wanted"])
    rows: list[dict[str, Any]] = []
    limits = {"seconds": options["max_seconds"], "memory": options["max_memory"]}
    for row in survey(chosen, workers=options["workers"] or os.cpu_count() or 1, **limits):
        rows.append(row)
        _progress(row, len(rows), len(chosen))
    path = write_survey(options["out"], rows, _versions())
    document = {"out": str(path), "rows": sorted(rows, key=lambda row: str(row["family"])), "versions": _versions()}
    opt.emit(document, options["as_json"], readable)


def _chosen(text: str) -> list[str]:
    known = families()
    if text == "all":
        return list(known)
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ModelFileError(
            f"The family {shown(unknown[0] if unknown else text)} is not among the {len(known)} causal language models "
            "of the installed transformers; give names of its model types, or all."
        )
    return names


def _versions() -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in ("transformers", "torch")}


def _progress(row: dict[str, Any], done: int, total: int) -> None:
    if sys.stderr.isatty():
        click.echo(f"{done}/{total} {row['family']}: {row['identity'] or row['reason'][:60]}", err=True)


def readable(document: dict[str, Any]) -> str:
    """Counts, and every family that is not proved with its reason."""
    rows = document["rows"]
    built, proved = (sum(bool(row["built"]) for row in rows), sum(row["identity"] == "proved" for row in rows))
    lines = [f"{len(rows)} families: {built} built, {proved} proved; the table is {document['out']}"]
    for row in rows:
        if row["reason"]:
            state = row["identity"] or ("not run" if row["built"] else "not built")
            lines.append(f"{row['family']}: {state}; {row['reason']}")
    return "\n".join(lines)
