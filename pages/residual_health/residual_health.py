"""Health, the first page: whether the depth of the current model is safe, by how much, and what would improve it."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from core.export.bundle import Contents
from core.export.manifest import record_of
from core.export.observe import observe_contents
from pages.common import cached, model, model_ways, panels, recipe_panel, true_runs
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
TRUE, TWIN = "the model at true size", "its reduced twin"
# Session entry: which of the two the figures show, once the model was run.
SIZE = "size-shown"
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
        _true_size(shown)
    recipe_panel.warn(shown.request, [shown.request.recipe])
    draw_tabs(TABS, shown, key="view")
    _exports(shown)
    headline.go_on(shown)


def _exports(shown: Shown) -> None:
    """Draw the page's exports; report and manifest say if the verdict is missing because seeds are still counted."""
    document, arms = shown.document, () if shown.at_true_size else shown.arms

    def contents() -> Contents:
        found = observe_contents(document, arms or ())
        return found if arms is not None else replace(found, paragraphs=[NOT_COUNTED, *found.paragraphs])

    record = record_of(document) | ({"verdict": NOT_COUNTED} if arms is None else {})
    shown.sheet.exports(contents=contents, record=record)


def _true_size(shown: Shown) -> None:
    """Draw the run at true size; once it has a document, the choice of what the figures show."""
    if true_runs.document(shown.model.request) is None:
        with st.expander("Run at true size", on_change="rerun", key="true-size") as fold, panels.refusals():
            if fold.open:
                true_runs.draw(shown.model.request)
        return
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium", key="size-row"):
        st.segmented_control("Figures, tables and exports of", (TRUE, TWIN), default=TRUE, required=True, key=SIZE)
        st.caption("The verdict counts seeds of the reduced twin; at true size one seed was run, block by block.")


def current_shown() -> Shown:
    """Return the current model with its document: at true size where it was run and that is chosen."""
    current = model.current()
    current.answered.check()
    cached.start_engine()
    true_runs.collect()
    found = true_runs.document(current.request) if current.is_reduced else None
    at_true_size = found is not None and st.session_state.get(SIZE, TRUE) == TRUE
    document = cached.observation(current.answered) if found is None or not at_true_size else found
    return Shown(current, document, Sheet("residual_health", "Health"), at_true_size)


st.title("Health")
welcome()
if controls.FAMILY.value is not None:
    # What it shows is the audit's, which a decoder's first figure need not wait for.
    from pages.residual_health import built

    built.show()
else:
    show(current_shown())
