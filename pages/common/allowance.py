"""A visitor's share of the machine: so many seconds of one core in any minute, counted where work is really done.

A session's run is one thread with one tensor thread, so it never holds two cores; this keeps it from holding one long.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from core.errors import BudgetError

WINDOW_SECONDS = 60.0
ALLOWED_SECONDS = 30.0
SPENT = "computing spent"


def spent(now: float, ledger: str = SPENT) -> list[tuple[float, float]]:
    """(when it ended, seconds) of this session's work within the window."""
    return [(end, cost) for end, cost in st.session_state.get(ledger, []) if now - end < WINDOW_SECONDS]


def check(ledger: str = SPENT, what: str = "change a control") -> None:
    """Raise `BudgetError` where the session's share is used up; `what` is to be done after waiting."""
    now = time.monotonic()
    recent = spent(now, ledger)
    if sum(cost for _, cost in recent) > ALLOWED_SECONDS:
        wait = WINDOW_SECONDS - (now - recent[0][0])
        raise BudgetError(
            f"This session has computed for more than {ALLOWED_SECONDS:.0f} s within a minute; wait {wait:.0f} s, then "
            f"{what}."
        )


def charge(seconds: float, ledger: str = SPENT) -> None:
    """Note work that has just ended."""
    now = time.monotonic()
    st.session_state[ledger] = [*spent(now, ledger), (now, seconds)]


@contextmanager
def charged() -> Iterator[None]:
    """Charge what is computed inside to the session; refuses with a `BudgetError` where its share is used up."""
    check()
    start = time.thread_time()
    try:
        yield
    finally:
        charge(time.thread_time() - start)
