"""Views of what a comparison observes: profiles at one depth, ratios against depth, contributions of the branches."""

from __future__ import annotations

from functools import partial

import pandas as pd
import streamlit as st

from core.decoder.recipes import recipe
from core.views.figures import RATIO_TITLES
from core.views.lines import described, hidden_points
from core.views.recipe_figures import (
    BRANCH_TITLES,
    DEPTH_TITLES,
    contribution_figure,
    depth_figure,
    profile_figure,
    share_figure,
    token_figure,
)
from core.views.recipe_tables import (
    CONTRIBUTION_MEASURES,
    SHARE_TITLE,
    contribution_view,
    depth_view,
    growth_view,
    overview_view,
    profile_view,
    token_view,
)
from core.views.recipe_words import derived_sentences, twin_sentences, verdict_sentences
from core.views.row_figures import GROWTH_TITLES, growth_figure
from pages.common import panels, recipe_panel
from pages.recipes import cached as cached_recipes
from pages.recipes import controls
from pages.recipes.shown import Shown, depth_sweep, draw_options, recipes_only

PERCENT, FEW_DIGITS = "percent", "%.4g"


def profiles(shown: Shown) -> None:
    """Ratios of every site at the chosen depth, over seeds, and what they come to."""
    draw_options(controls.SPREAD)
    tables = cached_recipes.profiles(shown.request)
    overview, summary = tables["overview"], tables["profiles"]
    band, spread = shown.request.band, controls.SPREAD.value
    sentences = verdict_sentences(overview, (band.lower, band.upper))
    box = st.success if len(sentences) == 1 else st.warning
    icon = panels.GOOD if box is st.success else panels.CAREFUL
    box(" ".join(map(panels.escaped, sentences)), icon=icon)
    for name, reason in zip(overview["recipe"], overview["reason"], strict=True):
        if reason and not recipe(name).refusal:
            recipe_panel.caution(name, reason)
    for sentence in twin_sentences(overview):
        st.caption(panels.escaped(sentence))
    for column, quantity in zip(st.columns(2), RATIO_TITLES, strict=True):
        with column:
            rows = summary[summary["quantity"] == quantity]
            shown.sheet.figure(
                f"{quantity}-ratio",
                partial(profile_figure, summary, band, quantity, spread=spread),
                alt=described(rows, "site", f"{RATIO_TITLES[quantity]} over sites, medians over seeds"),
                undrawn=hidden_points(rows),
            )
    st.subheader("Recipes at this depth")
    shown.sheet.table(
        "overview", overview, view=overview_view(overview), formats={"seeds within the band": PERCENT},
        alt="Law, largest ratios, share of seeds within the band and loss, one row a recipe.",
    )  # fmt: skip
    st.subheader("Sites")
    shown.sheet.table(
        "profiles", summary, view=profile_view(summary), formats={SHARE_TITLE: PERCENT}, height=320,
        alt="Quantiles over seeds of both ratios at every site.",
    )  # fmt: skip
    every = st.expander("Every seed", on_change="rerun", key="every-seed")
    if every.open:
        with every:
            shown.sheet.table("sites", tables["sites"], alt="Every site of every recipe and seed.", height=320)


def against_depth(shown: Shown) -> None:
    """Largest ratios, share within the band and growth exponents over depths and seeds."""
    draw_options(controls.DEPTHS, controls.SPREAD)
    sweep = depth_sweep(shown)
    band, spread = shown.request.band, controls.SPREAD.value
    summary = recipes_only(sweep.table("summary"))
    for column, quantity in zip(st.columns(2), DEPTH_TITLES, strict=True):
        with column:
            rows = summary[summary["quantity"] == quantity]
            shown.sheet.figure(
                quantity.replace("_", "-"),
                partial(depth_figure, summary, band, quantity, spread=spread),
                alt=described(rows, "blocks", f"{quantity.replace('_', ' ')} against depth, medians over seeds"),
                undrawn=hidden_points(rows),
            )
    left, right = st.columns(2)
    with left:
        rows = summary[summary["quantity"] == "all_ratios"]
        shown.sheet.figure(
            "share-within",
            partial(share_figure, summary),
            alt=described(rows, "blocks", "Share of seeds wholly within the band", "share_within"),
        )
    with right:
        st.markdown("**Largest activation ratio, median over seeds**")
        view = depth_view(summary, "largest_activation_ratio")
        shown.sheet.table(
            "depths", summary, view=view, alt="Median largest activation ratio by recipe and depth.",
            formats=dict.fromkeys(view.columns[1:], FEW_DIGITS),
        )  # fmt: skip
    _growth(shown, recipes_only(sweep.table("growth")))


def _growth(shown: Shown, growth: pd.DataFrame) -> None:
    st.subheader("Growth with depth")
    st.markdown(
        "A fit is the slope of log ratio against log depth over seeds and depths, with the middle 95 % of a bootstrap "
        "over seeds. A derived law is arithmetic on the recipe: it fits nothing and knows nothing of this decoder."
    )
    for column, quantity in zip(st.columns(2), GROWTH_TITLES, strict=True):
        with column:
            shown.sheet.figure(
                f"growth-of-{quantity.replace('_', '-')}",
                partial(growth_figure, growth, quantity),
                alt=f"{GROWTH_TITLES[quantity]}: fitted exponents and derived ones, a row a recipe, as in the table.",
            )
    shown.sheet.table("growth", growth, view=growth_view(growth), alt="Fitted and derived exponents, a row a recipe.")
    st.caption("  \n".join(map(panels.escaped, derived_sentences(growth))))


def contributions(shown: Shown) -> None:
    """What every branch adds to the stream, and how it stands to it, pooled and token by token."""
    draw_options(controls.MEASURE, controls.SPREAD)
    measure = CONTRIBUTION_MEASURES[controls.MEASURES.index(controls.MEASURE.value)]
    summary = cached_recipes.contributions(shown.request)["contributions"]
    for column, branch in zip(st.columns(2), BRANCH_TITLES, strict=True):
        with column:
            rows = summary[(summary["measure"] == measure) & (summary["branch"] == branch)]
            title = f"{BRANCH_TITLES[branch]}: {controls.MEASURE.value}"
            shown.sheet.figure(
                f"{branch.replace('_', '-')}-contribution",
                partial(contribution_figure, summary, measure, branch, spread=controls.SPREAD.value),
                alt=described(rows, "block", title),
                undrawn=hidden_points(rows) if measure != "cosine" else (),
            )
    view = contribution_view(summary, measure)
    shown.sheet.table("contributions", summary, view=view, alt=f"{controls.MEASURE.value}, quantiles.", height=320)
    st.subheader("Token by token")
    st.markdown(
        "The cosine above pools all tokens and features; one near zero may hide two opposite halves. Here every valid "
        "token of every seed has a cosine of its own. A token whose branch or stream is zero has none and is counted."
    )
    name = controls.FOCUS.draw_among(shown.runnable)
    tokens = cached_recipes.tokens(shown.request, name)
    for column, branch in zip(st.columns(2), BRANCH_TITLES, strict=True):
        with column:
            shown.sheet.figure(
                f"{branch.replace('_', '-')}-tokens",
                partial(token_figure, tokens, branch),
                alt=described(tokens[tokens["branch"] == branch], "block", f"{BRANCH_TITLES[branch]}, median cosine"),
            )
    shown.sheet.table(
        "tokens", tokens, view=token_view(tokens), alt="Quantiles over tokens of the cosine, every branch.", height=320
    )
