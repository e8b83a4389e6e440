"""The verb `survey`: audit every model family of the installed transformers, at small widths and two depths."""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from .. import __version__
from ..audit.request import families
from ..audit.sandbox.confine import OFFLINE, check_limits
from ..audit.survey import COLUMNS, FAMILY_BYTES, FAMILY_SECONDS, survey
from ..audit.survey_table import MANIFEST, SCHEMA, TABLE, survey_counts, survey_manifest, survey_state
from ..errors import AuditError, ConfigError, StorageError, shown
from ..files import refusal, replacing
from ..strict_json import read_json
from . import options as opt


@click.command(name="survey")
@click.option("--families", "wanted", default="all", show_default=True, metavar="all|A,B,...", help="Model types.")
@click.option("--out", required=True, type=opt.PATH, metavar="DIR", help="Folder for survey.csv and manifest.json.")
@click.option("--workers", type=opt.WHOLE, help="Processes at once; as many as cores unless given.")
@click.option("--max-seconds", type=opt.WHOLE, default=FAMILY_SECONDS, show_default=True, help="Time of a family.")
@click.option("--max-memory", type=opt.WHOLE, default=FAMILY_BYTES, show_default=True, help="Bytes of a family.")
@opt.quiet_option
@opt.json_option
def command(**options: Any) -> None:
    """Audit the causal language models of the installed transformers and write one row per family."""
    os.environ.update(OFFLINE)
    workers = options["workers"]
    if workers is not None and workers < 1:
        raise ConfigError(f"--workers is {workers}; a survey needs at least one process.")
    check_limits(options["max_memory"], options["max_seconds"])
    chosen = _chosen(options["wanted"])
    check_survey_folder(options["out"], "--out")
    rows: list[dict[str, Any]] = []
    limits = {"seconds": options["max_seconds"], "memory": options["max_memory"]}
    for row in survey(chosen, workers=workers or os.cpu_count() or 1, **limits):
        rows.append(row)
        if not options["quiet"]:
            _progress(row, len(rows), len(chosen))
    from ..tables.survey import ordered  # kept out of the module, for it brings pandas and Plotly along

    in_order = ordered(rows, "family")
    head = {"schema": SCHEMA, "version": __version__}
    document = {**head, "out": str(Path(options["out"]) / TABLE), "rows": in_order, "versions": _versions()}
    opt.emit(
        document, options["as_json"], readable, exports=lambda: write_survey(options["out"], in_order, _versions())
    )


def check_survey_folder(folder: str, option: str = "") -> None:
    """Raise `StorageError` if a survey cannot be written into the folder, or would replace files of something else.

    `option` is the name of the command's option for the message.
    """
    # Pandas and transformers are kept out of the module, so that help does not wait for them.
    from ..export.csv import check_tables

    check_tables(folder, {TABLE.removesuffix(".csv"): COLUMNS}, option)
    path = Path(folder) / MANIFEST
    if path.exists() and not _is_survey(path):
        raise refusal(folder, option, f"it holds a {MANIFEST} that no survey wrote; give another folder", "folder")


def _is_survey(path: Path) -> bool:
    manifest = read_json(path)
    return isinstance(manifest, dict) and manifest.get("schema") == SCHEMA


def write_survey(folder: str, rows: Sequence[Mapping[str, Any]], versions: Mapping[str, str]) -> Path:
    """Write survey.csv and a manifest with versions, date and counts, both or none; return the path of the table.

    Raises `StorageError`.
    """
    from ..export.csv import csv_text
    from ..tables.survey import survey_table

    check_survey_folder(folder)
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        with replacing(place / TABLE, place / MANIFEST, seal=place / MANIFEST) as (table, manifest):
            table.write_text(csv_text(survey_table(rows)), encoding="utf-8", newline="")
            manifest.write_text(json.dumps(survey_manifest(rows, versions), indent=1) + "\n")
    except OSError as error:
        raise StorageError(f"The survey cannot be written to {place}: {error.strerror or error}.") from error
    return place / TABLE


def _chosen(text: str) -> list[str]:
    known = families()
    if text == "all":
        return list(known)
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise AuditError(
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
    """Return the document as text for a terminal: counts, and the reason of every family that has one."""
    rows = document["rows"]
    counts = survey_counts(rows)
    lines = [f"{counts['families']} families: {counts['built']} built, {counts['proved']} proved; {document['out']}"]
    lines += [f"{row['family']}: {survey_state(row)}; {row['reason']}" for row in rows if row["reason"]]
    return "\n".join(lines)
