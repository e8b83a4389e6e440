"""The tabs of the page Recipes; only the open tab is drawn and computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pandas as pd
import streamlit as st

from core.figures.recipes import (
    BRANCH_TITLES,
    DEPTH_TITLES,
    branch_figure,
    cosine_figure,
    depth_figure,
    profile_figure,
    share_figure,
)
from core.figures.sites import RATIO_TITLES
from core.figures.theory import error_figure, overlay_figure
from core.recipes.catalogue import recipe
from core.tables.recipe_words import overview_sentences, twin_sentences
from core.tables.recipes import (
    CONTRIBUTION_MEASURES,
    SHARE_TITLE,
    branch_view,
    cosine_view,
    depth_theory_view,
    depth_view,
    error_view,
    overlay_summary,
    overview_view,
    profile_view,
)
from pages.common import panels, recipe_panel
from pages.common.site_figures import draw_growth
from pages.common.widgets import beside, draw_row
from pages.recipes import comparison, controls
from pages.recipes.comparison import Shown, depth_sweep, recipes_only
from pages.recipes.contracts import contracts, difference, drift

PERCENT, FEW_DIGITS = "percent", "%.4g"


def profiles(shown: Shown) -> None:
    """Draw the ratios at every residual site at the chosen depth, over seeds, and an overview of the recipes."""
    draw_row(controls.SPREAD, key="view-options")
    tables = comparison.profiles(shown.request)
    overview, summary = tables["overview"], tables["profiles"]
    band, spread = shown.request.band, controls.SPREAD.value
    sentences = overview_sentences(overview, (band.lower, band.upper))
    panels.outcome(" ".join(sentences), good=len(sentences) == 1)
    for name, reason in zip(overview["recipe"], overview["reason"], strict=True):
        if reason and not recipe(name).refusal:
            recipe_panel.caution(name, reason)
    for sentence in twin_sentences(overview):
        st.caption(panels.escaped(sentence))
    for quantity in beside(RATIO_TITLES):
        shown.sheet.figure(f"{quantity}-ratio", profile_figure.chart(summary, band, quantity, spread=spread))
    st.subheader("Recipes at this depth")
    shown.sheet.table(
        "overview", overview, view=overview_view(overview), formats={"seeds within the band": PERCENT},
        alt="Law, largest ratios, share of seeds within the band and loss, one row per recipe.",
    )  # fmt: skip
    st.subheader("Sites")
    shown.sheet.table(
        "profiles", summary, view=profile_view(summary), formats={SHARE_TITLE: PERCENT}, height=320,
        alt="Quantiles over seeds of both ratios at every site.",
    )  # fmt: skip
    every = st.expander("Every seed", on_change="rerun", key="every-seed")
    if every.open:
        with every:
            shown.sheet.table(
                "sites", tables["sites"], alt="Every site of every recipe and seed.", height=320, folded=False
            )


def against_depth(shown: Shown) -> None:
    """Draw the largest ratios, the share of seeds within the band and the growth exponents against depth."""
    draw_row(controls.DEPTHS, controls.SPREAD, key="view-options")
    sweep = depth_sweep(shown)
    band, spread = shown.request.band, controls.SPREAD.value
    summary = recipes_only(sweep.table("summary"))
    for quantity in beside(DEPTH_TITLES):
        chart = depth_figure.chart(summary, band, quantity, spread=spread)
        shown.sheet.figure(quantity.replace("_", "-"), chart)
    left, right = st.columns(2)
    with left:
        shown.sheet.figure("share-within", share_figure.chart(summary))
    with right:
        st.markdown("**Largest activation ratio, median over seeds**")
        view = depth_view(summary, "largest_activation_ratio")
        shown.sheet.table(
            "depths", summary, view=view, alt="Median largest activation ratio by recipe and depth.",
            formats=dict.fromkeys(view.columns[1:], FEW_DIGITS),
        )  # fmt: skip
    st.subheader("Growth with depth")
    growth = recipes_only(sweep.table("growth"))
    draw_growth(shown.sheet, growth, growth)


def contributions(shown: Shown) -> None:
    """Draw what every branch adds to the stream and its cosine with the stream, over all tokens and per token."""
    draw_row(controls.MEASURE, controls.SPREAD, key="view-options")
    measure = CONTRIBUTION_MEASURES[controls.MEASURES.index(controls.MEASURE.value)]
    summary = comparison.contributions(shown.request)
    for branch in beside(BRANCH_TITLES):
        chart = branch_figure.chart(summary, measure, branch, spread=controls.SPREAD.value)
        shown.sheet.figure(f"{branch.replace('_', '-')}-contribution", chart)
    view = branch_view(summary, measure)
    shown.sheet.table("contributions", summary, view=view, alt=f"{controls.MEASURE.value}, quantiles.", height=320)
    st.subheader("Token by token")
    st.markdown(
        "The cosine above pools all tokens and features; one near zero may hide two opposite halves. Here every valid "
        "token of every seed has its own cosine. A token whose branch or stream is zero has none and is counted."
    )
    name = controls.FOCUS.draw(shown.runnable)
    tokens = comparison.tokens(shown.one(name))
    for branch in beside(BRANCH_TITLES):
        shown.sheet.figure(f"{branch.replace('_', '-')}-tokens", cosine_figure.chart(tokens, branch))
    shown.sheet.table(
        "tokens", tokens, view=cosine_view(tokens), alt="Quantiles over tokens of the cosine, every branch.", height=320
    )


def theory(shown: Shown) -> None:
    """Draw predictions without a fitted constant, the measured values, and the relative error."""
    st.markdown(
        "Every prediction here is **derived**: it starts from measured numbers of the same member and fits nothing. "
        "The residual error says how far independence, equal variance and no covariance carry."
    )
    if not shown.runnable:
        panels.notice("None of these recipes runs on this decoder, so there is nothing to derive; choose another.")
        return
    name, _ = draw_row(controls.FOCUS, controls.DEPTHS, key="view-options", among=shown.runnable)
    tables = comparison.theory(shown.one(name))
    if len(tables["overlay"]):
        _theory_figures(shown, tables["overlay"], "site")
        view = error_view(tables["errors"])
        shown.sheet.table(
            "theory-errors", tables["errors"], view=view, formats=dict.fromkeys(view.columns[2:4], PERCENT),
            alt="Median and largest relative error of every law.",
        )  # fmt: skip
    else:
        panels.notice(f"{name} normalizes every state after its addition, so no law of the stream's size applies.")
    st.subheader("The loss's sensitivity against depth")
    sweep = depth_sweep(shown)
    overlay = comparison.depth_theory(sweep, name)
    if len(overlay):
        summary = overlay_summary(overlay)
        _theory_figures(shown, summary, "blocks")
        view = depth_theory_view(summary)
        shown.sheet.table(
            "depth-theory", summary, view=view, formats=dict.fromkeys(view.columns[4:], PERCENT),
            alt="Measured and derived terminal adjoint at every depth.",
        )  # fmt: skip
    elif sweep.complete:
        panels.notice(
            f"{name} is no pre-norm stack with a final norm, so the law of the terminal adjoint does not apply."
        )


def _theory_figures(shown: Shown, overlay: pd.DataFrame, x: str) -> None:
    charts = {"theory": overlay_figure.chart(overlay, x), "error": error_figure.chart(overlay, x)}
    for name in beside(charts):
        shown.sheet.figure(f"{name}-by-{x}", charts[name])


TABS: Mapping[str, Callable[[Shown], None]] = {
    "Profiles": profiles,
    "Against depth": against_depth,
    "Contributions": contributions,
    "Theory": theory,
    "Contracts": contracts,
    "Difference": difference,
    "Drift": drift,
}
