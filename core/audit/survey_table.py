"""The survey as a table: the state of each row, counts, the manifest, and what ships for the pinned library."""

from __future__ import annotations

import csv
import datetime
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import __version__
from .survey import DEPTHS

SCHEMA = "depthscope.survey/1"
SHIPPED = Path(__file__).with_name("survey_data")
TABLE, MANIFEST = "survey.csv", "manifest.json"
# What can become of a family, best first.
STATES = {
    "proved": "Every addition holds to rounding, and silencing writers changes exactly what it should, at both depths",
    "partial": "A stream was found, and at one place at least it could not be proved",
    "failed": "No residual stream was found",
    "not run": "Built, but its forward does not run on token ids alone",
    "not built": "The library could not build a small member",
}


def survey_state(row: Mapping[str, Any]) -> str:
    """Return the state of a family, a key of `STATES`: its identity verdict, else `not run` or `not built`."""
    return str(row["identity"] or ("not run" if row["built"] else "not built"))


def survey_counts(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return the counts `families` (all rows), `built` (models that could be built) and `proved` (streams proved)."""
    return {
        "families": len(rows),
        "built": sum(bool(row["built"]) for row in rows),
        "proved": sum(row["identity"] == "proved" for row in rows),
    }


def state_counts(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return a dict from each state, in the order of `STATES`, to its number of families; 0 for states without any."""
    found = Counter(map(survey_state, rows))
    return {state: found[state] for state in STATES}


def survey_manifest(rows: Sequence[Mapping[str, Any]], versions: Mapping[str, str]) -> dict[str, Any]:
    """Return the JSON manifest that is stored beside the table: versions, today's date (UTC), depths and counts."""
    return {
        "schema": SCHEMA,
        "version": __version__,
        "versions": dict(versions),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "depths": list(DEPTHS),
        **survey_counts(rows),
    }


def shipped_survey() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return (rows as dicts, manifest) of the survey that ships with the project.

    Numbers are read as numbers, empty cells as None (`reason`: the empty string).
    """
    with open(SHIPPED / TABLE, newline="", encoding="utf-8") as stream:
        rows = [{key: _value(key, text) for key, text in row.items()} for row in csv.DictReader(stream)]
    manifest: dict[str, Any] = json.loads((SHIPPED / MANIFEST).read_text(encoding="utf-8"))
    return rows, manifest


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
