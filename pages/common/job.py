"""Long observations as a process of their own, one at a time on the whole server, that can be cancelled at once.

A single forward cannot be interrupted from outside, a process can. It runs `python -m core observe`, so the result is
what the command line prints; it uses one core, and its memory goes when it ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import streamlit as st

from core.errors import BudgetError
from core.health.estimate import check_memory, estimate
from core.health.request import ObserveRequest
from pages.common.cached import ObservationKey

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


@dataclass
class Job:
    """One running observation; `document` or `refusal` is set when it has ended."""

    key: ObservationKey
    expected: float
    process: subprocess.Popen[bytes]
    folder: tempfile.TemporaryDirectory[str]
    started: float = field(default_factory=time.monotonic)
    cancelled: bool = False
    document: dict[str, Any] | None = None
    refusal: str | None = None

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    @property
    def ended(self) -> bool:
        """Whether the result is there."""
        return self.document is not None or self.refusal is not None

    def cancel(self) -> None:
        """End it now."""
        self.cancelled = True
        self.process.kill()

    def _finish(self) -> None:
        """Wait for the end in a thread of its own, read the result and free the slot."""
        try:
            try:
                self.process.wait(timeout=LONGEST_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            place = Path(self.folder.name)
            if self.process.returncode == 0:
                self.document = json.loads((place / "out.json").read_text())
            elif self.cancelled:
                self.refusal = "The run was cancelled."
            else:
                said = (place / "err.txt").read_text(errors="replace").strip().splitlines()
                self.refusal = (
                    said[-1]
                    if self.process.returncode == 2 and said
                    else (f"The run ended without a result after {self.elapsed:.0f} s; choose a smaller decoder.")
                )
        finally:
            self.folder.cleanup()
            _SLOT.release()


def start(request: ObserveRequest) -> None:
    """Callback of Run it: start the job; raises `BudgetError` where another one runs or memory is short."""
    cost = check_memory(request)
    if not _SLOT.acquire(blocking=False):
        raise BudgetError("Another long run is under way on this server; try again when it has ended.")
    try:
        folder = tempfile.TemporaryDirectory(prefix="depthscope-")
        place = Path(folder.name)
        (place / "batch.json").write_text(json.dumps(request.batch.document()))
        with open(place / "out.json", "wb") as out, open(place / "err.txt", "wb") as err:
            process = subprocess.Popen(
                command(request, place / "batch.json"), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
    except BaseException:
        _SLOT.release()
        raise
    job = Job(key=ObservationKey.of(request), expected=cost.seconds + START_SECONDS, process=process, folder=folder)
    threading.Thread(target=job._finish, daemon=True).start()
    st.session_state[JOB] = job


START_SECONDS = 3.0


def command(request: ObserveRequest, batch: Path) -> list[str]:
    """The command line of a request."""
    config = request.config
    options: dict[str, object] = {
        "blocks": config.blocks, "width": config.width, "heads": config.heads, "kv-heads": config.kv_heads,
        "head-dim": config.head_dim, "ff-width": config.ff_width, "vocabulary": config.vocabulary,
        "positions": config.positions, "norm": config.norm, "mlp": config.mlp, "seed": request.seed,
        "recipe": request.recipe, "dtype": request.dtype, "band": f"{request.band.lower!r},{request.band.upper!r}",
        "batch": batch,
    }  # fmt: skip
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    words += ["--learned-positions"] if config.position_encoding == "learned" else []
    words += [] if config.tied else ["--untied"]
    words += ["--bias"] if config.bias else []
    return [sys.executable, "-m", "core", "observe", *words, "--json"]


def result(request: ObserveRequest) -> dict[str, Any] | None:
    """The document of a finished job of this session for this request."""
    found = st.session_state.get(RESULTS, {}).get(ObservationKey.of(request))
    assert found is None or isinstance(found, dict)
    return found


def collect() -> Job | None:
    """The session's running job; a finished one's document is kept and the job handed over once more."""
    job = st.session_state.get(JOB)
    if job is None or not job.ended:
        return job if isinstance(job, Job) else None
    if job.document is not None:
        kept = dict(list(st.session_state.get(RESULTS, {}).items())[-(KEPT_RESULTS - 1) :])
        st.session_state[RESULTS] = {**kept, job.key: job.document}
    st.session_state[JOB] = None
    return job if isinstance(job, Job) else None
