"""What each tab of the page Recipes shows; only the open one is drawn and computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import pandas as pd
import streamlit as st

from core.decoder.recipes import recipe
from core.errors import GridError
from core.health.columns import INITIALIZED
from core.health.request import ObserveRequest
from core.recipes.card import Card, card
from core.recipes.difference import difference_table
from core.recipes.drawing import drawing
from core.recipes.request import ComparisonRequest
from core.sweep.ranges import parse_sizes
from core.sweep.run import SweepRun
from core.views.figures import RATIO_TITLES
from core.views.graph_figure import graph_figure, graph_text
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
    depth_view,
    difference_view,
    drift_view,
    growth_view,
    law_table,
    law_view,
    overlay_summary,
    overview_view,
)
from core.views.recipe_words import card_sections, file_name, verdict_sentences
from core.views.row_figures import GROWTH_TITLES, drift_figure, growth_figure
from core.views.theory_figures import error_figure, overlay_figure
from pages.common import cached, cached_recipes, panels
from pages.common.sheet import Sheet
from pages.controls import recipes as controls

MAX_DEPTHS = 12
SLICE_SECONDS = 1.0
PERCENT = "percent"


@dataclass
class Shown:
    """What the page was asked for and the sheet it is shown on; `unfinished` says that a sweep has cells to go."""

    base: ObserveRequest
    request: ComparisonRequest
    sheet: Sheet
    unfinished: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The recipes in the order chosen, which gives them their colours."""
        return self.request.recipes

    @property
    def runnable(self) -> list[str]:
        """Those that run on this decoder."""
        return [name for name in self.names if card(name, self.request.config).refusal is None]


def profiles(shown: Shown) -> None:
    """Ratios of every site at the chosen depth, over seeds, and what they come to."""
    _options(controls.SEEDS, controls.SPREAD)
    tables = cached_recipes.profiles(shown.request)
    overview, summary = tables["overview"], tables["profiles"]
    band, spread = shown.request.band, controls.SPREAD.value
    sentences = verdict_sentences(overview, (band.lower, band.upper))
    box = st.success if len(sentences) == 1 and "every recipe" in sentences[0] else st.warning
    box(" ".join(map(panels.escaped, sentences)), icon="✅" if box is st.success else "⚠️")
    for name, reason in zip(overview["recipe"], overview["reason"], strict=True):
        if reason:
            st.warning(f"**{panels.escaped(name)}** {panels.escaped(reason)}", icon="⚠️")
    for column, quantity in zip(st.columns(2), RATIO_TITLES, strict=True):
        with column:
            rows = summary[summary["quantity"] == quantity]
            shown.sheet.figure(
                f"{quantity}-ratio",
                partial(profile_figure, summary, band, quantity, order=shown.names, spread=spread),
                alt=described(rows, "site", f"{RATIO_TITLES[quantity]} over sites, medians over seeds"),
                undrawn=hidden_points(rows),
            )
    st.subheader("Recipes at this depth")
    shown.sheet.table(
        "overview", overview, view=overview_view(overview), formats={"seeds within the band": PERCENT},
        alt="Law, largest ratios, share of seeds within the band and loss, one row a recipe.",
    )  # fmt: skip
    st.subheader("Sites")
    shown.sheet.table("profiles", summary, alt="Quantiles over seeds of both ratios at every site.", height=320)
    every = st.expander("Every seed", on_change="rerun", key="every-seed")
    if every.open:
        with every:
            shown.sheet.table("sites", tables["sites"], alt="Every site of every recipe and seed.", height=320)


def against_depth(shown: Shown) -> None:
    """Largest ratios, share within the band and growth exponents over depths and seeds."""
    _options(controls.SEEDS, controls.DEPTHS, controls.SPREAD)
    run = _depth_run(shown)
    band, spread = shown.request.band, controls.SPREAD.value
    summary = _recipes_only(run.summary())
    for column, quantity in zip(st.columns(2), DEPTH_TITLES, strict=True):
        with column:
            rows = summary[summary["quantity"] == quantity]
            shown.sheet.figure(
                quantity.replace("_", "-"),
                partial(depth_figure, summary, band, quantity, order=shown.names, spread=spread),
                alt=described(rows, "blocks", f"{quantity.replace('_', ' ')} against depth, medians over seeds"),
                undrawn=hidden_points(rows),
            )
    left, right = st.columns(2)
    with left:
        rows = summary[summary["quantity"] == "all_ratios"]
        shown.sheet.figure(
            "share-within",
            partial(share_figure, summary, order=shown.names),
            alt=described(rows, "blocks", "Share of seeds wholly within the band", "share_within"),
        )
    with right:
        st.markdown("**Largest activation ratio, median over seeds**")
        view = depth_view(summary, "largest_activation_ratio")
        shown.sheet.table("depths", summary, view=view, alt="Median largest activation ratio by recipe and depth.")
    _growth(shown, _recipes_only(run.growth()))


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
                partial(growth_figure, growth, quantity, order=shown.names),
                alt=f"{GROWTH_TITLES[quantity]}: fitted exponents and derived ones, a row a recipe; the table has them.",
            )
    shown.sheet.table("growth", growth, view=growth_view(growth), alt="Fitted and derived exponents, a row a recipe.")


