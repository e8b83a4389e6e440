"""The sidebar of every page below the menu: the button Reset, and the uploader for a manifest."""

from __future__ import annotations

import streamlit as st

from pages.common import settings
from pages.common.navigation import Entry


def draw(entry: Entry) -> None:
    """Draw the sidebar below the menu."""
    with st.sidebar:
        st.button("Reset", key="reset", icon=":material/undo:", on_click=settings.reset_page, args=(entry,))
        with st.expander("Files"):
            st.file_uploader(
                "Restore from a manifest", type=["json"], key="manifest_file", max_upload_size=1,
                on_change=settings.restore_upload,
            )  # fmt: skip
