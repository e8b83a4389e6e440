"""Laptop plan: what a decoder of any size holds, by exact arithmetic, and a separate run of the ones that fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import streamlit as st

from core.decoder.batch import Batch
from core.decoder.config import DecoderConfig
from core.errors import DepthscopeError, StorageError
from core.figures.bars import role_figure
from core.health.diagnosis import comparison, diagnose
from core.health.request import ObserveRequest
from core.plan.arithmetic import plan_document
from core.plan.model_config import read_model_config
from core.plan.presets import PRESETS
from core.plan.request import PlanRequest
from core.tables.observe import site_table
from core.tables.studies import byte_table, plan_run_rows, role_table
from pages.common import jobs, panels
from pages.common.outputs import Sheet
from pages.common.site_figures import draw_ratios
from pages.common.widgets import beside, values_of
from pages.laptop_plan.controls import CONTROLS, FAMILIES, MODEL, OWN, SIZES, TOKENS, UPLOADED, own_request

FILE = "uploaded config"


def keep_file() -> None:
    """Callback of the uploader: keep name and bytes over page switches."""
    file = st.session_state.get("config_file")
    if file is not None:
        st.session_state[FILE] = (file.name, file.getvalue())


def chosen_request(model: str) -> PlanRequest:
    """The plan that the controls describe; raises a `DepthscopeError`."""
    if model == OWN:
        for part in beside((SIZES, FAMILIES)):
            for control in part:
                control.draw()
        return own_request(values_of(CONTROLS))
    if model == UPLOADED:
        st.file_uploader("config.json", type=["json"], key="config_file", max_upload_size=1, on_change=keep_file)
        if st.session_state.get(FILE) is None:
            raise StorageError("No config.json is uploaded yet; a link does not carry one.")
        name, data = st.session_state[FILE]
        try:
            return read_model_config(data)
        except DepthscopeError as error:
            raise StorageError(panels.of_file(name, error)) from error
    return PRESETS[model].request


def run(config: DecoderConfig) -> None:
    """Observe the planned decoder for real, on request."""
    st.subheader("Run it")
    st.markdown(
        "The plan above is arithmetic; nothing was built for it. This part builds the decoder and observes both arms, "
        "in float32, on one row of counted ids."
    )
    tokens = TOKENS.draw()
    rows = plan_run_rows(config, tokens)
    request = ObserveRequest(
        config=replace(config, positions=max(config.positions, tokens)),
        dtype="float32",
        batch=Batch.from_rows(*rows),
    )
    document = jobs.document(request)
    if document is not None:
        show(document)


def show(document: dict[str, Any]) -> None:
    """What the run found."""
    panels.verdict(diagnose(document), comparison(document))
    sites = site_table(document)
    draw_ratios(sheet, sites, prefix="run-")
    sheet.table("run-sites", sites, alt="Every site of both arms.")


st.title("Laptop plan")
st.markdown(
    "Exact parameters and bytes of a decoder, tensor by tensor. No array of the model is allocated, whatever its size."
)

sheet = Sheet("laptop_plan", "Laptop plan")
request = chosen_request(MODEL.draw())
plan = plan_document(request)
st.metric("Parameters", f"{int(plan['parameters']):,}")
st.markdown("Outside the blocks + blocks × (one block) + tail = total:")
panels.formula(plan["formula"].replace("×", r"\times "))
st.caption(
    f"Depth factor 1/sqrt({request.config.blocks}) = {plan['factor']:.9f}; {plan['residual_states']} residual "
    f"states of {plan['context']} positions and {request.config.width} features; not executed."
)
if plan["assumed"]:
    assumed = ", ".join(f"{name} = {value}" for name, value in plan["assumed"].items())
    panels.notice(f"Left out of the file and taken at the family's own default: {assumed}.")
roles, sizes = role_table(plan), byte_table(plan)
sheet.figure("roles", role_figure.chart(roles))
sheet.table(
    "roles", roles, alt="Tensors, shapes and coordinates by name.", formats={"coordinates": "%,d", "share": "%.4f"}
)
st.subheader("Bytes")
sheet.table("bytes", sizes, alt="Bytes by floating type.", formats=dict.fromkeys(sizes.columns[1:], "%,d"))
st.caption(
    ". ".join(f"{part.replace('_', ' ').capitalize()}: {words}" for part, words in plan["bytes_meaning"].items()) + "."
)
with panels.refusals():
    run(request.config)
sheet.exports(record={"config": plan["config"], "tied": plan["tied"]})
