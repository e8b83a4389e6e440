"""All controls of a page at once: reset, stored runs, the link to a setting, and restoring a manifest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

import streamlit as st

from core.decoder.batch import Batch
from core.errors import DepthscopeError, StorageError, shown
from core.export.manifest import SavedSetting, read_manifest
from core.health.request import ObserveRequest
from pages.common import model_controls as shared
from pages.common import navigation, panels
from pages.common.widgets import Control, assign, defaults_of, linked, reset, values_of

PINS, REFUSAL, NEXT_PAGE = "pins", "restore refusal", "next page"


def reset_page(entry: navigation.Entry) -> None:
    """Callback of the button Reset: set the controls of the page, and of the model if it uses it, to their defaults."""
    reset(entry.all_controls if entry.section == navigation.YOUR_MODEL else entry.controls)


def saved(controls: Iterable[Control]) -> SavedSetting:
    """Return the present values of the controls, with the batch if it was uploaded."""
    values = values_of(controls)
    batch = st.session_state.get(shared.UPLOADED) if values.get("batch") == shared.UPLOADED_BATCH else None
    return SavedSetting(setting=values, batch=batch.document() if isinstance(batch, Batch) else None)


def query_parameters(controls: Iterable[Control]) -> dict[str, str | list[str]]:
    """Return the query parameters of a link to the present setting: all controls that are not at their defaults."""
    return {c.name: linked(c.value) for c in controls if c.linked and c.value != c.default}


def query(controls: Iterable[Control]) -> str:
    """Return the query of the link to the present setting as text."""
    return urlencode(query_parameters(controls), doseq=True)


def request_of(setting: SavedSetting) -> ObserveRequest:
    """Return the `ObserveRequest` that a saved setting describes. Raises `DepthscopeError` if it is not valid."""
    batch = None if setting.batch is None else Batch.from_document(setting.batch)
    return shared.request_of(setting.setting, batch)


def pins() -> list[SavedSetting]:
    """Return the stored runs, the oldest first."""
    return list(st.session_state.get(PINS, []))


def restore_upload() -> None:
    """Callback of the uploader for a manifest: restore the page, or store the sentence of the error."""
    file = st.session_state.get("manifest_file")
    if file is not None:
        try:
            restore(file.getvalue())
        except DepthscopeError as error:
            st.session_state[REFUSAL] = panels.of_file(file.name, error)


def restore(data: bytes) -> None:
    """Set all controls of the page named in a manifest to the saved values.

    If one value is not valid, nothing is set. Raises `DepthscopeError`.
    """
    manifest = read_manifest(data)
    entry = navigation.ENTRIES.get(manifest.page)
    if entry is None:
        raise StorageError(f"The manifest is of the page {shown(manifest.page)}, which this app does not have.")
    values = checked(manifest.saved.setting, entry.all_controls)
    batch = None if manifest.saved.batch is None else Batch.from_document(manifest.saved.batch)
    if not (values["batch"] == shared.UPLOADED_BATCH and batch is None):
        shared.request_of(values, batch)
    kept = [_checked_pin(one) for one in manifest.pins]
    assign(values)
    if batch is not None:
        st.session_state[shared.UPLOADED] = batch
    st.session_state[PINS] = kept
    st.session_state[NEXT_PAGE] = entry
    st.session_state[REFUSAL] = None


def checked(setting: Mapping[str, Any], controls: Iterable[Control]) -> dict[str, Any]:
    """Return the values in a file for these controls; a missing value is the default. Raises `DepthscopeError`."""
    by_name = {control.name: control for control in controls}
    for name in setting:
        if name not in by_name:
            raise StorageError(f"The manifest sets {shown(name)}, which its page does not have.")
    return defaults_of(by_name.values()) | {name: by_name[name].checked(value) for name, value in setting.items()}


def _checked_pin(setting: SavedSetting) -> SavedSetting:
    found = SavedSetting(setting=checked(setting.setting, shared.MODEL), batch=setting.batch, name=setting.name)
    request_of(found)
    return found
