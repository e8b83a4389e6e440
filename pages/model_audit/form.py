"""The top of the page Audit a model: the form, the buttons Audit and Cancel, and examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.audit.request import AuditRequest, parsed_sigma
from core.errors import BudgetError
from pages.common import jobs, panels
from pages.common.widgets import assign, beside, defaults_of, draw_beside
from pages.model_audit import audits, controls, uploads
from pages.model_audit.audits import Wanted

RUN = "audit-run"
# Families worth a first look, with what each shows.
EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "GPT-2, its rule applied": {"family": "gpt2", "rule": "gpt2"},
    "NanoChat, one writer forgotten": {"family": "nanochat", "rule": "gpt2"},
    "Granite, scaled in the forward": {"family": "granite"},
    "Gemma 2, norms behind branches": {"family": "gemma2"},
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
    """Draw the form; return the audit that it describes, or None, and the place of the button Audit."""
    with st.container(border=True, key="audit-form"):
        chosen = controls.MODEL.draw()
        if chosen == controls.UPLOADED:
            _upload()
        else:
            draw_beside((controls.FAMILY, controls.BLOCKS, controls.WIDTH), (2.2, 1, 1))
        draw_beside((controls.RULE, controls.SIGMA, controls.SEED, controls.DTYPE))
        place = st.container(horizontal=True, gap="medium", vertical_alignment="center", key="audit-run-row")
        wanted = None
        with panels.refusals():
            wanted = _wanted(chosen)
    return wanted, place


def run_row(place: DeltaGenerator, wanted: Wanted | None) -> None:
    """Draw the button Audit and the limits of an audit in `place`.

    Call it when it is known whether an audit is running.
    """
    with place:
        st.button(
            "Audit", key=RUN, type="primary", icon=":material/search:", on_click=audits.start, args=(wanted,),
            disabled=wanted is None or jobs.running() is not None,
        )  # fmt: skip
        st.caption(audits.LIMITS, width="stretch")


def state(wanted: Wanted, document: Mapping[str, Any] | None) -> None:
    """Draw why the last audit was refused, or the progress of the present one, or that none has been run."""
    if (sentence := st.session_state.pop(audits.REFUSAL, None)) is not None:
        panels.refusal(sentence)
    elif (running := jobs.running()) is not None:
        if running.key != wanted:
            panels.notice("Another long run of this session is under way; cancel it, or wait for its end.")
        jobs.progress(running)
    elif document is None:
        st.info(
            "Press Audit to run this one. Results of this session are kept by their settings.", icon=":material/search:"
        )


def empty(sentence: str) -> None:
    """Draw `sentence`, what the page does, and buttons with example models."""
    panels.notice(sentence)
    for title, text in beside(STEPS.items()):
        with st.container(border=True, height="stretch"):
            st.markdown(f"**{title}**")
            st.markdown(text)
    st.markdown("**Begin with one of these**")
    with st.container(horizontal=True, gap="small", key="audit-examples"):
        for index, (title, values) in enumerate(EXAMPLES.items()):
            st.button(title, key=f"audit-example-{index}", on_click=_example, args=(values,))


def _wanted(chosen: str) -> Wanted | None:
    request = AuditRequest(
        rule=controls.RULE.value, sigma=parsed_sigma(controls.SIGMA.value), seed=controls.SEED.value,
        dtype=controls.DTYPE.value, max_parameters=audits.MAX_PARAMETERS,
    )  # fmt: skip
    request.check()
    upload, family = uploads.room().upload, controls.FAMILY.value
    if chosen == controls.UPLOADED and upload is not None:
        shrink = bool(controls.SHRINK.value)
        return Wanted(request=request, digest=upload.digest, shrink=shrink) if shrink or not upload.too_large else None
    if chosen == controls.FROM_FAMILY and family is not None:
        blocks, width = controls.BLOCKS.value, int(controls.WIDTH.value)
        return Wanted(request=request, family=family, blocks=blocks, width=width)
    return None


def _upload() -> None:
    upload = uploads.room().upload
    refused: tuple[str, int] | None = st.session_state.get(uploads.REFUSED)
    left, right = st.columns([3, 1], vertical_alignment="bottom" if upload else "top")
    with left:
        if upload is not None:
            _file(":material/inventory_2:", upload.name, upload.size)
        else:
            if refused is not None:
                _file(panels.REFUSED, *refused)
            uploads.uploader(audits.BUDGET)
    with right:
        controls.SHRINK.draw()
    if (sentence := st.session_state.get(uploads.REFUSAL)) is not None:
        panels.refusal(sentence)
    if upload is None:
        st.caption(uploads.LIMITS)
    elif upload.too_large is not None and not controls.SHRINK.value:
        _offer_small(upload.too_large)


def _file(icon: str, name: str, size: int) -> None:
    """Draw an upload, accepted or refused, and the button Remove."""
    with st.container(horizontal=True, gap="medium", vertical_alignment="center", key="audit-upload"):
        st.markdown(f"{icon} **{panels.escaped(name)}**, {size:,} bytes", width="content")
        st.button("Remove", key="audit-remove", icon=":material/delete:", type="tertiary", on_click=uploads.remove)


def _offer_small(error: BudgetError) -> None:
    """Draw why a model is too large to be audited, and the button that switches on small widths."""
    panels.notice(f"{error.sentence.rstrip('.')}; its depth can be audited with small widths.")
    st.button(
        "Switch on Small widths", key="audit-shrink", icon=":material/compress:", on_click=assign,
        args=({controls.SHRINK.name: True},),
    )  # fmt: skip


def _example(values: Mapping[str, Any]) -> None:
    assign({**defaults_of(controls.CONTROLS), **values})
    wanted = _wanted(controls.FROM_FAMILY)
    if wanted is not None:
        audits.start(wanted)
