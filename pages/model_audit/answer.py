"""The first part of the audit's result on its page: the headline, the repair as code, and the evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st

from core.audit.report.repair_forms import LOOP, OVERRIDE
from core.command.audit_ci import ci_snippet
from core.export.audit import FILES, gate_file
from core.tables import audit_words as words
from pages.common import panels
from pages.model_audit.tabs import Shown

# The box of the headline: by the state of health where nothing is off, else by how much it matters.
STATE_BOXES = {"inside": "good", "close": "careful", "outside": "fault", "refused": "fault"}
MATTER_BOXES = {"always": "fault", "much": "fault", "some": "careful", "little": "careful", "unknown": "careful"}
FORMS = {LOOP: "PyTorch, any model", OVERRIDE: "transformers, by _init_weights"}


def answer(document: Mapping[str, Any]) -> None:
    """Draw the headline, the repair as code, and a line each on the model, the proof and the rule."""
    model, headline = document["model"], document["headline"]
    st.subheader(panels.escaped(model["class"]))
    first, *rest = headline["sentences"]
    panels.box(_box(document), " ".join(rest), first)
    if document["repairs"]:
        repairs(document["repairs"])
    st.caption(panels.escaped(words.model_sentence(document)))
    _identity(document)
    if not model["trained"]:
        st.caption(panels.escaped(words.base_sentence(document)))
    for note in (*model["notes"], *document["conformance"]["notes"]):
        st.caption(f"{panels.NOTE} {panels.escaped(note)}")


def gate_files(shown: Shown) -> None:
    """Draw the files and the steps for continuous integration, in an expander."""
    with st.expander("For continuous integration", icon=":material/published_with_changes:"):
        st.markdown("These steps audit the model on every change, and fail where the initialization no longer holds.")
        _code(ci_snippet(shown.document))
        with st.container(horizontal=True, gap="small", key="gate-files"):
            for name, mime in FILES.items():
                shown.sheet.file(name, mime, partial(gate_file, shown.document, name))
        st.caption("The files are what the command line writes as JSON, JUnit and SARIF.")


def _box(document: Mapping[str, Any]) -> str:
    headline = document["headline"]
    if document["model"]["trained"] and not headline["off"]:
        return "note"
    if headline["off"]:
        return MATTER_BOXES[headline["matters"]]
    # An input that is small beside the first block is no fault of the depth.
    by_input = headline["as_it_is"] is not None and headline["as_it_is"]["verdict"]["cause"] == "input"
    return "careful" if by_input else STATE_BOXES.get(headline["state"], "note")


def repairs(found: Sequence[Mapping[str, str]]) -> None:
    """Draw every repair, one tab per form of it."""
    st.markdown("**The repair as code**")
    forms = [form for form in FORMS if any(repair["form"] == form for repair in found)]
    for form, tab in zip(forms, st.tabs([FORMS[form] for form in forms]), strict=True):
        codes = [repair["code"] for repair in found if repair["form"] == form]
        with tab:
            for code in codes:
                _code(code)


def _code(code: str) -> None:
    """Draw code to copy, wrapped and in one colour.

    A block that scrolls cannot be reached by keyboard, and the highlighter's colours have too little contrast.
    """
    st.code(code, language=None, wrap_lines=True)


def _identity(document: Mapping[str, Any]) -> None:
    """Draw the check of the tool itself as a line; as a box if it fails, because the numbers are then less certain."""
    verdict, sentence = document["identity"]["verdict"], words.identity_sentence(document)
    title = words.IDENTITY_TITLES[verdict]
    if verdict == "proved":
        st.caption(f":material/verified: {panels.escaped(f'{title}: {sentence}')}")
    else:
        panels.box("careful" if verdict == "partial" else "fault", sentence, title)
