"""The survey as files: written where it is asked for, and shipped for the pinned version of the library."""

from __future__ import annotations

import csv
import datetime
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from core import __version__
from core.audit.survey import COLUMNS, DEPTHS
from core.errors import StorageError, shown

SHIPPED = Path(__file__).with_name("survey_data")
TABLE, MANIFEST = "survey.csv", "manifest.json"


def write_survey(
    folder: str | os.PathLike[str], rows: Sequence[Mapping[str, Any]], versions: Mapping[str, str]
) -> Path:
    """Write survey.csv, families in order, and a manifest with versions and date; raises `StorageError`."""
    place = Path(folder)
    ordered = sorted(rows, key=lambda row: str(row["family"]))
    manifest = {
        "schema": "depthscope.survey/1",
        "version": __version__,
        "versions": dict(versions),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "depths": list(DEPTHS),
        "families": len(ordered),
        "built": sum(bool(row["built"]) for row in ordered),
        "proved": sum(row["identity"] == "proved" for row in ordered),
    }
    try:
        place.mkdir(parents=True, exist_ok=True)
        with open(place / TABLE, "w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows([_cell(row.get(column)) for column in COLUMNS] for row in ordered)
        (place / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise StorageError(f"The survey cannot be written to {shown(str(place))}: {error.strerror}.") from error
    return place / TABLE


def shipped_survey() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Rows and manifest of the survey that ships with the project; numbers as numbers, empty cells as None."""
    with open(SHIPPED / TABLE, newline="", encoding="utf-8") as stream:
        rows = [{key: _value(key, text) for key, text in row.items()} for row in csv.DictReader(stream)]
    manifest: dict[str, Any] = json.loads((SHIPPED / MANIFEST).read_text(encoding="utf-8"))
    return rows, manifest


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value) if isinstance(value, float) else str(value)
    # A spreadsheet must not take a reason for a formula.
    return (
        f"'{text}" if text[:1] in ("=", "+", "@") or (text[:1] == "-" and not isinstance(value, int | float)) else text
    )


def _value(key: str, text: str) -> Any:
    if text == "":
        return "" if key == "reason" else None
    if key == "built":
        return text == "true"
    if key in ("writers", "blocks_shallow", "blocks_deep"):
        return int(text)
    if key in ("worst_relative_error", "ratio_shallow", "ratio_deep", "seconds"):
        return float(text)
    return text
