"""Tables of an audit document, long form; an undefined or infinite number is missing, and units are ratios or RMS."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pandas as pd

from core.audit.conformance.kinds import MEANING
from core.health.columns import TOKEN_STATISTICS
from core.tables.frame import frame
from core.tables.observe import tokens_of

Document = Mapping[str, Any]

MODEL, TWIN = "model", "repaired twin"
SUFFIXES = {MODEL: "", TWIN: ", twin"}
FINDING_COLUMNS = ("severity", "kind", "meaning", "measured", "expected", "tensors", "parameters", "sentence")
ADDITION_COLUMNS = (
    "index", "block", "label", "branches", "writers", "readers", "coefficient", "shortcut", "norm_after", "state_rms",
    "contribution_rms", "contribution_to_stream", "relative_error",
)  # fmt: skip
MATRIX_COLUMNS = (
    "side", "name", "part", "block", "branch", "fan_in", "fan_out", "distribution", "truncation", "std", "declared_std",
    "ratio", "tolerance", "base_std", "base_ratio", "forward", "effective_ratio", "twin_factor", "coordinates", "draw",
)  # fmt: skip
PROFILE_COLUMNS = ("group", "block", "ratio", "tolerance", "unscaled", "shape")
DEPTH_COLUMNS = ("group", "blocks", "ratio", "base_std")
TRIAL_COLUMNS = ("label", "earlier_states_equal", "difference", "passed")
SITE_COLUMNS = (
    "arm", "blocks", "site", "label", "activation_rms", "activation_ratio", "activation_band", "adjoint_rms",
    "adjoint_ratio", "adjoint_band",
)  # fmt: skip
TOKEN_COLUMNS = ("arm", "blocks", "site", "label", "quantity", "rms", *TOKEN_STATISTICS)
CONTRIBUTION_COLUMNS = (
    "arm", "blocks", "site", "label", "block", "branch", "raw_rms", "contribution_rms", "stream_rms",
    "contribution_to_stream", "cosine",
)  # fmt: skip
ARM_COLUMNS = (
    "arm", "loss_nats", "loss_reduction", "valid_positions", "input_activation_rms", "terminal_adjoint_rms",
    "largest_activation_ratio", "largest_adjoint_ratio", "within_band",
)  # fmt: skip
# The columns of `audit_tables`, known before there is a document.
AUDIT_COLUMNS = {
    "findings": FINDING_COLUMNS,
    "profile": PROFILE_COLUMNS,
    "matrices": MATRIX_COLUMNS,
    "depths": DEPTH_COLUMNS,
    "additions": ADDITION_COLUMNS,
    "interventions": TRIAL_COLUMNS,
    "arms": ARM_COLUMNS,
    "sites": SITE_COLUMNS,
    "tokens": TOKEN_COLUMNS,
    "contributions": CONTRIBUTION_COLUMNS,
}


def finding_table(document: Document) -> pd.DataFrame:
    """Every finding, worst first, with the names of its parameters; none where nothing was judged."""
    rows = [
        {
            **finding,
            "meaning": MEANING[finding["kind"]],
            "tensors": len(finding["parameters"]),
            "parameters": listed(finding["parameters"]),
        }
        for finding in (document["conformance"] or {}).get("findings", ())
    ]
    return frame(rows, FINDING_COLUMNS).astype({"measured": float, "expected": float})


def addition_table(document: Document) -> pd.DataFrame:
    """Every addition of the stream in forward order, with what writes it and how much it gains."""
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
    numbers = ("coefficient", "shortcut", "state_rms", "contribution_rms", "contribution_to_stream", "relative_error")
    return frame(rows, ADDITION_COLUMNS).astype(dict.fromkeys(numbers, float))


def matrix_table(document: Document) -> pd.DataFrame:
    """Every matrix that writes to the stream, then every one that reads it, each part of a tensor a row."""
    factors = document.get("twin_factors") or {}
    rows = [
        {"side": side, **row, "twin_factor": factors.get(row["name"] + row.get("part", ""))}
        for side, key in (("writer", "writers"), ("reader", "readers"))
        for row in document.get(key) or ()
    ]
    numbers = (
        "truncation", "std", "declared_std", "ratio", "tolerance", "base_std", "base_ratio", "forward",
        "effective_ratio", "twin_factor",
    )  # fmt: skip
    return frame(rows, MATRIX_COLUMNS).astype(dict.fromkeys(numbers, float))


def profile_table(document: Document) -> pd.DataFrame:
    """The ratio of every group of writers over the blocks; an infinite one is missing.

    `tolerance` is what sampling allows a ratio, relatively; `unscaled` the ratio of a writer left at the base, missing
    where no rule is declared.
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
    return frame(rows, PROFILE_COLUMNS).astype(dict.fromkeys(("ratio", "tolerance", "unscaled"), float))


def depth_table(document: Document) -> pd.DataFrame:
    """The pooled ratio of every group of writers at each depth that was built."""
    rows = [
        {"group": group, "blocks": depth["blocks"], "ratio": ratio, "base_std": depth["base_std"]}
        for depth in (document["conformance"] or {}).get("depths", ())
        for group, ratio in depth["ratios"].items()
    ]
    return frame(rows, DEPTH_COLUMNS).astype({"ratio": float, "base_std": float})


