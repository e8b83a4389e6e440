"""Tabs of the page Recipes: the cards of recipes, how two differ, and what public code does under their names."""

from __future__ import annotations

from itertools import cycle
from typing import Literal

import streamlit as st

from core.compare.card import Card, card
from core.compare.difference import difference_table
from core.figures.rows import drift_figure
from core.figures.sites import RATIO_TITLES
from core.tables.recipe_words import card_sections, file_name
from core.tables.recipes import difference_view, drift_view, law_table, law_view
from pages.common import panels
from pages.common.widgets import beside, draw_row
from pages.recipes import comparison, controls
from pages.recipes.comparison import Shown, show_graph

EVIDENCE_COLORS: dict[str, Literal["green", "blue", "orange"]] = {
    "paper": "green",
    "implementation read": "blue",
    "derived here": "orange",
}


def contracts(shown: Shown) -> None:
    """Draw the card of every chosen recipe: its factors, equations, assumptions and known mistakes."""
    for name in shown.names:
        with st.container(border=True, key=f"card-{file_name(name)}"):
            _contract(shown, card(name, shown.request.config, shown.request.distribution))


def _contract(shown: Shown, found: Card) -> None:
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        st.subheader(found.title, anchor=False)
        st.badge(found.evidence, color=EVIDENCE_COLORS[found.evidence])
    if found.refusal:
        st.warning(panels.escaped(found.refusal), icon=panels.REFUSED)
    st.markdown(f"`{found.name}` {panels.escaped(found.law)}")
    laws = law_table(found)
    if len(laws):
        shown.sheet.table(
            f"laws-{file_name(found.name)}", laws, view=law_view(laws),
            alt=f"Every law of {found.name} with its numbers in the first and last block.",
        )  # fmt: skip
    left, right = st.columns([2, 3], gap="medium")
    with left:
        if not found.refusal:
            last = shown.request.config.blocks - 1
            show_graph(shown, found.name, f"graph-{file_name(found.name)}", f"{found.name}, block {last}, the last")
    with right:
        if found.equations:
            st.code("\n".join(found.equations), language=None, wrap_lines=True)
        for heading, lines in card_sections(found).items():
            st.markdown(f"**{heading}**\n" + "\n".join(f"- {panels.escaped(line)}" for line in lines))


def difference(shown: Shown) -> None:
    """Draw what differs between two of the chosen recipes: equations, factors, weights and state."""
    if len(shown.names) < 2:
        st.info("Choose two recipes above to see what changes between them.", icon=":material/science:")
        return
    first, second = draw_row(controls.FIRST, controls.SECOND, key="difference-options", among=shown.names)
    table = difference_table(first, second, shown.request.config, shown.request.distribution)
    if not len(table):
        panels.notice(f"{first} and {second} differ in nothing at these sizes.")
        return
    shown.sheet.table(
        "difference", table, view=difference_view(table, first, second), alt="What differs, one row per item."
    )
    for side, name in beside((("from", first), ("to", second))):
        if name in shown.runnable:
            show_graph(shown, name, f"graph-{side}", f"{name}, the last block")
        else:
            st.warning(panels.escaped(card(name, shown.request.config).refusal or ""), icon=panels.REFUSED)


def drift(shown: Shown) -> None:
    """Draw what public code does under the names of the recipes."""
    st.markdown(
        "The same name in another code base is often another recipe. Every entry was read in the code named; its law "
        "is observed here beside the declared one, on the same base draws of this decoder."
    )
    table = comparison.drift(shown.request)
    for quantity in beside(RATIO_TITLES):
        shown.sheet.figure(f"drift-{quantity}", drift_figure.chart(table, quantity))
    shown.sheet.table("drift", table, view=drift_view(table), alt="Factors and ratios beside the declared ones.")
    for column, row in zip(cycle(st.columns(2)), table.to_dict("records"), strict=False):
        with column, st.container(border=True):
            st.markdown(
                f"**{panels.escaped(row['recipe'])} in {panels.escaped(row['code_base'])}**\n"
                f"- It says: {panels.escaped(row['says'])}.\n- It does: {panels.escaped(row['does'])}.\n"
                f"- Largest relative change of any site's RMS: {row['largest_change']:.3g}.\n"
                f"- Read in {panels.escaped(row['place'])}."
            )
