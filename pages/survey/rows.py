"""From a row of the survey to the page that audits its model family."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st

from pages.common import model, navigation, settings
from pages.common.widgets import reset
from pages.survey import controls

TARGET = "model_audit"


def opener(rows: Sequence[Mapping[str, Any]]) -> Callable[[], None]:
    """Return the callback for a row that the visitor chooses in the table of `rows`; it opens that family."""
    return partial(_open_chosen, [str(row["family"]) for row in rows])


def picker(rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw a menu of families and the button that opens the chosen one, for visitors without a mouse."""
    entry = navigation.ENTRIES[TARGET]
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom", key="survey-picker"):
        family = controls.FAMILY.draw([str(row["family"]) for row in rows])
        st.button(f"Open on {entry.title}", key="open-family", icon=entry.symbol, on_click=open_family, args=(family,))
        st.caption("Or tick a row of the table.")


def open_family(family: str) -> None:
    """Callback: open the page Audit a model with this family and all other controls at their defaults."""
    entry = navigation.ENTRIES[TARGET]
    reset(entry.all_controls)
    model.take_family(family)
    st.session_state[settings.NEXT_PAGE] = entry


def _open_chosen(families: Sequence[str]) -> None:
    chosen = st.session_state["table-survey"].selection.rows
    if chosen:
        open_family(families[chosen[0]])
