"""Runs: up to four stored settings of the model, with names, drawn in one figure.

They are in the session, the URL and the manifest. In the URL a run is its name and all controls that are not at their
defaults.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from urllib.parse import parse_qsl, urlencode

import streamlit as st

from core.errors import ConfigError, DepthscopeError
from core.export.manifest import MAX_PINS, SavedSetting
from pages.common import model_controls as controls
from pages.common import panels
from pages.common.settings import PINS, pins, request_of, saved
from pages.common.widgets import defaults_of, linked

# The URL's parameter, and session entries: the page whose link was read last, and names of runs that are not drawn.
NAME, READ, HIDDEN = "run", "runs were read on", "hidden runs"
LONGEST_NAME = 40


def keep() -> None:
    """Callback of the button Keep: store the current setting as a run, if it is new and there are fewer than four."""
    one = saved(controls.MODEL)
    others = pins()
    if len(others) < MAX_PINS and all((other.setting, other.batch) != (one.setting, one.batch) for other in others):
        name = f"{one.setting['blocks']} × {one.setting['width']}, {one.setting['recipe']}"
        st.session_state[PINS] = [*others, replace(one, name=_unique(name, others))]


def remove(index: int) -> None:
    """Callback of the button Remove: delete the run at `index`."""
    st.session_state[PINS] = [one for place, one in enumerate(pins()) if place != index]


def rename(index: int, key: str) -> None:
    """Callback of the name field with this key: rename the run at `index`; a name already used gets a number."""
    kept = pins()
    others = [one for place, one in enumerate(kept) if place != index]
    kept[index] = replace(kept[index], name=_unique(str(st.session_state[key]).strip()[:LONGEST_NAME] or "run", others))
    st.session_state[PINS] = kept


def drawn() -> list[SavedSetting]:
    """Return the runs that the visitor has not hidden."""
    hidden = st.session_state.get(HIDDEN, set())
    return [one for one in pins() if one.name not in hidden]


def draw_list() -> None:
    """Draw one row per run: its name, the switch that shows it, and the button Remove."""
    hidden: set[str] = st.session_state.setdefault(HIDDEN, set())
    for index, one in enumerate(pins()):
        with st.container(horizontal=True, gap="small", vertical_alignment="bottom", key=f"run-{index}"):
            key = f"run-name-{index}-{one.name}"
            st.text_input(f"Name of run {index + 1}", one.name, key=key, on_change=rename, args=(index, key), width=320)
            place = f"run-shown-{index}-{one.name}"
            st.toggle("Shown", one.name not in hidden, key=place, on_change=_toggled(one.name, place))
            st.button("Remove", key=f"run-remove-{index}", icon=":material/delete:", type="tertiary", on_click=remove,
                      args=(index,))  # fmt: skip


def arrive(page: str) -> list[str]:
    """Read the runs from the link when a page is opened; return a sentence for each one that is not valid."""
    if st.session_state.get(READ) == page:
        return []
    st.session_state[READ] = page
    texts, sentences = st.query_params.get_all(NAME), []
    kept: list[SavedSetting] = []
    for text in texts[:MAX_PINS]:
        try:
            kept.append(_read(text, kept))
        except DepthscopeError as error:
            sentences.append(f"A run of the link was left out: {panels.told(error)}")
    if texts:
        st.session_state[PINS] = kept
    return sentences


def keep_in_link() -> None:
    """Write the runs into the URL, except those whose input is uploaded or typed."""
    wanted = [_written(one) for one in pins() if one.setting["batch"] in (controls.CHAPTER, controls.RANDOM)]
    if not wanted:
        st.query_params.pop(NAME, None)
    elif st.query_params.get_all(NAME) != wanted:
        st.query_params[NAME] = wanted


def _written(one: SavedSetting) -> str:
    changed = {
        control.name: linked(one.setting[control.name])
        for control in controls.MODEL
        if control.linked and one.setting[control.name] != control.default
    }
    return urlencode({"name": one.name, **changed})


def _read(text: str, others: list[SavedSetting]) -> SavedSetting:
    given = dict(parse_qsl(text[:2000]))
    name = given.pop("name", "")[:LONGEST_NAME] or "run"
    by_name = {control.name: control for control in controls.MODEL if control.linked}
    if unknown := given.keys() - by_name.keys():
        raise ConfigError(f"it sets {sorted(unknown)[0][:40]!r}, which a model does not have.")
    setting = defaults_of(controls.MODEL) | {key: by_name[key].parsed(value) for key, value in given.items()}
    found = SavedSetting(setting=setting, name=_unique(name, others))
    request_of(found)
    return found


def _unique(name: str, others: list[SavedSetting]) -> str:
    taken = {one.name for one in others}
    return next(label for label in (name, *(f"{name} ({count})" for count in range(2, 99))) if label not in taken)


def _toggled(name: str, key: str) -> Callable[[], None]:
    def toggle() -> None:
        hidden: set[str] = st.session_state.get(HIDDEN, set())
        st.session_state[HIDDEN] = hidden - {name} if st.session_state[key] else hidden | {name}

    return toggle
