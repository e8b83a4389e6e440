"""`survey`: every family of the installed transformers, audited at small size and two depths."""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from core import __version__
from core.audit.confine import OFFLINE, check_limits
from core.audit.request import families
from core.audit.survey import FAMILY_BYTES, FAMILY_SECONDS, survey
from core.audit.survey_table import MANIFEST, TABLE, survey_counts, survey_manifest, survey_state
from core.command import options as opt
from core.errors import ConfigError, ModelFileError, shown

SCHEMA = "depthscope.survey/1"


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
    workers = options["workers"]
    if workers is not None and workers < 1:
        raise ConfigError(f"--workers is {workers}; a survey needs at least one process.")
    check_limits(options["max_memory"], options["max_seconds"])
    chosen = _chosen(options["wanted"])
    rows: list[dict[str, Any]] = []
    limits = {"seconds": options["max_seconds"], "memory": options["max_memory"]}
    for row in survey(chosen, workers=workers or os.cpu_count() or 1, **limits):
        rows.append(row)
        _progress(row, len(rows), len(chosen))
    from core.views.survey_tables import ordered  # kept out of the module, for it brings pandas and Plotly along

    in_order = ordered(rows, "family")
    path = write_survey(options["out"], in_order, _versions())
    head = {"schema": SCHEMA, "version": __version__}
    document = {**head, "out": str(path), "rows": in_order, "versions": _versions()}
    opt.emit(document, options["as_json"], readable)


def write_survey(folder: str, rows: Sequence[Mapping[str, Any]], versions: Mapping[str, str]) -> Path:
    """Write survey.csv and a manifest with versions, date and counts; raises `StorageError`."""
    from core.views.export import write_tables, write_text
    from core.views.survey_tables import survey_table

    (path,) = write_tables(folder, {TABLE.removesuffix(".csv"): survey_table(rows)})
    write_text(path.with_name(MANIFEST), json.dumps(survey_manifest(rows, versions), indent=1) + "\n")
    return path


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
    counts = survey_counts(rows)
    lines = [f"{counts['families']} families: {counts['built']} built, {counts['proved']} proved; {document['out']}"]
    lines += [f"{row['family']}: {survey_state(row)}; {row['reason']}" for row in rows if row["reason"]]
    return "\n".join(lines)
