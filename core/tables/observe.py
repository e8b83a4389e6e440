"""Long tables of an observe document, one row per observation; core, figures, files and pages exchange these tables.

`site_table` has exactly the columns of a sweep, so the same code reads one decoder or a grid of them. An undefined
number is NaN here and empty in a CSV; column names contain units, ratios have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from ..health.columns import (
    INITIALIZED,
    OBSERVED,
    SAME_BASE_CONTROL,
    SITE_COLUMNS,
    TOKEN_STATISTICS,
    WITHOUT_LARGEST,
)
from ..recipes.catalogue import CONTROL
from .frame import Column, for_people, frame, names

Document = Mapping[str, Any]
# Observed arms, each with the cells that say whose row it is.
Arms = Iterable[tuple[Document, Document]]

# What says whose row it is, then what is observed there.
HEAD = (Column("arm"), Column("recipe", "recipe"), Column("seed"), Column("blocks"))
CONTRIBUTION = (
    Column("site", "site"), Column("label", "label"), Column("block"), Column("branch", "branch"),
    Column("raw_rms", "raw RMS"), Column("contribution_rms", "contribution RMS"), Column("stream_rms", "stream RMS"),
    Column("contribution_to_stream", "to stream", "float"), Column("cosine", "cosine", "float"),
)  # fmt: skip
BRANCH = (Column("block"), Column("attention_output_rms"), Column("feed_forward_output_rms"))
GAIN = (Column("block"), Column("norm"), Column("feature"), Column("gain"))
ARM = (
    Column("loss_nats", "loss, nats"), Column("valid_positions"), Column("input_activation_rms", "input RMS A₀"),
    Column("terminal_adjoint_rms", "last adjoint RMS"), Column("largest_activation_ratio", "largest A ratio"),
    Column("smallest_activation_ratio"), Column("largest_adjoint_ratio", "largest G ratio"),
    Column("smallest_adjoint_ratio"), Column("within_band", "within the band"),
)  # fmt: skip
TOKEN = tuple(
    Column(name, dtype="float" if name == WITHOUT_LARGEST else "")
    for name in ("site", "label", "quantity", "rms", *TOKEN_STATISTICS)
)
# The columns of `observe_tables`, known before there is a document.
OBSERVE_COLUMNS = {
    "arms": names((*HEAD, *ARM)),
    "sites": SITE_COLUMNS,
    "tokens": names((*HEAD, *TOKEN)),
    "contributions": names((*HEAD, *CONTRIBUTION)),
    "branches": names((*HEAD, *BRANCH)),
    "gains": names((*HEAD, *GAIN)),
}

QUANTITIES = {"activation": "A", "adjoint": "G"}
# Arm names of the tables and the keys that hold them in an observe document.
ARM_KEYS = {INITIALIZED: "initialized", SAME_BASE_CONTROL: "same_base_unscaled_control"}
VIEW_COLUMNS = {
    "activation_ratio": "A ratio",
    "activation_band": "A band",
    "adjoint_ratio": "G ratio",
    "adjoint_band": "G band",
}
VIEW_SUFFIXES = {INITIALIZED: "", SAME_BASE_CONTROL: f", {CONTROL}"}


def site_table(document: Document) -> pd.DataFrame:
    """Return every site of both arms in forward order, the recipe's arm first; columns `SITE_COLUMNS`."""
    rows = []
    for head, arm in head_of_arms(document):
        tail = {"loss_nats": arm["loss_nats"], "status": OBSERVED, "reason": ""}
        rows += [{**head, **site, **tail} for site in arm["sites"]]
    return frame(rows, SITE_COLUMNS)


def contribution_table(document: Document) -> pd.DataFrame:
    """Return what every branch adds to the stream, for both arms; `site` is the state after the addition."""
    return contributions_of(head_of_arms(document), HEAD)


def contributions_of(arms: Arms, head: Sequence[Column]) -> pd.DataFrame:
    """Return the contribution table of any arms; the columns `head` identify the arm of each row."""
    rows = [
        {**own, "label": arm["sites"][row["site"]]["label"], **row} for own, arm in arms for row in arm["contributions"]
    ]
    return frame(rows, (*head, *CONTRIBUTION))


def contribution_view(contributions: pd.DataFrame) -> pd.DataFrame:
    """Return the contribution table for display, columns under readable titles.

    Columns without a title (arm, seed, blocks, block) are left out.
    """
    return for_people(contributions, (*HEAD, *CONTRIBUTION))


def branch_table(document: Document) -> pd.DataFrame:
    """Return the RMS of each block's raw branch outputs, for both arms."""
    rows = [{**head, **branch} for head, arm in head_of_arms(document) for branch in arm["branches"]]
    return frame(rows, (*HEAD, *BRANCH))


