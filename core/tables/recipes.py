"""Tables of a comparison of recipes for figures and display: quantiles over seeds, cards, differences.

All are computed from tables of `core.compare` and `core.sweep` or from cards; no decoder is run here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import pandas as pd

from ..compare.card import Card
from ..health.columns import OBSERVED
from .frame import frame, titled

QUANTITIES = ("activation", "adjoint")
LEVELS = {"median": 0.5, "q05": 0.05, "q25": 0.25, "q75": 0.75, "q95": 0.95}
# How people read the columns of quantiles.
LEVEL_TITLES = {"median": "median", "q05": "5 %", "q25": "25 %", "q75": "75 %", "q95": "95 %"}
SHARE_TITLE = "share within the band"
SITE = ("recipe", "blocks", "site", "label")
PROFILE_SUMMARY_COLUMNS = (*SITE, "quantity", *LEVELS, "share_within", "seeds")
CONTRIBUTION_MEASURES = ("contribution_to_stream", "cosine", "contribution_rms", "raw_rms")
CONTRIBUTION_SUMMARY_COLUMNS = (*SITE, "block", "branch", "measure", *LEVELS, "seeds")
OVERLAY_SUMMARY_COLUMNS = ("measured", "predicted", *LEVELS, "evidence")
OVERVIEW_COLUMNS = (
    "recipe", "blocks", "law", "largest_activation_ratio", "largest_adjoint_ratio", "share_within", "loss_nats",
    "seeds", "refused", "reason",
)  # fmt: skip
LAW_COLUMNS = ("acts", "on", "formula", "tensors", "first", "last", "first_std", "last_std")


def profile_summary(rows: pd.DataFrame, shares: pd.DataFrame) -> pd.DataFrame:
    """Return quantiles over seeds of the ratios, one row per recipe, depth, residual site and quantity.

    Columns are `PROFILE_SUMMARY_COLUMNS`. `rows` is a long table, `shares` its
    `core.compare.comparison_tables.share_table`.
    """
    observed = rows[rows["status"] == OBSERVED]
    if not len(observed):
        return frame([], PROFILE_SUMMARY_COLUMNS)
    parts = [_levels(observed, SITE, f"{name}_ratio").assign(quantity=name) for name in QUANTITIES]
    joined = pd.concat(parts, ignore_index=True).merge(shares, on=[*SITE, "quantity"], how="left", sort=False)
    return joined[list(PROFILE_SUMMARY_COLUMNS)]


def profile_view(summary: pd.DataFrame) -> pd.DataFrame:
    """Return the `profile_summary` for display."""
    return titled(summary, {
        "recipe": "recipe", "site": "site", "label": "label", "quantity": "ratio", **LEVEL_TITLES,
        "share_within": SHARE_TITLE,
    })  # fmt: skip


def contribution_summary(contributions: pd.DataFrame) -> pd.DataFrame:
    """Return quantiles over seeds of what every branch adds, one row per recipe, depth, branch and measure.

    Columns are `CONTRIBUTION_SUMMARY_COLUMNS`; `seeds` counts the seeds where the measure is defined.
    """
    keys = (*SITE, "block", "branch")
    parts = []
    for name in CONTRIBUTION_MEASURES:
        counts = contributions.groupby(list(keys), sort=False)[name].count().rename("seeds")
        levels = _levels(contributions, keys, name).assign(measure=name)
        parts.append(levels.merge(counts, left_on=list(keys), right_index=True, sort=False))
    return pd.concat(parts, ignore_index=True)[list(CONTRIBUTION_SUMMARY_COLUMNS)]


def branch_view(summary: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return one measure of the `contribution_summary` for display."""
    rows = summary.loc[summary["measure"] == measure, ["recipe", "block", "branch", *LEVELS, "seeds"]]
    return rows.assign(branch=rows["branch"].str.replace("_", "-")).rename(columns=LEVEL_TITLES)