def trial_table(document: Document) -> pd.DataFrame:
    """Every intervention: what became of the states when an addition's writers were zeroed."""
    return frame(document["identity"]["trials"], TRIAL_COLUMNS).astype({"difference": float})


def site_table(document: Document) -> pd.DataFrame:
    """Every site of the model and, where there is one, of its repaired twin."""
    return frame([{**head, **site} for head, arm in arms(document) for site in arm["sites"]], SITE_COLUMNS)


def contribution_table(document: Document) -> pd.DataFrame:
    """What every branch adds to the stream, of both; `site` is the state after the addition."""
    rows = []
    for head, arm in arms(document):
        labels = [site["label"] for site in arm["sites"]]
        rows += [{**head, "label": labels[row["site"]], **row} for row in arm["contributions"]]
    return frame(rows, CONTRIBUTION_COLUMNS).astype({"contribution_to_stream": float, "cosine": float})


def arm_table(document: Document) -> pd.DataFrame:
    """Loss, its reduction, normalizers and largest ratios, one row for the model and one for its twin."""
    rows = []
    for head, arm in arms(document):
        largest = {
            f"largest_{quantity}_ratio": max(site[f"{quantity}_ratio"] for site in arm["sites"])
            for quantity in ("activation", "adjoint")
        }
        rows.append({**head, **arm, **largest})
    return frame(rows, ARM_COLUMNS)


def arms(document: Document) -> Iterator[tuple[dict[str, Any], Mapping[str, Any]]]:
    """The model's arm and its twin's, as far as they were observed, each with whose it is."""
    for name, key in ((MODEL, "health"), (TWIN, "twin")):
        if document.get(key) is not None:
            yield {"arm": name, "blocks": document["model"]["blocks"]}, document[key]


def audit_tables(document: Document) -> dict[str, pd.DataFrame]:
    """Every table of an audit document, by the name of its file."""
    return {
        "findings": finding_table(document),
        "profile": profile_table(document),
        "matrices": matrix_table(document),
        "depths": depth_table(document),
        "additions": addition_table(document),
        "interventions": trial_table(document),
        "arms": arm_table(document),
        "sites": site_table(document),
        "tokens": tokens_of(arms(document), TOKEN_COLUMNS),
        "contributions": contribution_table(document),
    }


def listed(names: Iterable[object]) -> str:
    """Names as one cell."""
    return "; ".join(str(name) for name in names)


def addition_view(additions: pd.DataFrame) -> pd.DataFrame:
    """The additions as people read them; a shortcut and a norm are shown only where one is not plain."""
    titles = {
        "index": "#", "block": "block", "label": "state after", "branches": "branch", "coefficient": "coefficient",
        "shortcut": "shortcut", "norm_after": "norm after", "state_rms": "state RMS",
        "contribution_rms": "contribution RMS", "contribution_to_stream": "contribution / stream",
        "writers": "writers", "readers": "readers",
    }  # fmt: skip
    view = additions.assign(norm_after=["yes" if after else "no" for after in additions["norm_after"]])
    plain = {"shortcut": (view["shortcut"] == 1).all(), "norm_after": (view["norm_after"] == "no").all()}
    return view[[name for name in titles if not plain.get(name, False)]].rename(columns=titles)


def matrix_view(matrices: pd.DataFrame) -> pd.DataFrame:
    """One side's matrices as people read them; columns that say nothing here are left out."""
    titles = {
        "name": "name", "part": "part", "block": "block", "fan_in": "fan in", "fan_out": "fan out",
        "distribution": "distribution", "truncation": "cut at sigma", "std": "std", "declared_std": "declared std",
        "ratio": "ratio", "tolerance": "sampling ±", "base_ratio": "std / base", "forward": "forward factor",
        "effective_ratio": "ratio with forward", "twin_factor": "twin's factor",
    }  # fmt: skip
    plain = {"part": (matrices["part"].fillna("") == "").all(), "forward": (matrices["forward"] == 1).all()}
    plain["effective_ratio"] = plain["forward"]
    kept = [name for name in titles if matrices[name].notna().any() and not plain.get(name, False)]
    return matrices[kept].rename(columns=titles)


def arm_view(table: pd.DataFrame) -> pd.DataFrame:
    """The arms as people read them."""
    titles = {
        "arm": "arm", "loss_nats": "loss, nats", "loss_reduction": "reduction", "valid_positions": "valid targets",
        "input_activation_rms": "input RMS A₀", "terminal_adjoint_rms": "last adjoint RMS",
        "largest_activation_ratio": "largest A ratio", "largest_adjoint_ratio": "largest G ratio",
        "within_band": "within the band",
    }  # fmt: skip
    view = table[list(titles)].rename(columns=titles)
    return view.assign(**{"within the band": ["yes" if inside else "no" for inside in table["within_band"]]})


def undrawn_ratios(profile: pd.DataFrame) -> list[str]:
    """The points that the profile's logarithmic axis cannot show, each as text."""
    pairs = zip(profile["group"], profile["block"], profile["ratio"], strict=True)
    return [
        f"{group}, block {block}, {'infinite' if math.isnan(ratio) else format(ratio, 'g')}"
        for group, block, ratio in pairs
        if not ratio > 0
    ]