def gain_table(document: Document) -> pd.DataFrame:
    """Return every norm gain, one row per feature; no rows for graphs without gains.

    `block` is -1 for the final norm.
    """
    rows = []
    for head, arm in head_of_arms(document):
        gains = [
            (branch["block"], norm, branch.get(f"{norm}_gain"))
            for branch in arm["branches"]
            for norm in ("attention_norm", "feed_forward_norm")
        ]
        gains.append((-1, "final_norm", arm["final_norm_gain"]))
        rows += [
            {**head, "block": block, "norm": norm, "feature": feature, "gain": gain}
            for block, norm, values in gains
            for feature, gain in enumerate(values or ())
        ]
    return frame(rows, (*HEAD, *GAIN))


def arm_table(document: Document) -> pd.DataFrame:
    """Return one row per arm: loss, normalizers and the range of both ratios over all sites."""
    return arms_of(head_of_arms(document), (*HEAD, *ARM))


def arms_of(arms: Arms, columns: Sequence[Column]) -> pd.DataFrame:
    """Return a table of `columns` with one row per arm."""
    extremes = {"largest": max, "smallest": min}
    rows = [
        {**head, **arm, **{
            f"{name}_{quantity}_ratio": extreme(site[f"{quantity}_ratio"] for site in arm["sites"])
            for name, extreme in extremes.items() for quantity in QUANTITIES
        }}
        for head, arm in arms
    ]  # fmt: skip
    return frame(rows, columns)


def site_view(sites: pd.DataFrame, suffixes: Mapping[str, str] = VIEW_SUFFIXES) -> pd.DataFrame:
    """Return the site table for display: one row per site, arms side by side; a site that an arm lacks is a gap.

    `suffixes` maps each arm to the text that follows its titles.
    """
    keys = ["site", "label"]
    parts = [
        sites[sites["arm"] == arm].set_index(keys)[list(VIEW_COLUMNS)].rename(columns=VIEW_COLUMNS).add_suffix(suffix)
        for arm, suffix in suffixes.items()
    ]
    return pd.concat(parts, axis=1).sort_index().reset_index()


def arm_view(arms: pd.DataFrame) -> pd.DataFrame:
    """Return the arm table for display, columns under titles with units; of each ratio only the largest value is shown.

    Columns without a title (arm, seed, blocks, valid positions and smallest ratios) are left out.
    """
    return for_people(arms, (*HEAD, *ARM))


def token_table(document: Document) -> pd.DataFrame:
    """Return the RMS of every site and the quantiles of its tokens' RMS, for both arms, activations and adjoints."""
    return tokens_of(head_of_arms(document), HEAD)


def tokens_of(arms: Arms, head: Sequence[Column]) -> pd.DataFrame:
    """Return the token table of any arms; the columns `head` identify the arm of each row."""
    rows = [
        {
            **own, "site": site["site"], "label": site["label"], "quantity": quantity,
            "rms": site[f"{quantity}_rms"], **site[f"{quantity}_tokens"],
        }
        for own, arm in arms
        for quantity in QUANTITIES
        for site in arm["sites"]
    ]  # fmt: skip
    return frame(rows, (*head, *TOKEN))


def token_view(tokens: pd.DataFrame) -> pd.DataFrame:
    """Return the token table for display: activation and adjoint of a site side by side, with the widest quantiles."""
    titles = {
        "rms": "RMS", "median": "median token", "q05": "5 %", "q95": "95 %", WITHOUT_LARGEST: "without largest",
    }  # fmt: skip
    keys = ["arm", "site", "label"]
    parts = [
        tokens[tokens["quantity"] == quantity]
        .set_index(keys)[list(titles)]
        .rename(columns=titles)
        .add_prefix(f"{sign} ")
        for quantity, sign in QUANTITIES.items()
    ]
    return pd.concat(parts, axis=1).reset_index()


def observe_tables(document: Document) -> dict[str, pd.DataFrame]:
    """Return every table of an observe document by its file name."""
    return {
        "arms": arm_table(document),
        "sites": site_table(document),
        "tokens": token_table(document),
        "contributions": contribution_table(document),
        "branches": branch_table(document),
        "gains": gain_table(document),
    }


def head_of_arms(document: Document) -> list[tuple[dict[str, Any], Mapping[str, Any]]]:
    """Return each arm with the columns that identify it."""
    recipes = {INITIALIZED: document["recipe"], SAME_BASE_CONTROL: CONTROL}
    common = {"seed": document["seed"], "blocks": document["config"]["blocks"]}
    return [({"arm": arm, "recipe": recipes[arm], **common}, document[key]) for arm, key in ARM_KEYS.items()]
