"""Depth sweep: how residual health scales with depth, over seeds, recipes and sizes, and how sure that is."""

from __future__ import annotations

import streamlit as st

from core.errors import BudgetError
from core.sweep.interactive import InteractiveSweep
from core.views.sweep_report import TITLE, sweep_contents
from core.views.sweep_words import verdict_sentences
from pages.common import contrast, panels
from pages.common.sheet import Sheet
from pages.common.sweeps import session_sweep
from pages.depth_sweep import form as sweep_panel
from pages.depth_sweep.tabs import VIEWS, Shown, refusal_notice

st.title(TITLE)
contrast.dark_ink()
st.markdown(
    "One seed proves nothing. Sweep depths, seeds and recipes, each recipe beside the unscaled control of the same "
    "base draw, and see how ratios grow with depth and how far seeds lie apart."
)


def show(sweep: InteractiveSweep) -> None:
    """What has finished: verdicts, refusals, the view that is open, and the page's files."""
    shown = Shown(sweep, Sheet("depth_sweep", TITLE))
    refusal_notice(shown)
    if sentences := verdict_sentences(shown.summary, sweep.grid.band):
        st.markdown("\n".join(f"- {panels.escaped(sentence)}" for sentence in sentences))
    tabs = st.tabs(list(VIEWS), key="sweep_view", on_change="rerun", bind="query-params")
    for tab, draw in zip(tabs, VIEWS.values(), strict=True):
        if tab.open:
            with tab, panels.refusals():
                draw(shown)
    shown.sheet.exports(contents=lambda: sweep_contents(sweep), record=sweep.grid.document())


with panels.refusals():
    request = sweep_panel.form()
    try:
        sweep = session_sweep(request)
    except BudgetError as refusal:
        sweep_panel.too_large(refusal, request)
    else:
        sweep_panel.warnings(sweep)
        sweep_panel.state(sweep, request)
        if sweep.done:
            show(sweep)
        if sweep.running:
            sweep_panel.go_on(sweep)
