"""Guided tours: a panel above the page with two sentences per stop, and buttons to go on.

The URL has the stop as `tour` and `stop` (counted from 1), with the controls that it set. A link with only these two
parameters sets the controls too; controls that a link contains are not changed.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from core.errors import LabError, shown
from core.lab.tours import TOURS, Step, tour
from pages.common import navigation, panels, settings
from pages.common.lab_controls import PAGES
from pages.common.widgets import assign, defaults_of

# Session entry: (name, position) of the stop, None after the end of a tour.
PLACE = "tour place"
NAME, STOP = "tour", "stop"


def draw(entry: navigation.Entry) -> None:
    """Draw the panel of a tour that has been started. Call it once per run, before any control is drawn."""
    with panels.refusals():
        if PLACE not in st.session_state and NAME in st.query_params:
            _arrive(entry)
        place = st.session_state.get(PLACE)
        _keep_in_link(place)
        if place is not None:
            name, position = place
            with st.container(border=True, key="tour"):
                _draw_stop(entry, name, position)


def offer() -> None:
    """Draw one button per tour; nothing if a tour has been started."""
    if st.session_state.get(PLACE) is not None:
        return
    with st.container(horizontal=True, gap="xsmall", vertical_alignment="center", key="tours"):
        st.caption("Guided tours", width="content")
        for name, walk in TOURS.items():
            st.button(
                walk.title, key=f"tour-{name}", icon=":material/explore:", type="tertiary", on_click=go, args=(name, 0)
            )


def go(name: str, position: int) -> None:
    """Callback: open the stop at `position`, counted from 0, of the tour `name`, and set its controls."""
    step = tour(name).step(position)
    assign(setting(step))
    st.session_state[PLACE] = (name, position)
    st.session_state[settings.NEXT_PAGE] = navigation.ENTRIES[step.page]


def setting(step: Step) -> dict[str, Any]:
    """Return the values of all controls that a stop sets; controls that it does not name get their defaults."""
    if step.page in PAGES:
        given = {name: value for name, value in step.parameters.items() if name != "experiment"}
        return PAGES[step.page].setting(step.parameters["experiment"], given)
    values = defaults_of(navigation.ENTRIES[step.page].all_controls)
    for name, text in step.parameters.items():
        values[name] = type(values[name])(text)
    return values


def link(name: str, position: int) -> dict[str, str | list[str]]:
    """Return the query parameters of a link to a stop."""
    tour(name).step(position)
    return {NAME: name, STOP: str(position + 1)}


def _arrive(entry: navigation.Entry) -> None:
    """Open the tour's stop in the link; its controls are set unless the link contains controls of the page."""
    st.session_state[PLACE] = None
    name, stop = st.query_params[NAME], st.query_params.get(STOP, "1")
    walk = tour(name)
    if not (stop.isascii() and stop.isdigit() and len(stop) < 4 and 1 <= int(stop) <= len(walk.steps)):
        raise LabError(f"stop is {shown(stop)}; this tour has stops 1 to {len(walk.steps)}.")
    position = int(stop) - 1
    step = walk.steps[position]
    st.session_state[PLACE] = (name, position)
    if step.page == entry.name and not any(control.name in st.query_params for control in entry.all_controls):
        assign(setting(step))


def _keep_in_link(place: tuple[str, int] | None) -> None:
    wanted = {} if place is None else link(*place)
    for key in (NAME, STOP):
        if key not in wanted:
            st.query_params.pop(key, None)
        elif st.query_params.get(key) != wanted[key]:
            st.query_params[key] = wanted[key]


def _draw_stop(entry: navigation.Entry, name: str, position: int) -> None:
    walk = tour(name)
    step, last = walk.steps[position], len(walk.steps) - 1
    st.caption(f"Guided tour · {walk.title} · stop {position + 1} of {last + 1}")
    here = step.page == entry.name
    st.markdown(
        " ".join(panels.escaped(sentence) for sentence in step.sentences) if here else "The tour waits for you."
    )
    with st.container(horizontal=True, gap="small", key="tour-buttons"):
        if here:
            st.button(
                "Back", key="tour-back", icon=":material/arrow_back:", on_click=go, args=(name, position - 1),
                disabled=position == 0,
            )  # fmt: skip
            st.button(
                "Next", key="tour-next", icon=":material/arrow_forward:", type="primary", on_click=go,
                args=(name, position + 1), disabled=position == last,
            )  # fmt: skip
        else:
            st.button("Go on with the tour", key="tour-resume", type="primary", on_click=go, args=(name, position))
        st.button("End the tour", key="tour-end", type="tertiary", on_click=assign, args=({PLACE: None},))
