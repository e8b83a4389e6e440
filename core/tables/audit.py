"""Tables of an audit document, one row per observation. An undefined or infinite number is missing.

Values are ratios or RMS. A writer is a matrix that ends a branch, a reader one that a branch begins with. An addition
is one step of the residual stream. The repaired twin is the model with its initialization corrected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pandas as pd

from ..audit.initialization.findings import MEANING
from ..health.columns import AUDITED, REPAIRED
from .frame import Column, for_people, frame, names
from .observe import CONTRIBUTION, TOKEN, arms_of, contributions_of, tokens_of

Document = Mapping[str, Any]

SUFFIXES = {AUDITED: "", REPAIRED: ", twin"}
HEAD = (Column("arm", "arm"), Column("blocks"))
FINDING = (
    Column("severity"), Column("kind"), Column("meaning"), Column("measured", dtype="float"),
    Column("expected", dtype="float"), Column("tensors"), Column("parameters"), Column("sentence"),
)  # fmt: skip
ADDITION = (
    Column("index", "#"), Column("block", "block"), Column("label", "state after"), Column("branches", "branch"),
    Column("writers", "writers"), Column("readers", "readers"), Column("coefficient", "coefficient", "float"),
    Column("shortcut", "shortcut", "float"), Column("norm_after", "norm after"),
    Column("state_rms", "state RMS", "float"), Column("contribution_rms", "contribution RMS", "float"),
    Column("contribution_to_stream", "contribution / stream", "float"), Column("relative_error", dtype="float"),
)  # fmt: skip
MATRIX = (
    Column("side"), Column("name", "name"), Column("part", "part"), Column("block", "block"), Column("branch"),
    Column("fan_in", "fan in"), Column("fan_out", "fan out"), Column("distribution", "distribution"),
    Column("truncation", "cut at sigma", "float"), Column("std", "std", "float"),
    Column("declared_std", "declared std", "float"), Column("ratio", "ratio", "float"),
    Column("tolerance", "sampling ±", "float"), Column("base_std", dtype="float"),
    Column("base_ratio", "std / base", "float"), Column("forward", "forward factor", "float"),
    Column("effective_ratio", "ratio with forward", "float"), Column("twin_factor", "twin's factor", "float"),
    Column("coordinates"), Column("draw"),
)  # fmt: skip
PROFILE = (
    Column("group"), Column("block"), Column("ratio", dtype="float"), Column("tolerance", dtype="float"),
    Column("unscaled", dtype="float"), Column("shape"),
)  # fmt: skip
DEPTH = (Column("group"), Column("blocks"), Column("ratio", dtype="float"), Column("base_std", dtype="float"))
TRIAL = (Column("label"), Column("earlier_states_equal"), Column("difference", dtype="float"), Column("passed"))
SITE = tuple(map(Column, (
    "site", "label", "activation_rms", "activation_ratio", "activation_band", "adjoint_rms", "adjoint_ratio",
    "adjoint_band",
)))  # fmt: skip
ARM = (
    Column("arm", "arm"), Column("loss_nats", "loss, nats"), Column("loss_reduction", "reduction"),
    Column("valid_positions", "valid targets"), Column("input_activation_rms", "input RMS A₀"),
    Column("terminal_adjoint_rms", "last adjoint RMS"), Column("largest_activation_ratio", "largest A ratio"),
    Column("largest_adjoint_ratio", "largest G ratio"), Column("within_band", "within the band"),
)  # fmt: skip
# The columns of `audit_tables`, known before there is a document.
AUDIT_COLUMNS = {
    "findings": names(FINDING),
    "profile": names(PROFILE),
    "matrices": names(MATRIX),
    "depths": names(DEPTH),
    "additions": names(ADDITION),
    "interventions": names(TRIAL),
    "arms": names(ARM),
    "sites": names((*HEAD, *SITE)),
    "tokens": names((*HEAD, *TOKEN)),
    "contributions": names((*HEAD, *CONTRIBUTION)),
}


def finding_table(document: Document) -> pd.DataFrame:
    """Return one row per finding, the worst first, with the names of its parameters; empty if nothing was judged."""
    rows = [
        {
            **finding,
            "meaning": MEANING[finding["kind"]],
            "tensors": len(finding["parameters"]),
            "parameters": listed(finding["parameters"]),
        }
        for finding in (document["conformance"] or {}).get("findings", ())
    ]
    return frame(rows, FINDING)


def addition_table(document: Document) -> pd.DataFrame:
    """Return one row per addition to the residual stream in forward order: its writers, readers and sizes.

    Writers are the matrices that end its branches, readers those that its branches begin with.
    """
    rows = [
        {
            **row,
            "branches": listed(branch["branch"].replace("_", " ") for branch in row["branches"]),
            "writers": listed(row["writers"]),
            "readers": listed(row["readers"]),
            "shortcut": (row["shortcut"] or {}).get("value"),
        }
        for row in document["additions"]
    ]
    return frame(rows, ADDITION)


def matrix_table(document: Document) -> pd.DataFrame:
    """Return one row per matrix or part of one: all writers (which end a branch), then all readers (which begin it)."""
    factors = document.get("twin_factors") or {}
    rows = [
        {"side": side, **row, "twin_factor": factors.get(row["name"] + row.get("part", ""))}
        for side, key in (("writer", "writers"), ("reader", "readers"))
        for row in document.get(key) or ()
    ]
    return frame(rows, MATRIX)


def profile_table(document: Document) -> pd.DataFrame:
    """Return the ratio of every group of writers (matrices that end a branch) in every block.

    `ratio` is the standard deviation, times the factor on the branch in the forward, over what is expected; missing if
    infinite. `tolerance` is the relative deviation that sampling allows. `unscaled` is the ratio of a writer that keeps
    the base standard deviation, missing if no rule is declared.
    """
    rows = [
        {
            "group": row["group"],
            "block": block,
            "ratio": ratio,
            "tolerance": around,
            "unscaled": bare,
            "shape": row["shape"],
        }
        for row in (document["conformance"] or {}).get("profile", ())
        for block, ratio, around, bare in zip(
            row["blocks"], row["ratios"], row["tolerances"], row["unscaled"], strict=True
        )
    ]
    return frame(rows, PROFILE)


def depth_table(document: Document) -> pd.DataFrame:
    """Return the pooled ratio of every group of writers (matrices that end a branch) at each depth that was built."""
    rows = [
        {"group": group, "blocks": depth["blocks"], "ratio": ratio, "base_std": depth["base_std"]}
        for depth in (document["conformance"] or {}).get("depths", ())
        for group, ratio in depth["ratios"].items()
    ]
    return frame(rows, DEPTH)


def intervention_table(document: Document) -> pd.DataFrame:
    """Return one row per intervention: which states changed when the writers of an addition were set to zero.

    Writers are the matrices that end a branch.
    """
    return frame(document["identity"]["trials"], TRIAL)


def site_table(document: Document) -> pd.DataFrame:
    """Return one row per residual site (state of the stream) of the model and of its repaired twin, if any."""
    return frame([{**head, **site} for head, arm in arms(document) for site in arm["sites"]], (*HEAD, *SITE))


def arms(document: Document) -> Iterator[tuple[dict[str, Any], Mapping[str, Any]]]:
    """Yield the observations of the model and of its repaired twin, each after the columns that identify it."""
    for name, key in ((AUDITED, "health"), (REPAIRED, "twin")):
        if document.get(key) is not None:
            yield {"arm": name, "blocks": document["model"]["blocks"]}, document[key]


def audit_tables(document: Document) -> dict[str, pd.DataFrame]:
    """Return a dict from file name to table, with all tables of an audit document."""
    return {
        "findings": finding_table(document),
        "profile": profile_table(document),
        "matrices": matrix_table(document),
        "depths": depth_table(document),
        "additions": addition_table(document),
        "interventions": intervention_table(document),
        "arms": arms_of(arms(document), ARM),
        "sites": site_table(document),
        "tokens": tokens_of(arms(document), HEAD),
        "contributions": contributions_of(arms(document), HEAD),
    }


def listed(names: Iterable[object]) -> str:
    """Return names as the text of one cell, joined by semicolons."""
    return "; ".join(str(name) for name in names)


def addition_view(additions: pd.DataFrame) -> pd.DataFrame:
    """Return the table of additions for display; the columns for shortcut and norm are left out if all are plain."""
    plain = {"shortcut": (additions["shortcut"] == 1).all(), "norm_after": not additions["norm_after"].any()}
    additions = additions.assign(norm_after=_said(additions["norm_after"]))
    view = for_people(additions, [column for column in ADDITION if not plain.get(column.name, False)])
    last = ["writers", "readers"]
    return view[[*view.columns.drop(last), *last]]


def matrix_view(matrices: pd.DataFrame) -> pd.DataFrame:
    """Return the table of matrices for display; columns that say nothing about these matrices are left out."""
    plain = {"part": (matrices["part"].fillna("") == "").all(), "forward": (matrices["forward"] == 1).all()}
    plain["effective_ratio"] = plain["forward"]
    told = [column for column in MATRIX if matrices[column.name].notna().any() and not plain.get(column.name, False)]
    return for_people(matrices, told)


def arm_view(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table of the model and its repaired twin for display."""
    return for_people(table.assign(within_band=_said(table["within_band"])), ARM)


def intervention_view(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table of interventions for display.

    It has a column for the difference of states that should be equal, if there is any difference.
    """
    view = pd.DataFrame({
        "zeroed writers of": table["label"],
        "states before it": table["earlier_states_equal"].map({True: "unchanged", False: "changed"}),
        "states behind it": table["passed"].map({True: "changed as they should", False: "not as they should"}),
    })  # fmt: skip
    return view.assign(difference=table["difference"]) if (table["difference"].fillna(0) != 0).any() else view


def _said(values: pd.Series) -> pd.Series:
    """Return truth values as text, because a table would show them as check boxes."""
    return values.map({True: "yes", False: "no"})
