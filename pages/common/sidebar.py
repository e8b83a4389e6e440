"""The sidebar of every page: presets, reset, pin, the shared controls where a page has them, and restoring."""

from __future__ import annotations

import streamlit as st

from core.export.manifest import MAX_PINS
from pages.common import decoder_controls, settings
from pages.common.navigation import Entry


def draw(entry: Entry) -> None:
    """Draw the sidebar below the menu."""
    with st.sidebar:
        if entry.decoder:
            st.selectbox(
                "Preset", list(settings.PRESETS), index=None, key=settings.PRESET, on_change=settings.apply_preset,
                placeholder="Choose a setting…",
            )  # fmt: skip
        with st.container(horizontal=True, gap="small", key="setting-buttons"):
            st.button("Reset", key="reset", icon=":material/undo:", on_click=settings.reset_page, args=(entry,))
            if entry.decoder:
                count = len(settings.pins())
                st.button(
                    f"Pin ({count}/{MAX_PINS})", key="pin", icon=":material/push_pin:", on_click=settings.pin,
                    disabled=count >= MAX_PINS,
                )  # fmt: skip
        if entry.decoder:
            decoder_controls.draw(one_recipe=entry.one_recipe)
        with st.expander("Files"):
            st.file_uploader(
                "Restore from a manifest", type=["json"], key="manifest_file", max_upload_size=1,
                on_change=settings.restore_upload,
            )  # fmt: skip
