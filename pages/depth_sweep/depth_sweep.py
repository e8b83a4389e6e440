"""The page Depth sweep: how ratios grow with depth, over seeds and recipes, and how certain that is."""

from __future__ import annotations

import streamlit as st

from core.export.sweep import TITLE, sweep_contents
from core.sweep.interactive import InteractiveSweep
from core.tables.sweep_words import verdict_sentences
from pages.common import model, panels
from pages.common.outputs import Sheet
from pages.common.widgets import draw_tabs
from pages.depth_sweep import form as sweep_form
from pages.depth_sweep.tabs import TABS, Shown, refusal_notice

st.title(TITLE)
st.markdown(
    "One seed proves nothing. Sweep depths, seeds and recipes, each recipe beside the unscaled control of the same "
    "base draw, and see how ratios grow with depth and how far seeds lie apart."
)


def show(sweep: InteractiveSweep) -> None:
    """Draw the result for the finished cells: verdicts, refusals, the open tab and the exports."""
    shown = Shown(sweep, Sheet("depth_sweep", TITLE))
    refusal_notice(shown)
    if sentences := verdict_sentences(shown.summary, sweep.grid.band):
        st.markdown("\n".join(f"- {panels.escaped(sentence)}" for sentence in sentences))
    draw_tabs(TABS, shown, key="sweep_view")
    shown.sheet.exports(contents=lambda: sweep_contents(sweep), record=sweep.grid.document())


names = sweep_form.form()
sweep = sweep_form.sweep_of(names, model.current().answered)
sweep_form.warnings(sweep)
sweep_form.state(sweep)
if sweep.done:
    show(sweep)
if sweep.running:
    sweep_form.go_on(sweep)
