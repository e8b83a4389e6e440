"""Tables of an `observe` document, one row per observation; figures, files and pages use these tables.

The document has two arms: the recipe, and the unscaled control on the same random base weights. `site_table` has the
columns of a sweep, so the same code reads one decoder or many. An undefined number is NaN, and empty in a CSV file.
Ratios have no unit; the names of other columns contain theirs.
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
    """Return one row per arm (recipe, then control) and residual site, in forward order; columns `SITE_COLUMNS`."""
    rows = []
    for head, arm in head_of_arms(document):
        tail = {"loss_nats": arm["loss_nats"], "status": OBSERVED, "reason": ""}
        rows += [{**head, **site, **tail} for site in arm["sites"]]
    return frame(rows, SITE_COLUMNS)


def contribution_table(document: Document) -> pd.DataFrame:
    """Return one row per arm (recipe, then control) and branch: what the branch adds to the residual stream.

    `site` is the index of the state after the addition.
    """
    return contributions_of(head_of_arms(document), HEAD)


def contributions_of(arms: Arms, head: Sequence[Column]) -> pd.DataFrame:
    """Return the contribution table of any observations; the columns `head` identify the observation of each row."""
    rows = [
        {**own, "label": arm["sites"][row["site"]]["label"], **row} for own, arm in arms for row in arm["contributions"]
    ]
    return frame(rows, (*head, *CONTRIBUTION))


def contribution_view(contributions: pd.DataFrame) -> pd.DataFrame:
    """Return the contribution table for display, with readable titles; columns without a title are left out."""
    return for_people(contributions, (*HEAD, *CONTRIBUTION))


def branch_table(document: Document) -> pd.DataFrame:
    """Return the RMS of both branch outputs, before coefficient and norm, one row per arm and block.

    An arm is the recipe, or the unscaled control.
    """
    rows = [{**head, **branch} for head, arm in head_of_arms(document) for branch in arm["branches"]]
    return frame(rows, (*HEAD, *BRANCH))


def gain_table(document: Document) -> pd.DataFrame:
    """Return one row per arm (recipe, control), norm and feature: the gain of the norm; empty if no norm has gains.

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
    """Return one row per arm (recipe, then control): loss, the RMS values that ratios divide by, and extreme ratios."""
    return arms_of(head_of_arms(document), (*HEAD, *ARM))


def arms_of(arms: Arms, columns: Sequence[Column]) -> pd.DataFrame:
    """Return a table with one row per observation and the columns `columns`."""
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
    """Return the site table for display: one row per residual site, with the arms side by side.

    An arm is the recipe, or the unscaled control; its cells are missing if it lacks a site. `suffixes` maps each arm to
    the text after its column titles.
    """
    keys = ["site", "label"]
    parts = [
        sites[sites["arm"] == arm].set_index(keys)[list(VIEW_COLUMNS)].rename(columns=VIEW_COLUMNS).add_suffix(suffix)
        for arm, suffix in suffixes.items()
    ]
    return pd.concat(parts, axis=1).sort_index().reset_index()


def arm_view(arms: pd.DataFrame) -> pd.DataFrame:
    """Return the table of recipe and control for display, with readable titles; columns without one are left out."""
    return for_people(arms, (*HEAD, *ARM))


def token_table(document: Document) -> pd.DataFrame:
    """Return the RMS of every residual site over all tokens, and quantiles of the RMS of single tokens.

    There is one row per arm (recipe, then control), quantity and site. The quantity is `activation`, or `adjoint` for
    the gradient with respect to the state.
    """
    return tokens_of(head_of_arms(document), HEAD)


def tokens_of(arms: Arms, head: Sequence[Column]) -> pd.DataFrame:
    """Return the token table of any observations; the columns `head` identify the observation of each row."""
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
    """Return the token table for display: activation and adjoint (gradient) of a residual site in one row."""
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
    """Return a dict from file name to table, with all tables of an `observe` document."""
    return {
        "arms": arm_table(document),
        "sites": site_table(document),
        "tokens": token_table(document),
        "contributions": contribution_table(document),
        "branches": branch_table(document),
        "gains": gain_table(document),
    }


def head_of_arms(document: Document) -> list[tuple[dict[str, Any], Mapping[str, Any]]]:
    """Return the recipe's and the control's observation, each after a dict of the columns that identify it."""
    recipes = {INITIALIZED: document["recipe"], SAME_BASE_CONTROL: CONTROL}
    common = {"seed": document["seed"], "blocks": document["config"]["blocks"]}
    return [({"arm": arm, "recipe": recipes[arm], **common}, document[key]) for arm, key in ARM_KEYS.items()]
