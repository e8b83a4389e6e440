"""Health, the first page: whether the depth of the current model is safe, by how much, and what would improve it."""

from __future__ import annotations

import streamlit as st

from core.export.manifest import record_of
from core.export.observe import observe_contents
from pages.common import cached, jobs, model, model_ways, panels, recipe_panel
from pages.common import model_controls as controls
from pages.common.outputs import Sheet
from pages.common.widgets import draw_tabs
from pages.residual_health import headline
from pages.residual_health.shown import Shown
from pages.residual_health.tabs import TABS

WELCOME = (
    "**Depthscope** answers one question before a training run is paid for: **is your decoder's depth safe, and if "
    "not, what do I change?** A small decoder of the course is answered below. Bring your own:"
)


def welcome() -> None:
    """Draw the name, the question of the page and the ways to begin."""
    st.markdown(WELCOME)
    known, files, rest = st.columns([2, 3, 2], vertical_alignment="bottom")
    with known:
        model_ways.choose("landing-model")
    with files:
        model_ways.drop("landing-files")
    with rest:
        st.button(
            "Paste or type settings", key="landing-change", icon=":material/tune:", width="stretch",
            on_click=model_ways.ask, args=("Paste settings",),
        )  # fmt: skip
    model_ways.refusal()


def show(shown: Shown) -> None:
    """Draw the verdict, its model, the open tab and the page's exports."""
    headline.draw(shown)
    if shown.model.is_reduced:
        headline.reduced(shown)
    recipe_panel.warn(shown.request, [shown.request.recipe])
    draw_tabs(TABS, shown, key="view")
    if shown.model.is_reduced:
        with st.expander("Run at true size", on_change="rerun", key="true-size") as fold, panels.refusals():
            if fold.open:
                headline.true_size(shown, jobs.document(shown.model.request))
    document, arms = shown.document, shown.arms or ()
    shown.sheet.exports(contents=lambda: observe_contents(document, arms), record=record_of(document))
    headline.go_on(shown)


st.title("Health")
welcome()
if controls.FAMILY.value is not None:
    # What it shows is the audit's, which a decoder's first figure need not wait for.
    from pages.residual_health import built

    built.show()
else:
    current = model.current()
    current.answered.check()
    cached.start_engine()
    show(Shown(current, cached.observation(current.answered), Sheet("residual_health", "Health")))
