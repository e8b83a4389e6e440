"""Runs of the current model at its true size, block by block, one process per run and one run per server.

A run belongs to its session: so does the private folder of its finished blocks, from which a cancelled run goes on.
Other sessions learn that the server is busy, and for how long.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

from core.errors import BudgetError, DepthscopeError, StorageError
from core.export.html import MODEBAR
from core.figures.sites import RMS_TITLES, reached_figure
from core.health.estimate import Estimate, check_memory
from core.health.request import ObserveRequest
from core.health.run_watch import Reached, RunState
from core.sweep.progress import clock
from core.tables.reached import cost_words, left_words, progress_words, reached_table
from pages.common import jobs, panels
from pages.common.chart import chart
from pages.common.widgets import beside

ROOT = Path(__file__).resolve().parents[2]
LONGEST_SECONDS = 4 * 3600
SLOT = jobs.Slot("run at true size")
# Session entry: the last request and why it was not run to its end, or None.
REFUSAL = "refusal of a run at true size"
POLL_SECONDS, BUSY_POLL_SECONDS = 1.0, 3.0
WAY_OUT = "The reduced twin, which keeps what the ratios depend on, answers on this page without it."
SMALLER = "Shorter rows and float32 take less."
GOES_ON = "It goes on while a tab of this session is open; finished blocks are kept with the session."


class Running:
    """The process of one run; `state` is that after its last block, None before the first.

    `reached` has the profiles of all passes so far, `before` those that an earlier, cancelled run had reached.
    """

    stage: str | None = None

    def __init__(self, request: ObserveRequest, folder: str, before: dict[str, Reached]) -> None:
        self.state: RunState | None = None
        self.reached = before
        self.at = time.monotonic()
        self._message = pickle.dumps((request, folder))
        context = get_script_run_ctx(suppress_warning=True)
        self._session = None if context is None else context.session_id
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pages.common.observing"], cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def result(self) -> jobs.Document:
        """Wait until the run ends and return its result, the JSON document that `observe` makes.

        Raises the `DepthscopeError` that the run ended with, or `BudgetError` if the process ends without a result.
        """
        limit = threading.Timer(LONGEST_SECONDS, self.end)
        limit.daemon = True
        limit.start()
        try:
            answer = self._follow()
        finally:
            limit.cancel()
            self.end()
        if answer is None:
            raise BudgetError(
                "The run was stopped: memory or time ran out, or no tab of its session was open; its finished blocks "
                "are kept."
            )
        if isinstance(answer, StorageError):
            # Its sentence names a folder, which is none of the visitor's.
            raise StorageError("The server cannot keep this run's blocks; begin it again, or take shorter rows.")
        if isinstance(answer, DepthscopeError):
            raise answer
        document: jobs.Document = answer
        return document

    def end(self) -> None:
        """Kill the process; its finished blocks stay."""
        self._process.kill()
        self._process.wait()

    def _follow(self) -> Any:
        """Return what the process answers; None if it ends without an answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(EOFError, OSError, pickle.UnpicklingError), self._process.stdout as source:
            with self._process.stdin:
                self._process.stdin.write(self._message)
            while isinstance(message := pickle.load(source), RunState):
                self.state, self.at = message, time.monotonic()
                self.reached = {**self.reached, **message.reached}
                if self._is_left():
                    return None
            return message
        return None

    def _is_left(self) -> bool:
        """Return whether no tab of the session is open any more."""
        return self._session is not None and runtime.exists() and not runtime.get_instance().is_active_session(
            self._session
        )  # fmt: skip


class TrueRun(jobs.Job):
    """A run at true size as a job of its session."""

    work: Running

    @property
    def left(self) -> float:
        """The estimated seconds left."""
        state = self.work.state
        return max(0.0, self.expected - self.elapsed if state is None else (
            state.seconds_left - (time.monotonic() - self.work.at)
        ))  # fmt: skip

    def progress(self) -> tuple[float, str]:
        """Return the finished share, from 0 to 1, and a text with the finished blocks and the time left."""
        state = self.work.state
        if state is None:
            return 0.0, f"Starting: {self.elapsed:.0f} s, {left_words(self.left)}"
        return state.done / state.total, progress_words(replace(state, seconds_left=self.left))


