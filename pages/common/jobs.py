"""Long work in a separate process, one at a time on the whole server, that can be cancelled at once.

A forward pass cannot be interrupted, but a process can be killed. It uses one core, and its memory is freed at its end.
"""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import streamlit as st

from core.errors import BudgetError, DepthscopeError
from core.health.estimate import check_memory, estimate
from core.health.request import ObserveRequest
from pages.common import cached, panels

LOGGER = logging.getLogger("depthscope.pages")
ROOT = Path(__file__).resolve().parents[2]
# Work up to these limits is done during the page's run; larger work waits for a click.
INLINE_SECONDS, INLINE_BYTES = 0.5, 2**28
LONGEST_SECONDS = 300
START_SECONDS, POLL_SECONDS = 3.0, 0.5
# Session entries: the job, the documents of finished jobs by key, and why a job could not be started.
JOB, RESULTS, REFUSAL = "job", "job results", "long run refusal"
KEPT_RESULTS = 4
_SLOT = threading.Lock()
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

    def _finish(self) -> None:
        """Wait for the end, in a separate thread; store the document or the refusal, and free the server's slot."""
        try:
            self.document = self.work.result()
        except DepthscopeError as error:
            self.refusal = "The run was cancelled." if self.cancelled else panels.told(error)
        except Exception:
            LOGGER.exception("A long run failed")
            self.refusal = f"The run ended without a result after {self.elapsed:.0f} s; the server's log says why."
        finally:
            _SLOT.release()


def begin(
    key: Hashable,
    expected: float,
    start: Callable[[], Work],
    stages: Mapping[str, tuple[str, float]] | None = None,
) -> None:
    """Start a job of this session; `start` starts the process. Raises `BudgetError` if the server runs another job."""
    if not _SLOT.acquire(blocking=False):
        raise BudgetError("Another long run is under way on this server; try again when it has ended.")
    try:
        job = Job(key=key, expected=expected, work=start(), stages=stages or {})
    except BaseException:
        _SLOT.release()
        raise
    threading.Thread(target=job._finish, daemon=True).start()
    st.session_state[JOB] = job


class Observing:
    """The run of one `ObserveRequest` in a separate process, which starts when the object is created."""

    stage: str | None = None

    def __init__(self, request: ObserveRequest) -> None:
        self._request = pickle.dumps(request)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pages.common.observing"], cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def result(self) -> Document:
        """Wait for the `observe` document and return it.

        Raises the error of the core, or `BudgetError` if the process ends without a result.
        """
        with suppress(subprocess.TimeoutExpired):
            output, _ = self._process.communicate(self._request, timeout=LONGEST_SECONDS)
        self.end()
        if self._process.wait() != 0:
            raise BudgetError("The run ended without a result; choose a smaller decoder.")
        answer: Document | DepthscopeError = pickle.loads(output)
        if isinstance(answer, DepthscopeError):
            raise answer
        return answer

    def end(self) -> None:
        """Kill the process."""
        self._process.kill()


def running() -> Job | None:
    """Return the job of this session, whichever page started it, or None."""
    found: Job | None = st.session_state.get(JOB)
    return found


def kept(key: Hashable) -> Document | None:
    """Return the stored document of a finished job of this session, or None."""
    found: Document | None = st.session_state.get(RESULTS, {}).get(key)
    return found


def collect() -> Job | None:
    """Return the job of this session, or None if there is none.

    If it has ended, its document is stored, and it is returned for the last time.
    """
    job = running()
    if job is not None and job.ended:
        if job.document is not None:
            others = dict(list(st.session_state.get(RESULTS, {}).items())[-(KEPT_RESULTS - 1) :])
            st.session_state[RESULTS] = {**others, job.key: job.document}
        st.session_state[JOB] = None
    return job


def document(request: ObserveRequest) -> Document | None:
    """Return the `observe` document of a request, or None if it does not exist yet.

    A long request is not run at once: a button to run it, or its progress, is drawn. Raises the errors of the request
    before torch is imported.
    """
    request.check()
    if not is_long(request):
        cached.start_engine()
        return cached.observation(request)
    ended = collect()
    if (found := kept(request)) is not None:
        return found
    refusal = st.session_state.pop(REFUSAL, None if ended is None else ended.refusal)
    if refusal is not None:
        panels.refusal(refusal)
    if (job := running()) is not None:
        progress(job)
    else:
        _offer(request)
    return None


def _offer(request: ObserveRequest) -> None:
    cost = estimate(request)
    st.info(
        f"Nothing was run yet. This decoder needs about {cost.seconds + START_SECONDS:.0f} s of one core and "
        f"{cost.total_bytes / 2**30:.2f} GiB of memory, estimated from its sizes within a factor of two.",
        icon=":material/hourglass_empty:",
    )
    st.button("Run it", key="run-it", type="primary", on_click=_start, args=(request,))


def _start(request: ObserveRequest) -> None:
    try:
        begin(request, check_memory(request).seconds + START_SECONDS, lambda: Observing(request))
    except DepthscopeError as error:
        st.session_state[REFUSAL] = panels.told(error)


@st.fragment(run_every=POLL_SECONDS)
def progress(job: Job) -> None:
    """Draw the progress of a job with the button Cancel; the page runs again when the job has ended."""
    if job.ended:
        st.rerun()
    share, words = job.progress()
    st.progress(share, text=words)
    st.button("Cancel", key="cancel-run", on_click=job.cancel)