def contributions(shown: Shown) -> None:
    """What every branch adds to the stream, and how it stands to it, pooled and token by token."""
    _options(controls.SEEDS, controls.MEASURE, controls.SPREAD)
    measure = CONTRIBUTION_MEASURES[controls.MEASURES.index(controls.MEASURE.value)]
    summary = cached_recipes.contributions(shown.request)["contributions"]
    for column, branch in zip(st.columns(2), BRANCH_TITLES, strict=True):
        with column:
            rows = summary[(summary["measure"] == measure) & (summary["branch"] == branch)]
            title = f"{BRANCH_TITLES[branch]}: {controls.MEASURE.value}"
            shown.sheet.figure(
                f"{branch.replace('_', '-')}-contribution",
                partial(contribution_figure, summary, measure, branch, order=shown.names, spread=controls.SPREAD.value),
                alt=described(rows, "block", title),
                undrawn=hidden_points(rows) if measure != "cosine" else (),
            )
    shown.sheet.table("contributions", summary, alt="Quantiles over seeds of what every branch adds.", height=320)
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
                partial(token_figure, tokens, branch, order=shown.names),
                alt=described(tokens[tokens["branch"] == branch], "block", f"{BRANCH_TITLES[branch]}, median cosine"),
            )
    shown.sheet.table("tokens", tokens, alt="Quantiles over tokens of the cosine, every branch.", height=320)


def theory(shown: Shown) -> None:
    """What follows without a free parameter, beside what was measured, with the residual error."""
    st.markdown(
        "Every prediction here is **derived**: it starts from measured numbers of the same member and fits nothing. The "
        "residual error says how far independence, equal variance and no covariance carry."
    )
    _options(controls.FOCUS, controls.SEEDS, controls.DEPTHS, among=shown.runnable)
    name = str(controls.FOCUS.value)
    tables = cached_recipes.theory(shown.request, name)
    if len(tables["overlay"]):
        _theory_figures(shown, tables["overlay"], "site")
        shown.sheet.table("theory-errors", tables["errors"], alt="Median and largest relative error of every law.")
    else:
        panels.notice(f"{name} normalizes every state after its addition, so no law of the stream's size applies.")
    st.subheader("The loss's sensitivity against depth")
    run = _depth_run(shown)
    overlay = cached_recipes.depth_theory(run, name)
    if len(overlay):
        summary = overlay_summary(overlay)
        _theory_figures(shown, summary, "blocks")
        shown.sheet.table("depth-theory", summary, alt="Measured and derived terminal adjoint at every depth.")
    else:
        panels.notice(
            f"{name} is no pre-norm stack with a final norm, so the law of the terminal adjoint does not apply."
        )


def _theory_figures(shown: Shown, overlay: pd.DataFrame, x: str) -> None:
    what = "Activation RMS" if x == "site" else "Terminal adjoint RMS"
    laws = ", ".join(str(law) for law in dict.fromkeys(overlay["law"]))
    left, right = st.columns(2)
    with left:
        shown.sheet.figure(
            f"theory-by-{x}",
            partial(overlay_figure, overlay, x, order=shown.names),
            alt=f"{described(overlay, x, f'{what}, measured', 'measured')} Derived: {laws}.",
        )
    with right:
        shown.sheet.figure(
            f"error-by-{x}",
            partial(error_figure, overlay, x, order=shown.names),
            alt=f"Relative error of every derived law; the table has them. {laws}.",
        )


def contracts(shown: Shown) -> None:
    """The card of every recipe chosen."""
    for name in shown.names:
        with st.container(border=True, key=f"card-{file_name(name)}"):
            _contract(shown, card(name, shown.request.config, shown.request.distribution))