def cosine_view(tokens: pd.DataFrame) -> pd.DataFrame:
    """Return the quantiles over the tokens of one recipe (`token_cosine_table`) for display."""
    rows = tokens[["block", "branch", *LEVELS, "tokens", "undefined"]]
    return rows.assign(branch=rows["branch"].str.replace("_", "-")).rename(columns=LEVEL_TITLES)


def overlay_summary(overlay: pd.DataFrame) -> pd.DataFrame:
    """Return medians over seeds of measured and predicted values, and quantiles of the relative error.

    `overlay` is a `site_overlay_table` or a `depth_overlay_table`. There is one row per recipe, depth, law and, if it
    has sites, site.
    """
    keys = [name for name in (*SITE, "law") if name in overlay.columns]
    if not len(overlay):
        return frame([], (*keys, *OVERLAY_SUMMARY_COLUMNS))
    medians = overlay.groupby(keys, sort=False)[["measured", "predicted"]].median().reset_index()
    joined = medians.merge(_levels(overlay, keys, "relative_error"), on=keys, sort=False)
    joined["evidence"] = overlay["evidence"].iloc[0]
    return joined[[*keys, *OVERLAY_SUMMARY_COLUMNS]]


def error_view(errors: pd.DataFrame) -> pd.DataFrame:
    """Return the errors of every law for display."""
    return titled(errors, {
        "recipe": "recipe", "law": "law", "median_error": "median error", "largest_error": "largest error",
        "evidence": "evidence",
    })  # fmt: skip


def depth_theory_view(summary: pd.DataFrame) -> pd.DataFrame:
    """Return measured and predicted values at every depth, with quantiles of the error, for display."""
    errors = {name: "error, median" if name == "median" else f"error, {LEVEL_TITLES[name]}" for name in LEVELS}
    titles = {"blocks": "L, blocks", "law": "law", "measured": "measured", "predicted": "derived", **errors}
    return summary[[*titles]].rename(columns=titles)


def overview_table(rows: pd.DataFrame, largest: pd.DataFrame, laws: Mapping[str, str]) -> pd.DataFrame:
    """Return one row per recipe and depth: medians over seeds, and the share of seeds with all ratios in the band.

    Columns are `OVERVIEW_COLUMNS`. `largest` is the `largest_table` of `rows`; `laws` maps each recipe to its law in
    words. A recipe without an observed seed has a row with the reason.
    """
    found = []
    for (name, blocks), cells in rows.groupby(["recipe", "blocks"], sort=False):
        mine = largest[(largest["recipe"] == name) & (largest["blocks"] == blocks)]
        medians = mine.groupby("quantity")["ratio"].median()
        seeds = cells.loc[cells["status"] == OBSERVED].drop_duplicates("seed")
        refused = cells[cells["status"] != OBSERVED]
        within = mine.groupby("seed")["within_band"].all()
        found.append(
            {
                "recipe": name,
                "blocks": blocks,
                "law": laws.get(str(name), ""),
                **{f"largest_{quantity}_ratio": medians.get(quantity) for quantity in QUANTITIES},
                "share_within": within.mean() if len(within) else None,
                "loss_nats": seeds["loss_nats"].median() if len(seeds) else None,
                "seeds": len(seeds),
                "refused": len(refused),
                "reason": refused["reason"].iloc[0] if len(refused) else "",
            }
        )
    numbers = ("largest_activation_ratio", "largest_adjoint_ratio", "share_within", "loss_nats")
    return frame(found, OVERVIEW_COLUMNS).astype(dict.fromkeys(numbers, float))


def overview_view(overview: pd.DataFrame) -> pd.DataFrame:
    """Return the `overview_table` for display."""
    return titled(overview, {
        "recipe": "recipe", "largest_activation_ratio": "largest A ratio, median",
        "largest_adjoint_ratio": "largest G ratio, median", "share_within": "seeds within the band",
        "loss_nats": "loss, nats, median", "seeds": "seeds", "law": "law",
    })  # fmt: skip


