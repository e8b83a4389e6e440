"""Residual health: both arms of one decoder, site by site, beside the band."""

from __future__ import annotations

from typing import Any

import streamlit as st

from core.decoder.recipes import recipe
from core.health.diagnosis import comparison, diagnose
from core.health.request import ObserveRequest
from core.views.manifest import record_of
from core.views.report import observe_contents
from pages.common import controls, job, long_run, panels, recipe_panel
from pages.common.control import assign
from pages.common.sheet import Sheet
from pages.residual_health.tabs import VIEWS, Shown


def show(request: ObserveRequest, document: dict[str, Any]) -> None:
    """The verdict, the open tab and the exports."""
    diagnosis = diagnose(document)
    panels.verdict(diagnosis, comparison(document))
    if recipe(request.recipe).parts:
        _warn_of_combination(request)
    if not diagnosis.within:
        st.button("Mend it", key="mend", icon=":material/healing:", on_click=assign, args=({"view": "Mend it"},))
    shown = Shown(request, document, Sheet("residual_health", "Residual health"))
    tabs = st.tabs(list(VIEWS), key="view", on_change="rerun", bind="query-params")
    for tab, draw in zip(tabs, VIEWS.values(), strict=True):
        if tab.open:
            with tab:
                draw(shown)
    shown.sheet.exports(contents=lambda: observe_contents(document), record=record_of(document))


def _warn_of_combination(request: ObserveRequest) -> None:
    if job.is_long(request):
        recipe_panel.caution(request.recipe, "is a combination, and this decoder is too large to weigh its parts here.")
    else:
        recipe_panel.warn(request, [recipe(request.recipe).name])


st.title("Residual health")
st.markdown(
    "How large the residual stream and the loss sensitivity are at every residual site of a fresh decoder, beside the "
    "same base draw without depth scaling."
)

with panels.refusals():
    request = controls.request()
    document = long_run.document(request)
    if document is not None:
        show(request, document)
