"""Audit a model: find the residual stream of the current model, prove it, judge its initialization, show its health."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from core.command.audit_ci import with_snippet
from core.export.audit import TITLE, audit_contents, audit_record
from pages.common import audits, jobs, panels
from pages.common.outputs import Sheet
from pages.common.widgets import draw_tabs
from pages.model_audit import form as audit_form
from pages.model_audit.answer import answer, gate_files
from pages.model_audit.tabs import TABS, Shown

st.title(TITLE)
st.markdown(
    "It builds the model above by its own code and says whether its layers start healthy, what of the initialization "
    "is off, whether that matters at this depth, and which lines of code mend it."
)


def show(document: Mapping[str, Any]) -> None:
    """Draw the answer, the open tab and the page's exports."""
    shown = Shown(document, Sheet("model_audit", TITLE))
    answer(document)
    draw_tabs(TABS, shown, key="audit_view")
    gate_files(shown)
    shown.sheet.exports(contents=lambda: audit_contents(document), record=audit_record(document))


# Streamlit forgets a button when another page is shown, so this is the first run of a visit.
arrived = audit_form.RUN not in st.session_state
audits.collect()
wanted, place = audit_form.form()
document = None if wanted is None else jobs.kept(wanted)
if arrived and wanted is not None and wanted.family and document is None and jobs.AUDITS.running() is None:
    audits.start(wanted)
audit_form.run_row(place, wanted)
if wanted is None:
    audit_form.empty()
else:
    if wanted.note:
        st.caption(panels.escaped(wanted.note))
    audits.state(wanted, document)
    if document is not None:
        show(with_snippet(document))
