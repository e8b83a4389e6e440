"""Buttons that show the steps of the saturating unit one after another, so that the visitor can predict each."""

from __future__ import annotations

import time
from collections.abc import Callable

import streamlit as st

from core.lab.experiment import Result
from core.lab.signal.sigmoid_unit import taken
from pages.common.lab_controls import Bench
from pages.common.widgets import reset

EXPERIMENT = "sigmoid-unit"
# Session entries: how many steps are shown (all where it is missing), and when the next one is due while playing.
TAKEN, DUE = "unit steps taken", "unit step due"
STEPS = 7
SECONDS = 0.9


def draw(bench: Bench) -> Callable[[Result], Result]:
    """Draw three buttons that step through the computation; return a function that limits a result to these steps."""
    count = int(st.session_state.get(TAKEN, STEPS))
    with st.container(horizontal=True, gap="xsmall", key="unit-player"):
        st.button("Play", key="unit-play", icon=":material/play_arrow:", on_click=_play)
        st.button("Step", key="unit-step", icon=":material/skip_next:", on_click=_step, disabled=count >= STEPS)
        st.button("Reset", key="unit-reset", icon=":material/skip_previous:", on_click=_reset, args=(bench,))
    st.caption(f"Step {count} of {STEPS}." if count else f"Step 0 of {STEPS}: predict the logit and the slope.")
    if DUE in st.session_state:
        st.fragment(_tick, run_every=SECONDS)()
    return lambda result: result if count >= STEPS else taken(result, count)


def _play() -> None:
    st.session_state[TAKEN] = int(st.session_state.get(TAKEN, STEPS)) % STEPS
    st.session_state[DUE] = time.monotonic() + SECONDS


def _step() -> None:
    st.session_state.pop(DUE, None)
    st.session_state[TAKEN] = min(STEPS, int(st.session_state.get(TAKEN, STEPS)) + 1)


def _reset(bench: Bench) -> None:
    st.session_state.pop(DUE, None)
    st.session_state[TAKEN] = 0
    reset(bench.controls.values())


def _tick() -> None:
    """Take the next step when it is due; the fragment runs again until the last step is taken."""
    if time.monotonic() < st.session_state.get(DUE, float("inf")):
        return
    _step()
    if st.session_state[TAKEN] < STEPS:
        st.session_state[DUE] = time.monotonic() + SECONDS / 2
    st.rerun()
