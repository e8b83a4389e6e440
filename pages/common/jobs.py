"""Long work as a process of its own, one at a time on the whole server, that can be cancelled at once.

A single forward cannot be interrupted from outside, a process can; it uses one core, and its memory goes when it ends.
A long observation runs `python -m core observe`, so the result is what the command line prints.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import streamlit as st

from core.decoder.config import Budget
from core.errors import BudgetError, DepthscopeError
from core.health.estimate import check_memory, estimate
from core.health.request import ObserveRequest
from pages.common.cached import ObservationKey

LOGGER = logging.getLogger("depthscope.pages")
ROOT = Path(__file__).resolve().parents[2]
# Work up to here is done in the page's own run; anything larger waits for a click.
INLINE_SECONDS, INLINE_BYTES = 0.5, 2**28
LONGEST_SECONDS = 300
JOB, RESULTS = "job", "job results"
KEPT_RESULTS = 4
_SLOT = threading.Lock()


def is_long(request: ObserveRequest) -> bool:
    """Whether a request is too much for a page's own run."""
    cost = estimate(request)
    return cost.seconds > INLINE_SECONDS or cost.total_bytes > INLINE_BYTES


class Work(Protocol):
    """What runs in a process of its own. `stage` is what it is at, None where it does not say."""

    stage: str | None

    def result(self) -> dict[str, Any]:
        """Wait for the document; raises a `DepthscopeError` where there will be none."""

    def end(self) -> None:
        """End the process now."""


@dataclass
class Job:
    """One running piece of work; `document` or `refusal` is set when it has ended.

    `stages` gives each stage its words and its share of the time that is expected.
    """

    key: Hashable
    expected: float
    work: Work
    stages: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    cancelled: bool = False
    document: dict[str, Any] | None = None
    refusal: str | None = None
    _stage: tuple[str, float] = ("", 0.0)

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    @property
    def ended(self) -> bool:
        """Whether the result is there."""
        return self.document is not None or self.refusal is not None

    def progress(self) -> tuple[float, str]:
        """The share that is done, and what is going on with the time left; stages that ended tell the pace."""
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
        """End it now."""
        self.cancelled = True
        self.work.end()

    def _finish(self) -> None:
        """Wait for the end in a thread of its own, keep the result and free the slot."""
        try:
            self.document = self.work.result()
        except DepthscopeError as error:
            self.refusal = "The run was cancelled." if self.cancelled else str(error)
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
    """Start a job of the session; raises `BudgetError` where another one runs on this server."""
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
    """An observation by the command line's own verb."""

    stage: str | None = None

    def __init__(self, request: ObserveRequest) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="depthscope-")
        place = Path(self._folder.name)
        (place / "batch.json").write_text(json.dumps(request.batch.document()))
        with open(place / "out.json", "wb") as out, open(place / "err.txt", "wb") as err:
            self._process = subprocess.Popen(
                command(request, place / "batch.json"), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )  # fmt: skip

    def result(self) -> dict[str, Any]:
        """The document that it printed; raises `BudgetError` with its refusal, or where it printed none."""
        try:
            try:
                self._process.wait(timeout=LONGEST_SECONDS)
            except subprocess.TimeoutExpired:
                self.end()
                self._process.wait()
            place = Path(self._folder.name)
            if self._process.returncode == 0:
                document: dict[str, Any] = json.loads((place / "out.json").read_text())
                return document
            said = (place / "err.txt").read_text(errors="replace").strip().splitlines()
            refused = self._process.returncode == 2 and said
            raise BudgetError(said[-1] if refused else "The run ended without a result; choose a smaller decoder.")
        finally:
            self._folder.cleanup()

    def end(self) -> None:
        """End it now."""
        self._process.kill()


def start(request: ObserveRequest) -> None:
    """Callback of Run it: start the job; raises `BudgetError` where another one runs or memory is short."""
    cost = check_memory(request)
    begin(ObservationKey.of(request), cost.seconds + START_SECONDS, lambda: Observing(request))


START_SECONDS = 3.0


def command(request: ObserveRequest, batch: Path) -> list[str]:
    """The command line of a request, its batch in a file; raises `BudgetError` for a limit that no option sets."""
    config, budget = request.config, request.budget
    if budget.max_blocks != Budget().max_blocks:
        raise BudgetError(
            f"A long run takes at most {Budget().max_blocks:,} blocks; leave the limit of blocks at that."
        )
    options: dict[str, object] = {
        "blocks": config.blocks, "width": config.width, "heads": config.heads, "kv-heads": config.kv_heads,
        "head-dim": config.head_dim, "ff-width": config.ff_width, "vocabulary": config.vocabulary,
        "positions": config.positions, "norm": config.norm, "mlp": config.mlp, "rope-base": config.rope_base,
        "rms-epsilon": config.rms_epsilon, "seed": request.seed, "recipe": request.recipe, "dtype": request.dtype,
        "device": request.device, "band": f"{request.band.lower!r},{request.band.upper!r}", "batch": batch,
        "max-parameters": budget.max_parameters, "max-positions": budget.max_positions,
        "base-std": request.distribution.std, "truncate": request.distribution.cut,
        "embedding-std": request.distribution.embedding_std,
    }  # fmt: skip
    words = [word for name, value in options.items() if value is not None for word in (f"--{name}", str(value))]
    words += ["--learned-positions"] if config.position_encoding == "learned" else []
    words += [] if config.tied else ["--untied"]
    words += ["--bias"] if config.bias else []
    return [sys.executable, "-m", "core", "observe", *words, "--json"]


def result(request: ObserveRequest) -> dict[str, Any] | None:
    """The document of a finished job of this session for this request."""
    return kept(ObservationKey.of(request))


def kept(key: Hashable) -> dict[str, Any] | None:
    """The document of a finished job of this session."""
    found = st.session_state.get(RESULTS, {}).get(key)
    assert found is None or isinstance(found, dict)
    return found


def collect() -> Job | None:
    """The session's running job; a finished one's document is kept and the job handed over once more."""
    job = st.session_state.get(JOB)
    if job is None or not job.ended:
        return job if isinstance(job, Job) else None
    if job.document is not None:
        others = dict(list(st.session_state.get(RESULTS, {}).items())[-(KEPT_RESULTS - 1) :])
        st.session_state[RESULTS] = {**others, job.key: job.document}
    st.session_state[JOB] = None
    return job if isinstance(job, Job) else None
