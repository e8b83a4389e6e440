"""What a link asked for and did not get, one sentence each. Streamlit drops a parameter that a control cannot take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import streamlit as st

from core.errors import shown
from pages.common.control import Control

SEEN = "link notices"


def asked() -> dict[str, list[str]]:
    """The URL's parameters before any control is drawn, without those of controls that have a value already.

    A control reads the link when it is new to the session; afterwards the URL follows it, a run behind after a reset.
    """
    return {name: st.query_params.get_all(name) for name in st.query_params if name not in st.session_state}


def notices(before: Mapping[str, list[str]], controls: Iterable[Control]) -> list[str]:
    """Sentences on parameters that were dropped while the controls were drawn."""
    found = []
    for control in controls:
        wanted = before.get(control.name)
        if wanted and control.name not in st.query_params and str(control.value) != wanted[-1]:
            found.append(
                f"The link asks for {control.name} = {shown(wanted[-1])}, which is not {control.rule}; "
                f"{shown(control.value)} is used."
            )
    return found
