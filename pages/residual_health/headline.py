"""The verdict over seeds, what would change it, and what a reduced twin stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from core.health.verdict_words import verdict_sentences
from core.tables.observe import site_table
from pages.common import panels, seeds, twins
from pages.common.site_figures import draw_ratios
from pages.common.widgets import assign

if TYPE_CHECKING:
    from core.health.verdict import Verdict
    from pages.common.cached import Document
    from pages.residual_health.tabs import Shown

BOXES = {"inside": "good", "close": "careful", "outside": "fault", "refused": "refused"}
THRESHOLDS = (
    "Inside: at least 95 % of the seeds keep every ratio within the band with a factor of 2 to spare. Outside: fewer "
    "than half keep it at all. Close: between the two. No state promises that training converges."
)
# Session entry: the last verdict in words, and of what.
LAST = "last verdict"


def draw(shown: Shown) -> None:
    """The verdict, or the last one with its setting while this one is counted."""
    asked = (shown.request, shown.model.seed_values, shown.names)
    if (sentence := seeds.refusal(*asked)) is not None:
        panels.refusal(sentence)
    if shown.arms is not None:
        verdict = shown.arms[0].verdict
        _box(verdict)
        _offer(verdict)
        st.session_state[LAST] = (_setting(shown), verdict)
    elif (last := st.session_state.get(LAST)) is not None:
        setting, verdict = last
        st.caption(f"Counting the seeds of this setting. The verdict below is still that of {panels.escaped(setting)}.")
        _box(verdict)
    else:
        st.caption("Counting the seeds of this setting; the curves below are those of one seed.")


def _offer(verdict: Verdict) -> None:
    """The way to what would change the verdict."""
    if verdict.state != "inside":
        st.button(
            "What changes it", key="mend", icon=":material/healing:", on_click=assign, args=({"view": "Mend it"},)
        )


def count(shown: Shown) -> None:
    """Count the seeds after the curves stand."""
    words = f"Counting {shown.model.seeds} seeds:"
    seeds.count(shown.request, shown.model.seed_values, shown.names, words)


def reduced(shown: Shown) -> None:
    """What a reduced twin is, with both sizes."""
    config = shown.request.config
    panels.notice(twins.sizes_words(config.true_config, config))


def true_size(shown: Shown, document: Document | None) -> None:
    """One seed of the model at its true size, where it was run."""
    if document is not None:
        draw_ratios(shown.sheet, site_table(document), shown.request.band, prefix="true-size-")


def _box(verdict: Verdict) -> None:
    first, *others = verdict_sentences(verdict)
    panels.box(BOXES[verdict.state], " ".join(others), title=first)
    st.caption(THRESHOLDS)


def _setting(shown: Shown) -> str:
    config = shown.request.config.true_config
    return f"{config.blocks} blocks of width {config.width:,}, {shown.request.recipe}"