def _contract(shown: Shown, found: Card) -> None:
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        st.subheader(found.title, anchor=False)
        st.badge(found.evidence, color={"paper": "green", "implementation read": "blue"}.get(found.evidence, "orange"))
    if found.refusal:
        st.warning(panels.escaped(found.refusal), icon="🚫")
    st.markdown(f"`{found.name}` {panels.escaped(found.law)}")
    left, right = st.columns([2, 3], gap="medium")
    with left:
        if not found.refusal:
            last = shown.request.config.blocks - 1
            _graph(shown, found.name, f"graph-{file_name(found.name)}", f"{found.name}, block {last}, the last")
        if found.equations:
            st.code("\n".join(found.equations), language=None, wrap_lines=True)
    with right:
        laws = law_table(found)
        if len(laws):
            shown.sheet.table(
                f"laws-{file_name(found.name)}", laws, view=law_view(laws),
                alt=f"Every law of {found.name} with its numbers in the first and last block.",
            )  # fmt: skip
        for heading, lines in card_sections(found).items():
            st.markdown(f"**{heading}**\n" + "\n".join(f"- {panels.escaped(line)}" for line in lines))


def difference(shown: Shown) -> None:
    """What changes between two of the recipes: graph, coefficients, tensors and state."""
    if len(shown.names) < 2:
        st.info("Choose two recipes above to see what changes between them.", icon="🧪")
        return
    with st.container(horizontal=True, gap="medium", key="difference-options"):
        first, second = (one.draw_among(shown.names) for one in (controls.FIRST, controls.SECOND))
    table = difference_table(first, second, shown.request.config, shown.request.distribution)
    if not len(table):
        panels.notice(f"{first} and {second} differ in nothing at these sizes.")
        return
    shown.sheet.table(
        "difference", table, view=difference_view(table, first, second), alt="What differs, a row an item."
    )
    for column, side, name in zip(st.columns(2), ("from", "to"), (first, second), strict=True):
        with column:
            if name in shown.runnable:
                _graph(shown, name, f"graph-{side}", f"{name}, the last block")
            else:
                st.warning(panels.escaped(card(name, shown.request.config).refusal or ""), icon="🚫")


def _graph(shown: Shown, name: str, file: str, title: str) -> None:
    config = shown.request.config
    nodes, edges = drawing(recipe(name).graph(config), config.blocks - 1)
    shown.sheet.figure(file, partial(graph_figure, nodes, edges, title=title), alt=f"{title}. {graph_text(nodes)}")


def drift(shown: Shown) -> None:
    """What named public code bases do under the same name."""
    st.markdown(
        "The same name in another code base is often another recipe. Every entry was read in the code named; its law is "
        "observed here beside the declared one, on the same base draws of this decoder."
    )
    table = cached_recipes.drift(shown.request)
    for column, quantity in zip(st.columns(2), RATIO_TITLES, strict=True):
        with column:
            shown.sheet.figure(
                f"drift-{quantity}",
                partial(drift_figure, table, quantity),
                alt=f"Largest {quantity} ratio as declared and as in the code, a row a code base; the table has them.",
            )
    shown.sheet.table("drift", table, view=drift_view(table), alt="Factors and ratios beside the declared ones.")
    for row in table.to_dict("records"):
        with st.container(border=True):
            st.markdown(
                f"**{panels.escaped(row['recipe'])} in {panels.escaped(row['code_base'])}**, "
                f"{panels.escaped(row['place'])}\n"
                f"- It says: {panels.escaped(row['says'])}.\n- It does: {panels.escaped(row['does'])}.\n"
                f"- Largest relative change of any site's RMS: {row['largest_change']:.3g}."
            )


def _depth_run(shown: Shown) -> SweepRun:
    """The sweep over the depths asked for, worked off by a slice; says how far it is and asks for another run."""
    depths = parse_sizes("Depths", controls.DEPTHS.value)
    if len(depths) > MAX_DEPTHS:
        raise GridError(f"{len(depths)} depths are asked for; give at most {MAX_DEPTHS}, or use the sweep verb.")
    run = cached_recipes.depth_run(shown.request, sorted(depths))
    if run.pending:
        cached.start_engine()
        with st.spinner("Observing every recipe, depth and seed…"):
            run.step(SLICE_SECONDS)
    if run.pending:
        left = run.estimate
        st.progress(run.done / run.total, f"{run.done} of {run.total} cells, about {left.seconds:.0f} s to go")
        stopped = st.toggle("Hold", key="hold-depths", help="Finished cells stay; switch off to go on.")
        shown.unfinished = not stopped
    return run


def _recipes_only(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["arm"] == INITIALIZED]


def _options(*wanted: controls.Control, among: list[str] | None = None) -> None:
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom", key="view-options"):
        for one in wanted:
            if isinstance(one, controls.OneOf):
                one.draw_among(among or [])
            else:
                one.draw()


VIEWS: Mapping[str, Callable[[Shown], None]] = {
    "Profiles": profiles,
    "Against depth": against_depth,
    "Contributions": contributions,
    "Theory": theory,
    "Contracts": contracts,
    "Difference": difference,
    "Drift": drift,
}
