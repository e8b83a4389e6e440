"""Run an audit task in a child process with limits on memory and time, and return its document."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from typing import IO, Any

from ... import errors
from ...decoder.progress import Told, silent
from ...errors import AuditError, DepthscopeError, Remedy, shown
from ..request import STAGES
from .confine import DEFAULT_MEMORY, DEFAULT_SECONDS, check_limits, child_environment, search_path
from .worker import OWN

Task = Mapping[str, Any]
Document = dict[str, Any]
# The beginning of a line that reports a stage; the last line is the reply.
STAGE_LINE = b'{"stage"'
# Seconds that a child which closed its output, or was killed, has left to end and to print its last lines.
LAST_SECONDS = 2.0


class Child:
    """One task in a child process, which starts at once. `told(what, done, total)` is called at every stage.

    `stage` is the last stage that the child reported, `seconds` the CPU time that it reported at its end, else 0. For a
    task of the user's own code the child keeps the caller's environment, `memory` (bytes) may be None for no limit, and
    what that code prints is written to standard error.
    """

    def __init__(
        self, task: Task, *, memory: int | None, seconds: int, threads: int | None = None, told: Told = silent
    ) -> None:
        check_limits(memory, seconds)
        self.stage: str | None = None
        self._told = told
        self.seconds = 0.0
        self._memory, self._limit, self._expired = memory, seconds, False
        self._source = task["source"] if task["kind"] == OWN else None
        message = {"task": dict(task), "memory": memory, "seconds": seconds, "path": sys.path}
        self._message = json.dumps(message).encode()
        own = self._source is not None
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if own else subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": search_path()}
            if own
            else child_environment(threads or os.cpu_count() or 1),
            start_new_session=True,
        )

    def result(self) -> Document:
        """Wait for the child and return its document; the child has ended when this returns or raises.

        Raises the error that the child replied with, or `AuditError` where it exceeded a limit or died. Call it once,
        from any thread.
        """
        clock = threading.Timer(self._limit, self._expire)
        clock.daemon = True
        clock.start()
        printed = _relay(self._process.stderr)
        try:
            output = self._talk()
        finally:
            clock.cancel()
            self.end()
            printed.join(LAST_SECONDS)
        if self._expired:
            own = self._source is not None
            ways = ("let it end", Remedy.SECONDS) if own else ("make it smaller", Remedy.SMALL_WIDTHS)
            raise AuditError(f"The model was not built and audited within {self._limit} seconds", *ways)
        with suppress(ValueError):
            self.seconds = float(json.loads(output).get("seconds", 0.0))
        return answer(output, self._process.returncode, self._memory, self._source)

    def end(self) -> None:
        """Kill the child and the processes that it started."""
        if self._process.poll() is None:
            with suppress(OSError, AttributeError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
        self._process.wait()

    def _talk(self) -> bytes:
        """Send the task and read lines up to the reply, the last one, which is returned.

        Processes that the child started may still run.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError), self._process.stdin:
            self._process.stdin.write(self._message)
        last = b""
        with self._process.stdout:
            for last in self._process.stdout:
                if not last.startswith(STAGE_LINE):
                    return last
                self.stage = json.loads(last)["stage"]
                tell_stage(self.stage, self._told)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=LAST_SECONDS)
        return last

    def _expire(self) -> None:
        self._expired = True
        self.end()


def _relay(source: IO[bytes] | None) -> threading.Thread:
    """Copy what a child prints to standard error, line by line, in a separate thread, which is returned."""

    def copy() -> None:
        line = b"\n"
        with source or nullcontext(()) as lines:
            for line in lines:
                sys.stderr.write(line.decode(errors="replace"))
        if not line.endswith(b"\n"):
            sys.stderr.write("\n")

    thread = threading.Thread(target=copy, daemon=True)
    thread.start()
    return thread


def run_isolated(
    task: Task,
    *,
    memory: int | None = DEFAULT_MEMORY,
    seconds: int = DEFAULT_SECONDS,
    threads: int | None = None,
    told: Told = silent,
) -> Document:
    """Run `task` in a child process, and return what `core.audit.true_size.task.run_by_driver` returns for it.

    `told(what, done, total)` is called at every stage. Raises the error that the child replied with, or `AuditError`
    where it exceeded a limit or died. The child has ended when this returns.
    """
    return Child(task, memory=memory, seconds=seconds, threads=threads, told=told).result()


def tell_stage(stage: str | None, told: Told) -> None:
    """Call `told(what, done, total)` with the number of the stage that begins; an unknown stage is ignored."""
    if stage is not None and stage in STAGES:
        told(f"{STAGES[stage][0]}, stage", list(STAGES).index(stage) + 1, len(STAGES))


def answer(output: bytes, status: int, memory: int | None, source: str | None = None) -> Document:
    """Return the document in a child's output. Raises the error that it holds, or `AuditError` where it holds neither.

    `source` names the user's own code, None where the child ran none.
    """
    try:
        reply = json.loads(output)
    except ValueError as error:
        raise died(status, memory, source) from error
    if "stage" in reply:
        # The last thing that it said is what it was at when it died.
        raise died(status, memory, source)
    if "document" in reply:
        document: Document = reply["document"]
        return document
    kind = getattr(errors, str(reply.get("kind")), AuditError)
    simple = isinstance(kind, type) and issubclass(kind, DepthscopeError) and kind.__init__ is DepthscopeError.__init__
    raise (kind if simple else AuditError)(str(reply.get("sentence")), *map(str, reply.get("ways", ())))


def died(status: int, memory: int | None, source: str | None = None) -> AuditError:
    """Return the error for a child that ended without a reply, by its exit status."""
    name = signal.Signals(-status).name if status < 0 else f"status {status}"
    if source is not None or memory is None:
        return AuditError(
            f"The code of {shown(source)} ended its process ({name}) before the audit did; let it only build and run."
        )
    if status in (-signal.SIGXCPU, -signal.SIGALRM):
        return AuditError("The model used up its time", "make it smaller", Remedy.SMALL_WIDTHS)
    return AuditError(
        f"The process that built the model ended ({name}), most likely for want of memory within "
        f"{memory // 2**20:,} MiB",
        "make the model smaller",
        Remedy.SMALL_WIDTHS,
    )
