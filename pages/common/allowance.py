"""How much one session may compute: a number of seconds of one core per minute.

The work of a session runs on one thread, so it never uses two cores; this limit keeps it from using one for long.
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
    """Return the session's work within the last minute as (end time, seconds); `ledger` is its session entry."""
    return [(end, cost) for end, cost in st.session_state.get(ledger, []) if now - end < WINDOW_SECONDS]


def check(ledger: str = SPENT, what: str = "change a control") -> None:
    """Raise `BudgetError` if the session has used up its share; `what` says what the visitor can do after waiting."""
    now = time.monotonic()
    recent = spent(now, ledger)
    if sum(cost for _, cost in recent) > ALLOWED_SECONDS:
        wait = WINDOW_SECONDS - (now - recent[0][0])
        raise BudgetError(
            f"This session has computed for more than {ALLOWED_SECONDS:.0f} s within a minute; wait {wait:.0f} s, then "
            f"{what}."
        )


def charge(seconds: float, ledger: str = SPENT) -> None:
    """Record `seconds` of work that has just ended in the session entry `ledger`."""
    now = time.monotonic()
    st.session_state[ledger] = [*spent(now, ledger), (now, seconds)]


@contextmanager
def charged() -> Iterator[None]:
    """Record the time of the work in the block. Raises `BudgetError` before it if the session has used up its share."""
    check()
    start = time.thread_time()
    try:
        yield
    finally:
        charge(time.thread_time() - start)
