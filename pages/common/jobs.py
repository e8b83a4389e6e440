"""Long work in a separate process, one of each kind at a time on the whole server, that can be cancelled at once.

A forward pass cannot be interrupted, but a process can be killed, and its memory is freed at its end.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import streamlit as st

from core.errors import BudgetError, DepthscopeError
from core.health.estimate import estimate
from core.health.request import ObserveRequest
from pages.common import panels

LOGGER = logging.getLogger("depthscope.pages")
# Work up to these limits is done during the page's run.
INLINE_SECONDS, INLINE_BYTES = 0.5, 2**28
POLL_SECONDS = 0.5
# Session entry: the documents of finished jobs by key.
RESULTS = "job results"
KEPT_RESULTS = 4
Document = dict[str, Any]


def is_long(request: ObserveRequest) -> bool:
    """Return True if a request needs too much time or memory to be computed while the page is drawn."""
    cost = estimate(request)
    return cost.seconds > INLINE_SECONDS or cost.total_bytes > INLINE_BYTES


class Work(Protocol):
    """Work that runs in a separate process; `stage` is the name of its present stage, None if unknown."""

    stage: str | None

    def result(self) -> Document:
        """Wait for the document and return it. Raises `DepthscopeError` if the work fails."""

    def end(self) -> None:
        """Kill the process."""


@dataclass
class Job:
    """Work of one session in a separate process; `document` or `refusal` (a sentence) is set when it has ended.

    `key` identifies the work, and `expected` is its estimated time in seconds. `stages` maps the name of a stage to its
    text and its share of that time.
    """

    key: Hashable
    expected: float
    work: Work
    stages: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    cancelled: bool = False
    document: Document | None = None
    refusal: str | None = None
    _stage: tuple[str, float] = ("", 0.0)

    @property
    def elapsed(self) -> float:
        """The seconds since the start."""
        return time.monotonic() - self.started

    @property
    def ended(self) -> bool:
        """True if the work has ended, with a document or with a refusal."""
        return self.document is not None or self.refusal is not None

    def progress(self) -> tuple[float, str]:
        """Return the finished share, from 0 to 1, and a text with the stage, the elapsed time and the time left.

        The time left is estimated from the stages that have ended, or from `expected`.
        """
        stage, elapsed = self.work.stage or "", self.elapsed
        if stage != self._stage[0]:
            self._stage = (stage, elapsed)
        words, done, expected = "Running for", 0.0, self.expected
        if stage in self.stages:
            names = list(self.stages)
            words = f"{self.stages[stage][0]}:"
            done = sum(self.stages[name][1] for name in names[: names.index(stage)])
            expected = self._stage[1] / done if done else expected
        left = expected - elapsed
        time_left = f"about {left:.0f} s left" if left > 0 else "longer than estimated, a moment more"
        return max(done, min(0.98, elapsed / expected)), f"{words} {elapsed:.0f} s, {time_left}"

    def cancel(self) -> None:
        """Kill the process; the refusal will then say that the run was cancelled."""
        self.cancelled = True
        self.work.end()

    def finish(self) -> None:
        """Wait for the end, and store the document or the refusal."""
        try:
            self.document = self.work.result()
        except DepthscopeError as error:
            self.refusal = "The run was cancelled." if self.cancelled else panels.told(error)
        except Exception:
            LOGGER.exception("A long run failed")
            self.refusal = f"The run ended without a result after {self.elapsed:.0f} s; the server's log says why."


class Slot:
    """The place on the server for one job of a kind; `entry` is the session entry of a session's own job.

    `job` is the one that runs now, whosever it is; None if there is none.
    """

    def __init__(self, entry: str) -> None:
        self.entry = entry
        self.job: Job | None = None
        self.lock = threading.Lock()

    def begin(self, make: Callable[[], Job]) -> None:
        """Start a job of this session; `make` starts its process. Raises `BudgetError` if another one runs."""
        if not self.lock.acquire(blocking=False):
            raise BudgetError("Another long run is under way on this server; try again when it has ended.")
        try:
            job = make()
        except BaseException:
            self.lock.release()
            raise
        self.job = st.session_state[self.entry] = job
        threading.Thread(target=self._finish, args=(job,), daemon=True).start()

    def running(self) -> Job | None:
        """Return the job of this session, whichever page started it, or None."""
        found: Job | None = st.session_state.get(self.entry)
        return found

    def collect(self) -> Job | None:
        """Return the job of this session, or None if there is none.

        If it has ended, its document is stored, and it is returned for the last time.
        """
        job = self.running()
        if job is not None and job.ended:
            if job.document is not None:
                others = dict(list(st.session_state.get(RESULTS, {}).items())[-(KEPT_RESULTS - 1) :])
                st.session_state[RESULTS] = {**others, job.key: job.document}
            st.session_state[self.entry] = None
        return job

    def _finish(self, job: Job) -> None:
        try:
            job.finish()
        finally:
            self.job = None
            self.lock.release()


AUDITS = Slot("audit job")


def kept(key: Hashable) -> Document | None:
    """Return the stored document of a finished job of this session, or None."""
    found: Document | None = st.session_state.get(RESULTS, {}).get(key)
    return found


@st.fragment(run_every=POLL_SECONDS)
def progress(job: Job) -> None:
    """Draw the progress of a job with the button Cancel; the page runs again when the job has ended."""
    if job.ended:
        st.rerun()
    share, words = job.progress()
    st.progress(share, text=words)
    st.button("Cancel", key="cancel-run", on_click=job.cancel)
