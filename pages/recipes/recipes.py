"""The page Recipes: up to six depth recipes side by side, their cards, and what public code does under their names."""

from __future__ import annotations

import streamlit as st

from core.compare.request import comparison_of
from core.sweep.ranges import seed_text
from core.tables.recipe_words import comparison_sentence
from pages.common import cached, model, panels, recipe_panel
from pages.common.outputs import Sheet
from pages.common.widgets import draw_tabs
from pages.recipes import controls
from pages.recipes.comparison import Shown
from pages.recipes.tabs import TABS

st.title("Recipes")
st.markdown(
    "What each depth recipe really changes, and what it does to one base draw at your depth: graph, laws, ratios over "
    "seeds and depths, and the traps in public code."
)

controls.COMPARED.draw()
names, refused = recipe_panel.checked_names(controls.COMPARED.value)
for sentence in refused:
    panels.refusal(sentence)
found = model.current()
request = found.answered
recipe_panel.warn(request, names)
if names:
    wanted = comparison_of(request, names, found.seeds)
    shown = Shown(wanted, Sheet("recipes", "Recipes"))
    cached.start_engine()
    draw_tabs(TABS, shown, key="compare_view")
    record = {
        "config": wanted.config.document(), "recipes": names, "seeds": seed_text(wanted.seeds),
        "dtype": wanted.dtype, "base_initializer_id": wanted.distribution.name,
    }  # fmt: skip
    shown.sheet.exports(record=record, paragraphs=[comparison_sentence(wanted)])
    if shown.unfinished:
        st.rerun()
else:
    st.info("Choose at least one recipe above.", icon=":material/science:")
