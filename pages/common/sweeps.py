"""The sweeps of a session, kept between runs of the script, and the limits for one session and for all of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Semaphore

import streamlit as st

from core.sweep.allowance import Allowance
from core.sweep.grid import SweepGrid
from core.sweep.interactive import InteractiveSweep
from core.sweep.store import Store

ALLOWANCE = Allowance()
# Slices computed at once, for all visitors together: one core always stays free for everything else.
TURNS = Semaphore(max(1, (os.cpu_count() or 1) - 1))


def session_sweep(place: str, asked: object, new: Callable[[], tuple[SweepGrid, Store]]) -> InteractiveSweep:
    """Return the sweep for what is asked for, which is stored in the session entry `place`.

    If `asked` differs from last time, the earlier sweep is stopped, and `new` returns the grid and store of a new one.
    Raises the errors of `new`.
    """
    kept: tuple[object, InteractiveSweep] | None = st.session_state.get(place)
    if kept is not None and kept[0] != asked:
        kept[1].cancel()
        del st.session_state[place]
        kept = None
    if kept is None:
        kept = st.session_state[place] = (asked, InteractiveSweep(*new(), TURNS, ALLOWANCE))
    return kept[1]
