"""Tables of the survey, which audits every model family of a library: as in its file, for display, and counts.

A row is a dict with the result of one family.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ..audit.initialization.findings import NOTHING, VERDICTS, severity
from ..audit.survey import COLUMNS
from ..audit.survey_table import STATES, state_counts, survey_counts, survey_state
from .frame import frame

Row = Mapping[str, Any]
WHOLE = ("writers", "blocks_shallow", "blocks_deep")
NUMBERS = ("worst_relative_error", "ratio_shallow", "ratio_deep", "seconds")
NOT_JUDGED = "not judged"
EVERY = "all"
# The columns of the view, what they are called there, and what they mean.
TITLES = {
    "family": ("family", "The model type in a config.json, a key of the library's causal language models"),
    "class": ("class", "The class that the library maps it to"),
    "state": ("state", "What became of it: proved, partial, failed, not run or not built"),
    "worst_relative_error": (
        "worst error",
        "Largest deviation from coefficient × contribution + shortcut = next state at any addition, relative to the "
        "next state, float32, worse of both depths",
    ),
    "blocks_shallow": ("blocks", "Blocks of the smaller model; a few families count their parts otherwise"),
    "blocks_deep": ("blocks, deep", "Blocks of the deeper model"),
    "writers": ("writers", "Matrices that end a branch and write to the stream, in the deeper model"),
    "ratio_shallow": (
        "writer / reader",
        "Pooled standard deviation of fresh writers over that of the matrices that read the stream, smaller model",
    ),
    "ratio_deep": ("writer / reader, deep", "The same in the deeper model; a depth rule makes it smaller"),
    "rule": ("rule", "The depth rule that most writers meet; empty where none is met"),
    "kind": ("kind", "The worst finding on the initialization"),
    "seconds": ("seconds", "Wall time of building and auditing both models"),
    "reason": ("reason", "Why the row is not proved, in one sentence"),
}
FORMATS = {
    "worst error": "%.1e", "writer / reader": "%.3f", "writer / reader, deep": "%.3f", "seconds": "%.1f",
}  # fmt: skip
# Orders of the rows: the column and whether the largest come first. `OFF_FIRST` looks at two columns instead.
OFF_FIRST = "what is off first"
ORDERS = {
    "family": ("family", False),
    "largest error": ("worst_relative_error", True),
    "smallest writer / reader, deep": ("ratio_deep", False),
    "most writers": ("writers", True),
    "longest": ("seconds", True),
}


def survey_table(rows: Sequence[Row]) -> pd.DataFrame:
    """Return all rows and columns of a survey; `built` is "true" or "false", and an absent number is missing."""
    built = [{**row, "built": "true" if row["built"] else "false"} for row in rows]
    return frame(built, COLUMNS).astype(dict.fromkeys(NUMBERS, float)).astype(dict.fromkeys(WHOLE, "Int64"))


def survey_view(rows: Sequence[Row]) -> pd.DataFrame:
    """Return the survey for display, with readable titles and one column for the state."""
    table = survey_table(rows).assign(state=[survey_state(row) for row in rows])
    table["rule"] = [row["rule"] or "" for row in rows]
    table["kind"] = [kind_of(row) for row in rows]
    return table[list(TITLES)].rename(columns={name: title for name, (title, _) in TITLES.items()})


def column_table() -> pd.DataFrame:
    """Return a table that explains the columns of the view: title, name in the file, meaning."""
    rows = [{"column": title, "in the file": name, "meaning": meaning} for name, (title, meaning) in TITLES.items()]
    table = pd.DataFrame(rows)
    table.loc[table["column"] == "state", "in the file"] = "built, identity"
    return table


def kind_of(row: Row) -> str:
    """Return the kind of the worst finding in a row, or "not judged"."""
    return str(row["kind"] or NOT_JUDGED)


def chosen(rows: Sequence[Row], *, text: str = "", state: str = EVERY, kind: str = EVERY) -> list[Row]:
    """Return the rows of this state and kind whose family, class, rule or reason contains `text`, ignoring case."""
    wanted = text.strip().casefold()
    return [
        row
        for row in rows
        if state in (EVERY, survey_state(row))
        and kind in (EVERY, kind_of(row))
        and any(wanted in str(row[name] or "").casefold() for name in ("family", "class", "rule", "reason"))
    ]


def ordered(rows: Sequence[Row], order: str) -> list[Row]:
    """Return the rows sorted by `OFF_FIRST` or by one of `ORDERS`; rows without the value come last.

    `OFF_FIRST` begins with the families furthest from a proof, then those with the worst finding. Equal rows are
    sorted by family.
    """
    if order == OFF_FIRST:
        states, kinds = list(STATES), [*VERDICTS, NOT_JUDGED]
        return sorted(
            rows,
            key=lambda row: (-states.index(survey_state(row)), kinds.index(kind_of(row)), str(row["family"])),
        )
    name, falling = ORDERS[order]
    with_value = sorted((row for row in rows if row[name] is not None), key=lambda row: str(row["family"]))
    with_value.sort(key=lambda row: row[name], reverse=falling)
    return [*with_value, *(row for row in rows if row[name] is None)]


def state_table(rows: Sequence[Row]) -> pd.DataFrame:
    """Return the number and share of families per state, with the meaning of the state."""
    counts = state_counts(rows)
    return pd.DataFrame(
        [
            {"state": state, "families": count, "share": count / max(1, len(rows)), "meaning": STATES[state]}
            for state, count in counts.items()
        ]
    )


def kind_table(rows: Sequence[Row]) -> pd.DataFrame:
    """Return the number and share of families per kind of worst finding, with severity and meaning.

    Families that were not judged come last.
    """
    found = [kind for kind in (*VERDICTS, NOT_JUDGED) if any(kind_of(row) == kind for row in rows)]
    return pd.DataFrame(
        [
            {
                "kind": kind,
                "severity": "" if kind == NOT_JUDGED else severity(kind),
                "families": (count := sum(kind_of(row) == kind for row in rows)),
                "share": count / max(1, len(rows)),
                "meaning": VERDICTS.get(kind, "The model was not built, or its initialization could not be judged"),
            }
            for kind in found
        ]
    )


def unproved_table(rows: Sequence[Row]) -> pd.DataFrame:
    """Return family, state and reason of the families that are not proved, those furthest from a proof first."""
    order = list(STATES)
    found = sorted(
        (row for row in rows if survey_state(row) != "proved"), key=lambda row: -order.index(survey_state(row))
    )
    named = [{"family": row["family"], "state": survey_state(row), "reason": row["reason"]} for row in found]
    return frame(named, ("family", "state", "reason"))


def reason_lines(unproved: pd.DataFrame) -> list[str]:
    """Return the rows of an `unproved_table` as a list of texts."""
    return [f"{family}, {state}: {reason}" for family, state, reason in unproved.itertuples(index=False)]


def rule_view(rows: Sequence[Row]) -> pd.DataFrame:
    """Return those rows for display whose initialization was compared with a depth rule."""
    found = [row for row in rows if row["kind"] not in (None, NOTHING, "no-rule-declared")]
    return survey_view(found)[
        ["family", "rule", "kind", "blocks", "writer / reader", "blocks, deep", "writer / reader, deep"]
    ]


def headline(rows: Sequence[Row], manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return a summary of the survey as a dict from label to text."""
    counts = survey_counts(rows)
    share = {name: counts[name] / max(1, counts["families"]) for name in ("built", "proved")}
    return {
        "Families": f"{counts['families']}",
        "Built": f"{counts['built']} ({share['built']:.0%})",
        "Proved": f"{counts['proved']} ({share['proved']:.0%})",
        "Blocks": " and ".join(map(str, manifest["depths"])),
        "Date": str(manifest["date"]),
    }


def survey_sentence(manifest: Mapping[str, Any]) -> str:
    """Return a sentence with the library, versions, depths and date of the survey."""
    versions = ", ".join(f"{name} {version}" for name, version in manifest["versions"].items())
    depths = " and ".join(map(str, manifest["depths"]))
    return (
        f"Surveyed on {manifest['date']} with {versions}: every family at {depths} blocks of small width, fresh "
        "weights, float32, random ids, each in a process with bounded time and memory."
    )


def count_words(shown: Sequence[Row], rows: Sequence[Row]) -> str:
    """Return text such as "3 of 90 families" for the rows shown and all rows."""
    return f"{len(shown)} of {len(rows)} families"
