"""Tables over seeds: quantiles of the ratios at every residual site, and the numbers of each verdict.

An arm is one recipe on the base weights of several seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..health.suggestion_words import change_text
from .frame import Column, frame, names

if TYPE_CHECKING:
    from ..health.seeds import SeedArm
    from ..health.suggestion import Suggestion

QUANTITIES = ("activation", "adjoint")
CANDIDATE = (
    Column("change", "change"), Column("seeds", "seeds"), Column("share_within", "within", "float"),
    Column("share_within_by_2", "within by 2", "float"), Column("worst_factor_median", "median worst ratio", "float"),
    Column("difference_median", "margin gained, doublings", "float"), Column("difference_low", "at least", "float"),
    Column("difference_high", "at most", "float"), Column("within_noise", "within seed noise"), Column("refusal"),
)  # fmt: skip
LEVELS = {"q05": 0.05, "median": 0.5, "q95": 0.95}
RIBBON = (
    Column("recipe"), Column("blocks"), Column("seeds"), Column("site"), Column("label"), Column("quantity"),
    *(Column(name, dtype="float") for name in LEVELS),
)  # fmt: skip
VERDICT = (
    Column("recipe", "recipe"), Column("state", "state"), Column("depth_state", "depth by itself"),
    Column("cause", "cause"), Column("seeds", "seeds"), Column("refused", "refused"),
    Column("share_within", "within", "float"), Column("share_within_by_2", "within by 2", "float"),
    Column("interval_low", "share at least", "float"), Column("interval_high", "share at most", "float"),
    Column("margin_median", "median margin, doublings", "float"),
    Column("worst_factor_median", "median worst ratio", "float"),
)  # fmt: skip


def ribbon_table(arms: Sequence[SeedArm]) -> pd.DataFrame:
    """Return quantiles over seeds of each ratio, one row per arm (recipe), ratio and residual site.

    Refused seeds, whose ratios are not finite, are left out.
    """
    rows: list[dict[str, Any]] = []
    for arm in arms:
        for quantity in QUANTITIES:
            levels = dict(zip(LEVELS, arm.ribbon(quantity, tuple(LEVELS.values())).tolist(), strict=True))
            shared = {"recipe": arm.recipe.name, "blocks": arm.subject.blocks, "quantity": quantity}
            shared |= {"seeds": len(arm.seeds) - len(arm.reasons)}
            rows += [
                {**shared, "site": site, "label": label, **{name: values[site] for name, values in levels.items()}}
                for site, label in enumerate(arm.labels)
            ]
    return frame(rows, names(RIBBON))


def verdict_table(arms: Sequence[SeedArm]) -> pd.DataFrame:
    """Return the numbers of the verdict over seeds, one row per arm (recipe)."""
    rows = []
    for arm in arms:
        verdict = arm.verdict
        low, high = verdict.interval
        rows.append(
            {
                "recipe": arm.recipe.name, "state": verdict.state, "depth_state": verdict.depth_state,
                "cause": verdict.cause, "seeds": verdict.seeds, "refused": verdict.refused,
                "share_within": verdict.share_within, "share_within_by_2": verdict.share_within_by_2,
                "interval_low": low, "interval_high": high, "margin_median": verdict.margin.median,
                "worst_factor_median": verdict.worst_factor.median,
            }
        )  # fmt: skip
    return frame(rows, VERDICT)


def candidate_table(suggestion: Suggestion) -> pd.DataFrame:
    """Return the changes that were tried to improve a decoder, one row each, from the best to the worst.

    Changes that cannot run come last, with their reason.
    """
    rows: list[dict[str, Any]] = []
    for one in suggestion.candidates:
        verdict, gained = one.arm.verdict, one.difference
        rows.append(
            {
                "change": change_text(one), "seeds": verdict.seeds, "share_within": verdict.share_within,
                "share_within_by_2": verdict.share_within_by_2, "worst_factor_median": verdict.worst_factor.median,
                "difference_median": gained.median, "difference_low": gained.low, "difference_high": gained.high,
                "within_noise": gained.within_noise,
            }
        )  # fmt: skip
    rows += [{"change": name, "within_noise": False, "refusal": reason} for name, reason in suggestion.refused.items()]
    return frame(rows, CANDIDATE)


def before_and_after(suggestion: Suggestion) -> pd.DataFrame:
    """Return the `ribbon_table` of the decoder before and after the best change; the change is its name."""
    best = suggestion.best
    tables = [ribbon_table([suggestion.before])]
    if best is not None:
        after = ribbon_table([best.arm])
        is_recipe = best.change.kind == "recipe"
        tables.append(after if is_recipe else after.assign(recipe=f"{best.change.recipe}, {change_text(best)}"))
    return pd.concat(tables, ignore_index=True)
