"""Makes a visitor's files or pasted settings the current model.

The settings and a digest of the config are kept; weights are kept for the audit alone. A folder with weights, as a zip
or as several files, is checked before anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from core.audit.intake.config_file import DEPTH_KEYS, WIDTH_KEYS, fresh_settings, screen_config
from core.audit.intake.several import Given
from core.audit.request import checked_family
from core.errors import ConfigError, DepthscopeError, Remedy
from core.plan.model_config import request_from_document
from core.plan.nanogpt import PASTED, settings_from_text
from core.plan.observed_config import observed_from_document
from core.strict_json import JsonValue, parse_json
from pages.common import audits, given, model, panels, uploads
from pages.common import model_controls as controls

REFUSAL = "model refusal"
SUFFIXES = ("json", "zip", "safetensors")


def take(key: str) -> None:
    """Callback of a file uploader: make its files the current model, or store the sentence that explains the error."""
    files = st.session_state.get(key) or []
    if not files:
        return
    st.session_state[REFUSAL] = None
    name = files[0].name if len(files) == 1 else f"{len(files)} files"
    try:
        if len(files) == 1 and name.lower().endswith(".json"):
            take_config(files[0].getvalue(), name)
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


def take_config(data: bytes, name: str = "config.json") -> None:
    """Make the model of a `config.json` the current one. Raises `DepthscopeError` if the file is not valid.

    A family whose graph the decoder does not have is left to the library's own code.
    """
    _take_document(parse_json(data, source="config.json"), data, "config.json", name)


def _take_document(document: JsonValue, data: bytes, source: str, name: str = "") -> None:
    if isinstance(document, dict):
        document = fresh_settings(document)
    try:
        found = observed_from_document(document, int(controls.CONTEXT.default), source)
        config = given.Config(
            name=name or source, document=_mapping(document), found=found,
            plan=request_from_document(document, source),
        )  # fmt: skip
        values = model.observed_values(found)
    except ConfigError as error:
        if Remedy.AUDIT not in error.ways or not isinstance(document, dict):
            raise
        config = given.Config(name=name or source, document=document)
        values = _library_values(document)
    values["file"] = uploads.digest_of(data)
    by_name = {control.name: control for control in controls.MODEL}
    for control, value in values.items():
        by_name[control].checked(value)
    given.keep(str(values["file"]), config)
    model.take(values)


def _library_values(document: Mapping[str, JsonValue]) -> dict[str, Any]:
    """Return the control values of a model that the library builds. Raises `AuditError` if it cannot be built."""
    family = checked_family(screen_config(document, audits.BUDGET, shrink=True))
    values: dict[str, Any] = {"family": family, "batch": controls.RANDOM}
    for name, keys in (("blocks", DEPTH_KEYS), ("width", WIDTH_KEYS)):
        size = next((document[key] for key in keys if isinstance(document.get(key), int)), None)
        if size is not None:
            values[name] = size
    return values


def _mapping(document: JsonValue) -> Mapping[str, JsonValue]:
    assert isinstance(document, dict), "the reader of decoders refuses everything else"
    return document


def _take_folder(files: Sequence[Any]) -> None:
    """Keep a folder with weights in the session's upload room, and make the model of its config the current one."""
    room = uploads.room()
    config = room.take([Given(file.name, file, file.size) for file in files])
    try:
        take_config(config, uploads.titled(files))
    except DepthscopeError:
        room.clear()
        raise