def depth_view(summary: pd.DataFrame, quantity: str) -> pd.DataFrame:
    """Return one row per recipe and one column per depth: the median over seeds of `quantity`.

    For `all_ratios` it is the share of seeds whose ratios are all within the band.
    """
    rows = summary[summary["quantity"] == quantity]
    value = "share_within" if quantity == "all_ratios" else "median"
    wide = rows.pivot_table(index="recipe", columns="blocks", values=value, sort=False, dropna=False)
    wide.columns = pd.Index([f"L = {blocks}" for blocks in wide.columns])
    return wide.reset_index()


def growth_view(growth: pd.DataFrame) -> pd.DataFrame:
    """Return fitted and theoretical exponents of growth with depth side by side, one row per recipe and quantity."""
    keys = ["recipe", "quantity"]
    fits = growth[growth["kind"] == "fit"].set_index(keys)[["exponent", "lower95", "upper95", "depths", "seeds"]]
    laws = growth[growth["kind"] == "derived"].set_index(keys)[["exponent"]]
    joined = fits.join(laws.rename(columns={"exponent": "derived"})).reset_index()
    joined[["depths", "seeds"]] = joined[["depths", "seeds"]].astype("Int64")
    joined["quantity"] = joined["quantity"].str.replace("_", " ")
    return joined.rename(columns={"exponent": "fitted", "lower95": "95 % from", "upper95": "95 % to"})


def law_table(card: Card) -> pd.DataFrame:
    """Return one row per factor of a recipe's card, with its values in the first and last block (`LAW_COLUMNS`).

    Factors on weights come first; `first_std` and `last_std` are the resulting standard deviations. For a factor in the
    forward, `tensors` and these are missing, and `last` is NaN if the factor is measured on a batch.
    """
    stored = [{"acts": "stored, once", "on": law.pattern, **asdict(law)} for law in card.stored]
    forward = [{"acts": "forward", "on": law.what, **asdict(law)} for law in card.forward]
    numbers = ("first", "last", "first_std", "last_std")
    return frame([*stored, *forward], LAW_COLUMNS).astype({**dict.fromkeys(numbers, float), "tensors": "Int64"})


def law_view(laws: pd.DataFrame) -> pd.DataFrame:
    """Return the `law_table` for display; columns without any value are left out."""
    titles = {
        "on": "acts on", "formula": "law", "first": "factor, first block", "last": "factor, last block",
        "first_std": "std, first block", "last_std": "std, last block", "tensors": "tensors", "acts": "when",
    }  # fmt: skip
    return laws[[name for name in titles if laws[name].notna().any()]].rename(columns=titles)


def difference_view(difference: pd.DataFrame, first: str, second: str) -> pd.DataFrame:
    """Return the `difference_table` of two recipes for display, with their names as titles."""
    return difference.rename(columns={"first": first, "second": second})


def drift_view(drift: pd.DataFrame) -> pd.DataFrame:
    """Return the `drift_table`, which compares public code with the recipes it names, for display."""
    return titled(drift, {
        "recipe": "under the name", "code_base": "code base", "largest_change": "largest relative change",
        "output_last": "attention writer / declared", "down_last": "feed-forward writer / declared",
        "other_tensors": "other kinds changed",
        "declared_activation_ratio": "largest A ratio, declared", "variant_activation_ratio": "largest A ratio, there",
        "declared_adjoint_ratio": "largest G ratio, declared", "variant_adjoint_ratio": "largest G ratio, there",
    })  # fmt: skip


def _levels(table: pd.DataFrame, keys: Sequence[str], column: str) -> pd.DataFrame:
    """Return quantiles of a column by keys, in order of appearance; NaN is left out."""
    grouped = table.groupby(list(keys), sort=False)[column]
    return pd.DataFrame({name: grouped.quantile(level) for name, level in LEVELS.items()}).reset_index()
