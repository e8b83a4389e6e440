"""Long tables, one row an observation: what crosses every boundary between the core, figures, files and pages.

`site_table` has exactly the columns of a sweep, so that one decoder and a grid of them are read by the same code.
An undefined number is NaN here and empty in a CSV; units stand in the column names, ratios have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pandas as pd

from core.decoder.recipes import CONTROL
from core.health.columns import (
    INITIALIZED,
    OBSERVED,
    SAME_BASE_CONTROL,
    SITE_COLUMNS,
    TOKEN_STATISTICS,
    WITHOUT_LARGEST,
)
from core.tables.frame import frame

if TYPE_CHECKING:
    from core.health.mend import Mending

Document = Mapping[str, Any]

CONTRIBUTION_COLUMNS = (
    "arm", "recipe", "seed", "blocks", "site", "label", "block", "branch", "raw_rms", "contribution_rms", "stream_rms",
    "contribution_to_stream", "cosine",
)  # fmt: skip
BRANCH_COLUMNS = (
    "arm", "recipe", "seed", "blocks", "block", "attention_output_rms", "feed_forward_output_rms",
)  # fmt: skip
GAIN_COLUMNS = ("arm", "recipe", "seed", "blocks", "block", "norm", "feature", "gain")
ARM_COLUMNS = (
    "arm", "recipe", "seed", "blocks", "loss_nats", "valid_positions", "input_activation_rms", "terminal_adjoint_rms",
    "largest_activation_ratio", "smallest_activation_ratio", "largest_adjoint_ratio", "smallest_adjoint_ratio",
    "within_band",
)  # fmt: skip
TOKEN_COLUMNS = ("arm", "recipe", "seed", "blocks", "site", "label", "quantity", "rms", *TOKEN_STATISTICS)
# The columns of `observe_tables`, known before there is a document.
OBSERVE_COLUMNS = {
    "arms": ARM_COLUMNS,
    "sites": SITE_COLUMNS,
    "tokens": TOKEN_COLUMNS,
    "contributions": CONTRIBUTION_COLUMNS,
    "branches": BRANCH_COLUMNS,
    "gains": GAIN_COLUMNS,
}
TRIAL_COLUMNS = ("recipe", "title", "within", "largest_activation_ratio", "largest_adjoint_ratio", "reason")

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
    """Every site of both arms in forward order, the recipe's arm first; columns `SITE_COLUMNS`."""
    rows = []
    for head, arm in head_of_arms(document):
        tail = {"loss_nats": arm["loss_nats"], "status": OBSERVED, "reason": ""}
        rows += [{**head, **site, **tail} for site in arm["sites"]]
    return frame(rows, SITE_COLUMNS)


def contribution_table(document: Document) -> pd.DataFrame:
    """What every branch adds to the stream, both arms; `site` is the state after the addition."""
    rows = []
    for head, arm in head_of_arms(document):
        labels = [site["label"] for site in arm["sites"]]
        rows += [{**head, "label": labels[row["site"]], **row} for row in arm["contributions"]]
    return frame(rows, CONTRIBUTION_COLUMNS)


def contribution_view(contributions: pd.DataFrame) -> pd.DataFrame:
    """The contribution table as people read it: without what the setting says, in words."""
    titles = {
        "recipe": "recipe", "site": "site", "label": "label", "branch": "branch", "raw_rms": "raw RMS",
        "contribution_rms": "contribution RMS", "stream_rms": "stream RMS", "contribution_to_stream": "to stream",
        "cosine": "cosine",
    }  # fmt: skip
    return contributions[list(titles)].rename(columns=titles)


def branch_table(document: Document) -> pd.DataFrame:
    """RMS of each block's raw branch outputs, both arms."""
    rows = [{**head, **branch} for head, arm in head_of_arms(document) for branch in arm["branches"]]
    return frame(rows, BRANCH_COLUMNS)


def gain_table(document: Document) -> pd.DataFrame:
    """Every norm gain a row a feature; graphs without gains give no rows. `block` is -1 for the final norm."""
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
    return frame(rows, GAIN_COLUMNS)


