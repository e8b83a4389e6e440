"""The verdict over seeds, what would improve it, and what a reduced twin is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from core.health.suggestion_words import suggestion_sentences
from core.health.verdict_words import verdict_sentences
from pages.common import panels, seeds, twins
from pages.common.widgets import assign

if TYPE_CHECKING:
    from core.health.verdict import Verdict
    from pages.residual_health.shown import Shown

BOXES = {"inside": "good", "close": "careful", "outside": "fault", "refused": "refused"}
THRESHOLDS = (
    "Inside: 95 % of the seeds keep every ratio within the band by a factor of 2. Outside: fewer than half keep it. "
    "No state promises convergence."
)
# From here on the time that the seeds take is said beforehand.
LONG_SECONDS = 5
# Session entry: the last verdict and its setting.
LAST = "last verdict"


def draw(shown: Shown) -> None:
    """Draw the verdict and what would improve it; while seeds are still counted, the last verdict and its setting."""
    if (sentence := shown.refusal) is not None:
        panels.refusal(sentence)
    if shown.arms is not None:
        _box(shown.arms[0].verdict)
        _offer(shown)
        st.session_state[LAST] = (_setting(shown), shown.arms[0].verdict)
    elif (last := st.session_state.get(LAST)) is not None:
        setting, verdict = last
        st.caption(f"Counting the seeds of this setting. The verdict below is still that of {panels.escaped(setting)}.")
        _box(verdict)
    else:
        st.caption("Counting the seeds of this setting; the curves below are those of one seed.")


def go_on(shown: Shown) -> None:
    """Do one step that remains after the curves: count the seeds, seek a better setting, or vary the twin.

    The twin is the narrower decoder that stands for a large model.
    """
    if shown.refusal is not None:
        return
    if shown.arms is None:
        seeds.count(shown.request, shown.model.seed_values, shown.names, _counting(shown))
    elif shown.arms[0].verdict.state in ("close", "outside") and shown.suggestion is None:
        seeds.seek(shown.request, shown.arms[0], "Seeking what would change the verdict:")
    elif shown.model.is_reduced and seeds.moves(shown.request) is None:
        seeds.move(shown.request, shown.arms[0], "Seeing how far the twin's ratios move with its sizes:")


def _counting(shown: Shown) -> str:
    """Return the text beside the progress of the seeds, with an estimate if they take longer than a moment."""
    count, expected = shown.model.seeds, twins.seconds(shown.request, shown.model.seeds)
    about = f", about {expected:.0f} s" if expected > LONG_SECONDS else ""
    return f"Counting {count} seeds{about}:"


def _offer(shown: Shown) -> None:
    """Draw what would improve the verdict, and the button that applies it."""
    if (found := shown.suggestion) is None or found.before.verdict.state == "inside":
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="suggestion"):
        first, *others = suggestion_sentences(found)
        st.markdown(f"**{panels.escaped(first)}** {panels.escaped(' '.join(others))}", width="stretch")
        if found.best is not None:
            change = found.best.change
            values = {"recipe": change.recipe} if change.kind == "recipe" else {"embedding_std": change.embedding_std}
            st.button(
                "Apply", key="apply-change", type="primary", icon=":material/healing:", on_click=assign, args=(values,)
            )


def reduced(shown: Shown) -> None:
    """Draw what a reduced twin is (a narrower decoder with the same ratios), with the sizes of both."""
    config, found = shown.request.config, seeds.moves(shown.request)
    words = twins.sizes_words(config.true_config, config)
    if found is not None:
        ratios = "; ".join(f"{one.setting} {one.activation:.3g} and {one.adjoint:.3g}" for one in found)
        words += f" End to end, activations and gradients change by: {ratios}."
    st.caption(panels.escaped(words))


def _box(verdict: Verdict) -> None:
    first, *others = verdict_sentences(verdict)
    panels.box(BOXES[verdict.state], " ".join(others), title=first)
    st.caption(THRESHOLDS)


def _setting(shown: Shown) -> str:
    config = shown.request.config.true_config
    return f"{config.blocks} blocks of width {config.width:,}, {shown.request.recipe}"
