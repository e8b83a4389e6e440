"""The sidebar of every page: presets, reset, pin, the shared controls where a page has them, and restoring."""

from __future__ import annotations

import streamlit as st

from core.export.manifest import MAX_PINS
from pages.common import controls, settings
from pages.common.navigation import Entry
from pages.common.sheet import IMAGE


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
                full = len(settings.pins()) >= MAX_PINS
                st.button(
                    f"Pin ({len(settings.pins())}/{MAX_PINS})",
                    key="pin",
                    icon=":material/push_pin:",
                    on_click=settings.pin,
                    disabled=full,
                )
        if entry.decoder:
            controls.draw_decoder_controls(one_recipe=entry.one_recipe)
        with st.expander("Files"):
            IMAGE.draw()
            st.file_uploader(
                "Restore from a manifest", type=["json"], key="manifest_file", max_upload_size=1,
                on_change=settings.restore_upload,
            )  # fmt: skip