def arm_table(document: Document) -> pd.DataFrame:
    """One row an arm: loss, normalizers and the range of both ratios over all sites."""
    rows = []
    for head, arm in head_of_arms(document):
        ranges: dict[str, float] = {}
        for quantity in ("activation", "adjoint"):
            ratios = [site[f"{quantity}_ratio"] for site in arm["sites"]]
            ranges |= {f"largest_{quantity}_ratio": max(ratios), f"smallest_{quantity}_ratio": min(ratios)}
        rows.append({**head, **arm, **ranges})
    return frame(rows, ARM_COLUMNS)


def site_view(sites: pd.DataFrame, suffixes: Mapping[str, str] = VIEW_SUFFIXES) -> pd.DataFrame:
    """The site table as people read it: one row a site, arms side by side; arms of other graphs leave gaps.

    `suffixes` has what is written behind each arm's titles.
    """
    rows: dict[tuple[int, str], dict[str, Any]] = {}
    columns = (sites[name] for name in ("arm", "site", "label", *VIEW_COLUMNS))
    for arm, site, label, *values in zip(*columns, strict=True):
        row = rows.setdefault((site, label), {"site": site, "label": label})
        titles = (f"{title}{suffixes[arm]}" for title in VIEW_COLUMNS.values())
        row |= dict(zip(titles, values, strict=True))
    names = [f"{title}{suffix}" for suffix in suffixes.values() for title in VIEW_COLUMNS.values()]
    return frame([rows[key] for key in sorted(rows)], ["site", "label", *names])


def arm_view(arms: pd.DataFrame) -> pd.DataFrame:
    """The arm table as people read it: titles with units, the largest ratios, without what the setting says."""
    titles = {
        "recipe": "recipe", "loss_nats": "loss, nats", "input_activation_rms": "input RMS A₀",
        "terminal_adjoint_rms": "last adjoint RMS", "largest_activation_ratio": "largest A ratio",
        "largest_adjoint_ratio": "largest G ratio", "within_band": "within the band",
    }  # fmt: skip
    view = arms[list(titles)].rename(columns=titles)
    return view.assign(**{"within the band": ["yes" if inside else "no" for inside in arms["within_band"]]})


def token_table(document: Document) -> pd.DataFrame:
    """RMS of every site and the quantiles of its tokens' RMS, both arms, activations and adjoints."""
    return tokens_of(head_of_arms(document), TOKEN_COLUMNS)


def tokens_of(arms: Iterable[tuple[Document, Document]], columns: Sequence[str]) -> pd.DataFrame:
    """The token table of any arms, each with the columns that say whose row it is."""
    rows = [
        {
            **head,
            "site": site["site"],
            "label": site["label"],
            "quantity": quantity,
            "rms": site[f"{quantity}_rms"],
            **site[f"{quantity}_tokens"],
        }
        for head, arm in arms
        for quantity in QUANTITIES
        for site in arm["sites"]
    ]
    return frame(rows, columns).astype({WITHOUT_LARGEST: float})


def token_view(tokens: pd.DataFrame) -> pd.DataFrame:
    """The table as people read it: both quantities of a site side by side, the widest quantiles."""
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


def trial_table(mending: Mending) -> pd.DataFrame:
    """The recipes that mending tried, the present one first; `reason` says why one did not run."""
    rows = [
        {**asdict(trial), "within": "yes" if trial.within else "no", "reason": trial.refusal or ""}
        for trial in (mending.before, *mending.trials)
    ]
    return frame(rows, TRIAL_COLUMNS).astype(dict.fromkeys(TRIAL_COLUMNS[3:5], float))


def observe_tables(document: Document) -> dict[str, pd.DataFrame]:
    """Every table of an observe document, by the name of its file."""
    return {
        "arms": arm_table(document),
        "sites": site_table(document),
        "tokens": token_table(document),
        "contributions": contribution_table(document),
        "branches": branch_table(document),
        "gains": gain_table(document),
    }


def head_of_arms(document: Document) -> list[tuple[dict[str, Any], Mapping[str, Any]]]:
    """Each arm with the columns that say whose row it is."""
    recipes = {INITIALIZED: document["recipe"], SAME_BASE_CONTROL: CONTROL}
    common = {"seed": document["seed"], "blocks": document["config"]["blocks"]}
    return [({"arm": arm, "recipe": recipes[arm], **common}, document[key]) for arm, key in ARM_KEYS.items()]
