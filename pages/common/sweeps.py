"""The sweep of a session: kept between runs of the script, on the store that the command line uses too.

Finished cells lie in the user's own cache folder, or where the variable DEPTHSCOPE_STORE said when the server was
started; neither a page nor a link can say so.
"""

from __future__ import annotations

import os
from threading import Semaphore

import streamlit as st

from core.sweep.allowance import Allowance
from core.sweep.interactive import InteractiveSweep
from core.sweep.request import SweepRequest
from core.sweep.store import Store, default_store

# Session entry: what was asked for last, with its sweep.
KEPT = "sweep"
ALLOWANCE = Allowance()
# Slices computed at once, for all visitors together: one core always stays free for everything else.
TURNS = Semaphore(max(1, (os.cpu_count() or 1) - 1))


def session_sweep(request: SweepRequest) -> InteractiveSweep:
    """The session's sweep of `request`; another request than before stops the earlier one. Raises its refusal."""
    kept: tuple[SweepRequest, InteractiveSweep] | None = st.session_state.get(KEPT)
    if kept is not None and kept[0] == request:
        return kept[1]
    if kept is not None:
        kept[1].cancel()
        del st.session_state[KEPT]
    grid = request.grid(most_seeds=ALLOWANCE.cells)
    ALLOWANCE.check(grid)
    sweep = InteractiveSweep(grid, Store.open(default_store(os.environ)), TURNS, ALLOWANCE)
    st.session_state[KEPT] = (request, sweep)
    return sweep