class Room:
    """The last run of one session, and the private folder of its finished blocks."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._request: ObserveRequest | None = None
        self._work: Running | None = None

    def work(self, request: ObserveRequest) -> Running | None:
        """Return the session's last run of a request whose blocks are kept; None if there is none."""
        return self._work if request == self._request else None

    def start(self, request: ObserveRequest) -> Running:
        """Start the process of a run, from its kept blocks if there are any; blocks of another run are deleted."""
        earlier = self.work(request)
        if earlier is None:
            self.clear()
            self._folder = tempfile.TemporaryDirectory(prefix="depthscope-run-", ignore_cleanup_errors=True)
        assert self._folder is not None
        self._request = request
        self._work = Running(request, self._folder.name, {} if earlier is None else earlier.reached)
        return self._work

    def clear(self) -> None:
        """End the run and delete its blocks."""
        if self._work is not None:
            self._work.end()
        if self._folder is not None:
            self._folder.cleanup()
        self._folder = self._request = self._work = None


@st.cache_resource(scope="session", show_spinner=False, on_release=Room.clear)
def room() -> Room:
    """Return the session's room; Streamlit clears it when the session ends."""
    return Room()


def document(asked: ObserveRequest) -> jobs.Document | None:
    """Return the `observe` document of a request at its true size, or None if it was not run yet."""
    return jobs.kept(_by_block(asked))


def collect() -> None:
    """Store the document of a run of this session that has ended, or the sentence that explains why it has none."""
    ended = SLOT.collect()
    if ended is None or not ended.ended:
        return
    st.session_state[REFUSAL] = (ended.key, ended.refusal)
    if ended.document is not None:
        room().clear()


def draw(asked: ObserveRequest) -> None:
    """Draw what a run at true size takes and the button that starts it, or its progress with what it has reached."""
    request = _by_block(asked)
    request.check()
    refused, refusal = st.session_state.get(REFUSAL, (None, None))
    if refusal is not None and refused == request:
        panels.refusal(refusal)
    job = SLOT.running()
    if isinstance(job, TrueRun):
        if job.key != request:
            panels.notice("This session runs another model, or other settings, at true size; cancel it, or wait.")
        _progress(job)
    elif SLOT.job is not None:
        _busy()
    else:
        _offer(request)


def _by_block(request: ObserveRequest) -> ObserveRequest:
    return replace(request, driver="block")


def _checked(request: ObserveRequest) -> Estimate:
    """Return the estimate; raises `BudgetError` for more than the memory or the time that the server grants."""
    cost = check_memory(request)
    if cost.seconds > LONGEST_SECONDS:
        raise BudgetError(
            f"At its true size this model takes {cost_words(cost)}, and this server grants one run "
            f"{clock(LONGEST_SECONDS)}."
        )
    return cost


def _offer(request: ObserveRequest) -> None:
    try:
        cost = _checked(request)
    except BudgetError as error:
        panels.refusal(f"{panels.told(error)} {WAY_OUT} {SMALLER}")
        return
    begun = room().work(request)
    words = (
        "Nothing was run yet." if begun is None or begun.state is None else
        f"{begun.state.done:,} of {begun.state.total:,} blocks are kept; Continue goes on from there."
    )  # fmt: skip
    panels.box(
        "note",
        f"{words} One seed of this model takes {cost_words(cost)}, estimated from its sizes within a factor of two. "
        f"Its blocks are drawn, run and forgotten one by one. {GOES_ON}",
    )
    st.button("Run it" if begun is None else "Continue", key="run-it", type="primary", on_click=_start, args=(request,))
    if begun is not None and begun.reached:
        _figures(request, begun)


def _start(request: ObserveRequest) -> None:
    refusal = None
    try:
        expected = _checked(request).seconds
        SLOT.begin(lambda: TrueRun(request, expected, room().start(request)))
    except DepthscopeError as error:
        refusal = panels.told(error)
    st.session_state[REFUSAL] = (request, refusal)


@st.fragment(run_every=POLL_SECONDS)
def _progress(job: TrueRun) -> None:
    """Draw progress, the button Cancel, and the sites reached; the page runs again when the run has ended."""
    if job.ended:
        st.rerun()
    share, words = job.progress()
    st.progress(share, text=panels.escaped(words))
    st.button("Cancel", key="cancel-run", icon=":material/stop:", on_click=job.cancel)
    if job.work.reached and isinstance(job.key, ObserveRequest):
        _figures(job.key, job.work)


@st.fragment(run_every=BUSY_POLL_SECONDS)
def _busy() -> None:
    """Say that another session's run is under way, and for how long; the page runs again when it has ended."""
    job = SLOT.job
    if not isinstance(job, TrueRun):
        st.rerun()
    panels.notice(f"The server is busy with the run of another session, {left_words(job.left)}. {WAY_OUT}")


def _figures(request: ObserveRequest, work: Running) -> None:
    table = reached_table(request, work.reached)
    for quantity in beside(RMS_TITLES):
        picture = reached_figure.chart(table, quantity)
        # An axis without a value has no scale to show.
        if picture.lines:
            chart(picture(theme=panels.theme()), key=f"reached-{quantity}", alt=picture.alt, config=MODEBAR)
