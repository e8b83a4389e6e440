"""The panel of a long observation: what it will cost, Run it, progress with time left, Cancel."""

from __future__ import annotations

from typing import Any

import streamlit as st

from core.errors import DepthscopeError
from core.health.estimate import estimate
from core.health.request import ObserveRequest
from pages.common import cached, job, panels

REFUSAL = "long run refusal"
POLL_SECONDS = 0.5


def document(request: ObserveRequest) -> dict[str, Any] | None:
    """The document of any request: at once where it is small, by the panel of a long run where it is not."""
    return observed(request) if job.is_long(request) else cached.observation(request)


def observed(request: ObserveRequest) -> dict[str, Any] | None:
    """The document of a long request; None while it is not there, with the panel that gets it drawn instead."""
    request.check()
    ended = job.collect()
    if ended is not None and ended.refusal is not None:
        st.session_state[REFUSAL] = ended.refusal
    found = job.result(request)
    if found is not None:
        return found
    sentence = st.session_state.pop(REFUSAL, None)
    if sentence is not None:
        panels.refusal(sentence)
    running = st.session_state.get(job.JOB)
    if running is None:
        _offer(request)
    else:
        progress(running)
    return None


def _offer(request: ObserveRequest) -> None:
    cost = estimate(request)
    st.info(
        f"Nothing was run yet. This decoder needs about {cost.seconds + job.START_SECONDS:.0f} s of one core and "
        f"{cost.total_bytes / 2**30:.2f} GiB of memory, estimated from its sizes within a factor of two.",
        icon=":material/hourglass_empty:",
    )
    st.button("Run it", key="run-it", type="primary", on_click=_start, args=(request,))


def _start(request: ObserveRequest) -> None:
    try:
        job.start(request)
    except DepthscopeError as error:
        st.session_state[REFUSAL] = str(error)


@st.fragment(run_every=POLL_SECONDS)
def progress(running: job.Job) -> None:
    """How far a job is, with Cancel; the page runs again when it has ended."""
    if running.ended:
        st.rerun()
    share, words = running.progress()
    st.progress(share, text=words)
    st.button("Cancel", key="cancel-run", on_click=running.cancel)
