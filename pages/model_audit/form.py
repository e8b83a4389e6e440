"""The top of the page Audit a model: the rule to check the model against, the button Audit, and example models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.audit.request import parsed_sigma
from core.errors import DepthscopeError
from pages.common import audits, jobs, model, model_ways, panels, subject
from pages.common.audits import Wanted
from pages.common.widgets import assign, beside, draw_beside
from pages.model_audit import controls

RUN = "audit-run"
# Families worth a first look, with the rule to hold them against and what each shows.
EXAMPLES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "GPT-2, its rule applied": ("gpt2", {"rule": "gpt2"}),
    "NanoChat, one writer forgotten": ("nanochat", {"rule": "gpt2"}),
    "Granite, scaled in the forward": ("granite", {}),
    "Gemma 2, norms behind branches": ("gemma2", {}),
}
STEPS = {
    "Find": "The model runs once, and the chain of additions from embedding to final norm is read off what it did. No "
    "list of module names is consulted.",
    "Prove": "Every addition must add up to rounding, and zeroing its writers must change what follows and nothing "
    "before it. Otherwise the verdict says where.",
    "Judge": "Every matrix that writes to the stream is held against the declared depth rule at two depths, and a twin "
    "of the same base draw shows what the repair would do.",
}


def form() -> tuple[Wanted | None, DeltaGenerator]:
    """Draw the form.

    Return (the audit that it describes, or None if it is not valid, and the place of the button Audit).
    """
    with st.container(border=True, key="audit-form"):
        draw_beside(controls.CONTROLS)
        place = st.container(horizontal=True, gap="medium", vertical_alignment="center", key="audit-run-row")
        try:
            return _wanted(), place
        except DepthscopeError as error:
            panels.refusal(panels.told(error))
            return None, place


def run_row(place: DeltaGenerator, wanted: Wanted | None) -> None:
    """Draw the button Audit and its limits in `place`; called when it is known whether an audit is running."""
    with place:
        st.button(
            "Audit", key=RUN, type="primary", icon=":material/search:", on_click=audits.start, args=(wanted,),
            disabled=wanted is None or jobs.AUDITS.running() is not None,
        )  # fmt: skip
        st.caption(audits.LIMITS, width="stretch")


def empty() -> None:
    """Draw what the page does, and models to begin with."""
    for title, text in beside(STEPS.items()):
        with st.container(border=True, height="stretch"):
            st.markdown(f"**{title}**")
            st.markdown(text)
    st.markdown("**Begin with one of these, or with a model of your own**")
    with st.container(horizontal=True, gap="small", key="audit-examples"):
        for index, (title, (family, values)) in enumerate(EXAMPLES.items()):
            st.button(title, key=f"audit-example-{index}", on_click=_example, args=(family, values))
        st.button(
            "Your own", key="audit-own", icon=":material/upload_file:", on_click=model_ways.ask, args=(model_ways.DROP,)
        )


def _wanted() -> Wanted:
    return subject.wanted(controls.RULE.value, parsed_sigma(controls.SIGMA.value), controls.DTYPE.value)


def _example(family: str, values: Mapping[str, Any]) -> None:
    model.take_family(family)
    assign({control.name: control.default for control in controls.CONTROLS} | dict(values))
    audits.start(_wanted())
