"""Recipes: up to six depth recipes side by side, their contracts, and what public code does under their names."""

from __future__ import annotations

import streamlit as st

from core.recipes.request import comparison_of
from core.sweep.ranges import seed_text
from core.views.recipe_words import comparison_sentence
from pages.common import contrast, controls, panels, recipe_panel
from pages.common.sheet import Sheet
from pages.recipes import controls as own
from pages.recipes.shown import Shown
from pages.recipes.tabs import VIEWS

contrast.dark_ink()
st.title("Recipes")
st.markdown(
    "What each depth recipe really changes, and what it does to one base draw at your depth: graph, laws, ratios over "
    "seeds and depths, and the traps in public code."
)

with panels.refusals():
    left, right = st.columns([5, 1])
    with left:
        typed = own.COMPARED.draw()
    with right:
        seeds = own.SEEDS.draw()
    names, refused = recipe_panel.checked_names(typed)
    for sentence in refused:
        panels.refusal(sentence)
    request = controls.request()
    recipe_panel.warn(request, names)
    if names:
        wanted = comparison_of(request, names, seeds)
        shown = Shown(request, wanted, Sheet("recipes", "Recipes"))
        tabs = st.tabs(list(VIEWS), key="compare_view", on_change="rerun", bind="query-params")
        for tab, draw in zip(tabs, VIEWS.values(), strict=True):
            if tab.open:
                with tab, panels.refusals():
                    draw(shown)
        record = {
            "config": wanted.config.document(), "recipes": names, "seeds": seed_text(wanted.seeds),
            "dtype": wanted.dtype, "base_initializer_id": wanted.distribution.name,
        }  # fmt: skip
        shown.sheet.exports(record=record, paragraphs=[comparison_sentence(wanted)])
        if shown.unfinished:
            st.rerun()
    else:
        st.info("Choose at least one recipe above.", icon=":material/science:")
