"""A visitor's files and texts as the current model: sizes and a digest are stored, and a private copy for the audit.

A config alone is only read. A folder with weights, as a zip or as several files, is screened by the audit's intake,
which checks counts, sizes, names, headers and code before anything is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import streamlit as st

from core.audit.intake.several import Given
from core.errors import DepthscopeError
from core.plan.model_config import request_from_document
from core.plan.nanogpt import PASTED, settings_from_text
from core.plan.observed_config import observed_from_document
from core.plan.request import PlanRequest
from core.strict_json import MAX_BYTES, JsonValue, parse_json
from pages.common import model, panels
from pages.common import model_controls as controls
from pages.common.widgets import assign
from pages.model_audit import uploads
from pages.model_audit.audits import BUDGET

REFUSAL = "model refusal"
SUFFIXES = ("json", "zip", "safetensors")
MAX_MEGABYTES = uploads.MAX_MEGABYTES
KEPT_PLANS = 8


def take(key: str) -> None:
    """Callback of an uploader: make its files the current model, or store the sentence that explains the error."""
    files = st.session_state.get(key) or []
    if not files:
        return
    st.session_state[REFUSAL] = None
    name = files[0].name if len(files) == 1 else f"{len(files)} files"
    try:
        if len(files) == 1 and name.lower().endswith(".json"):
            take_config(files[0].getvalue())
        else:
            _take_folder(files)
    except DepthscopeError as error:
        st.session_state[REFUSAL] = panels.of_file(name, error)


def take_text(text: str) -> None:
    """Make pasted settings the current model, or store the sentence that explains the error."""
    st.session_state[REFUSAL] = None
    try:
        data = text.encode()
        document = parse_json(data, source=PASTED) if text.lstrip().startswith("{") else settings_from_text(text)
        _take_document(document, data, PASTED)
    except DepthscopeError as error:
        st.session_state[REFUSAL] = panels.told(error)


def take_config(data: bytes) -> None:
    """Make the decoder of a `config.json` the current model. Raises `DepthscopeError` if the file is not valid."""
    _take_document(parse_json(data, source="config.json"), data, "config.json")


def _take_document(document: JsonValue, data: bytes, name: str) -> None:
    found = observed_from_document(document, int(controls.CONTEXT.default), name)
    values = {**model.observed_values(found), "file": hashlib.sha256(data).hexdigest()[:16]}
    by_name = {control.name: control for control in controls.MODEL}
    for control, value in values.items():
        by_name[control].checked(value)
    _keep_plan(str(values["file"]), request_from_document(document, name))
    model.take(values)


def _take_folder(files: Sequence[Any]) -> None:
    """Give a folder with weights to the audit's upload room, and make the decoder of its config the current model."""
    room = uploads.room()
    room.take([Given(file.name, file, file.size) for file in files], BUDGET)
    assert room.upload is not None
    path = room.upload.path
    with open(path if path.is_file() else path / "config.json", "rb") as stream:
        take_config(stream.read(MAX_BYTES + 1))
    assign({"model": "uploaded"})


def _keep_plan(digest: str, plan: PlanRequest) -> None:
    kept = dict(list(st.session_state.get(model.FILES, {}).items())[-(KEPT_PLANS - 1) :])
    st.session_state[model.FILES] = {**kept, digest: plan}
