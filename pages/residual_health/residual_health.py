"""Residual health: both arms of one decoder, site by site, beside the band."""

from __future__ import annotations

from typing import Any

import streamlit as st

from core.export.manifest import record_of
from core.export.observe import observe_contents
from core.health.diagnosis import comparison, diagnose
from core.health.request import ObserveRequest
from core.recipes.catalogue import recipe
from pages.common import decoder_controls, jobs, panels, recipe_panel
from pages.common.outputs import Sheet
from pages.common.widgets import assign, draw_tabs
from pages.residual_health.tabs import TABS, Shown


def show(request: ObserveRequest, document: dict[str, Any]) -> None:
    """The verdict, the open tab and the exports."""
    diagnosis = diagnose(document)
    panels.verdict(diagnosis, comparison(document))
    name = recipe(request.recipe).name
    if recipe(name).parts and jobs.is_long(request):
        recipe_panel.caution(name, "is a combination, and this decoder is too large to weigh its parts here.")
    else:
        recipe_panel.warn(request, [name])
    if not diagnosis.within:
        st.button("Mend it", key="mend", icon=":material/healing:", on_click=assign, args=({"view": "Mend it"},))
    shown = Shown(request, document, Sheet("residual_health", "Residual health"))
    draw_tabs(TABS, shown, key="view")
    shown.sheet.exports(contents=lambda: observe_contents(document), record=record_of(document))


st.title("Residual health")
st.markdown(
    "How large the residual stream and the loss sensitivity are at every residual site of a fresh decoder, beside the "
    "same base draw without depth scaling."
)

request = decoder_controls.request()
document = jobs.document(request)
if document is not None:
    show(request, document)
