"""Dark ink on what has the dark theme's bright primary colour, where Streamlit writes white on it.

No single colour reads well both as the ground of white text and as text on the dark page, so the ink changes instead.
"""

from __future__ import annotations

import streamlit as st

from core.figures.style import PALETTES
from pages.common.panels import theme

FILLED = ('button[kind^="primary"]:not(:disabled) *', '[data-testid="stMultiSelect"] [data-tag] *')


def dark_ink() -> None:
    """Put the style on the page; it takes no room and nothing in the light theme."""
    if theme() == "dark":
        st.html(f"<style>{', '.join(FILLED)} {{ color: {PALETTES['dark'].paper} !important; }}</style>")
