"""Run a hostile audit as a real command line, or in forks of a process that has loaded the libraries."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SECONDS, GRACE = 20, 5


@dataclass(frozen=True)
class Case:
    """A command line and the files, by their names, that stand in its working folder."""

    arguments: list[str]
    files: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def prints(self) -> bool:
        """Whether the case's code may write to standard error."""
        return any(":" in word for word in self.arguments[1:2])


@dataclass(frozen=True)
class Outcome:
    """What a run came to; `status` is None where it did not end in time."""

    status: int | None
    out: str
    err: str
    seconds: float


def granted(case: Case) -> float:
    """The seconds that a case allows itself; those of a refused option do not count."""
    text = case.arguments[len(case.arguments) - 1 - case.arguments[::-1].index("--max-seconds") + 1]
    return int(text) if text.isdigit() and 1 <= int(text) <= SECONDS else SECONDS


def run_process(case: Case) -> Outcome:
    """One real command line."""
    started = time.monotonic()
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, "-m", "core", *case.arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env=environment, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            out, err = process.communicate(timeout=granted(case) + GRACE)
            status: int | None = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            (out, err), status = process.communicate(), None
    return Outcome(status, out.decode(errors="replace"), err.decode(errors="replace"), time.monotonic() - started)


def run_forked(case: Case) -> Outcome:
    """The command line in a fork of this process, whose audit's child is another fork: no library is imported again."""
    started = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = os.fork()
        if process == 0:
            os.setsid()
            _become(case, out.fileno(), err.fileno())
        status = _waited(process, granted(case) + GRACE)
        for stream in (out, err):
            stream.seek(0)
        texts = [stream.read().decode(errors="replace") for stream in (out, err)]
    return Outcome(status, *texts, time.monotonic() - started)


def _become(case: Case, out: int, err: int) -> None:
    from core import cli

    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    subprocess.Popen = _Forked  # type: ignore[misc,assignment]
    status = 70
    try:
        status = cli.run(case.arguments)
        sys.stderr.flush()
    finally:
        os._exit(status)


class _Forked:
    """Stands for `subprocess.Popen` of the audit's worker: forks, and runs its main program on the same pipes."""

    def __init__(self, command: list[str], **options: Any) -> None:
        from core.audit.sandbox import worker

        assert command[1:] == ["-m", "core.audit.sandbox.worker"]
        relays = options["stderr"] == subprocess.PIPE
        (there, self._in), (self._out, back) = os.pipe(), os.pipe()
        self._err, errors = os.pipe() if relays else (-1, os.open(os.devnull, os.O_WRONLY))
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            for number, source in enumerate((there, back, errors)):
                os.dup2(source, number)
            for number in (self._in, self._out, *([self._err] if relays else [])):
                os.close(number)
            os.environ.clear()
            os.environ.update(options["env"])
            sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, "r" if n == 0 else "w", closefd=False) for n in range(3))
            status = 1
            try:
                worker.main()
                status = 0
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        for number in (there, back, errors):
            os.close(number)
        self.stdin, self.stdout = os.fdopen(self._in, "wb"), os.fdopen(self._out, "rb")
        self.stderr = os.fdopen(self._err, "rb") if relays else None

    def poll(self) -> int | None:
        if self.returncode is None:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if done else None
        return self.returncode

    def wait(self, timeout: float | None = None) -> int | None:
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("worker", timeout or 0)
            time.sleep(0.005)
        return self.returncode

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


def _waited(process: int, seconds: float) -> int | None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        select.select([], [], [], 0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None


def preload(families: Iterable[str]) -> None:
    """Import what every audit needs, so that forks share it."""
    import warnings

    import torch

    from core.audit.intake.hub import library, model_class_of

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    library()
    for family in families:
        model_class_of(family)
    import core.audit.sandbox.tasks
    import core.command.audit  # noqa: F401
