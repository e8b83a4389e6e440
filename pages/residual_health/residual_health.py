"""Health, the first page: whether the depth of the current model is safe, by how much, and what would improve it."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from core.export.bundle import Contents
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
    "**Is your decoder's depth safe, and if not, what do I change?** Depthscope answers before a training run is paid "
    "for. Bring your own:"
)

NOT_COUNTED = "The verdict is missing: its seeds were still being counted at this export. Export again for the verdict."


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
    _exports(shown)
    headline.go_on(shown)


def _exports(shown: Shown) -> None:
    """Draw the page's exports; report and manifest say if the verdict is missing because seeds are still counted."""
    document, arms = shown.document, shown.arms

    def contents() -> Contents:
        found = observe_contents(document, arms or ())
        return found if arms is not None else replace(found, paragraphs=[NOT_COUNTED, *found.paragraphs])

    record = record_of(document) | ({"verdict": NOT_COUNTED} if arms is None else {})
    shown.sheet.exports(contents=contents, record=record)


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
