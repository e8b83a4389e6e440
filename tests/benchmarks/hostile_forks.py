"""Run a call of the command line in a fork that has all libraries loaded, or as a true process, within limits."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import pkgutil
import resource
import select
import signal
import stat
import subprocess
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NoReturn

ROOT = Path(__file__).resolve().parents[2]
PROCESSOR_SECONDS, WALL_SECONDS, MEMORY = 30, 60, 6 * 2**30


@dataclass(frozen=True)
class Special:
    """What stands in a folder and is no file: a pipe, an empty folder, a link or a device."""

    kind: str
    target: str = ""

    def make(self, path: Path) -> None:
        """Put it there."""
        if self.kind == "folder":
            path.mkdir(exist_ok=True)
        elif self.kind == "pipe":
            os.mkfifo(path)
        elif self.kind == "link":
            path.symlink_to(self.target)
        else:
            # A separate device, for a program that replaces the machine's would harm everybody. For root alone.
            major, minor = map(int, self.target.split(":"))
            with contextlib.suppress(PermissionError):
                os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))


Files = Mapping[str, bytes | Special]


@dataclass(frozen=True)
class Call:
    """A command line and what stands in its working folder."""

    arguments: list[str]
    files: Files = field(default_factory=dict)

    def prepare(self, folder: Path) -> None:
        """Make the files."""
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                path.write_bytes(content)
            else:
                content.make(path)


@dataclass(frozen=True)
class Outcome:
    """What a run left; `status` is None where it did not end in time, and negative where a signal ended it."""

    status: int | None
    out: bytes
    err: str
    processor_seconds: float


def preload() -> None:
    """Import every module of the core and the libraries behind it, so that forks share them."""
    import pandas  # noqa: F401
    import plotly.graph_objects  # noqa: F401
    import safetensors.torch  # noqa: F401
    import torch

    import core

    torch.set_num_threads(1)
    for found in pkgutil.walk_packages(core.__path__, "core."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)


def run(call: Call, folder: Path, home: Path, *, forked: bool) -> Outcome:
    """The outcome of a call in `folder`, where `home` is the user's."""
    environment = {
        **os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home), "DEPTHSCOPE_STORE": str(home / "cells.sqlite"),
        "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    with open(home / "out", "w+b") as out, open(home / "err", "w+b") as err:
        if forked:
            process = os.fork()
            if process == 0:
                _become(call, folder, environment, out, err)
        else:
            process = subprocess.Popen(
                [sys.executable, "-m", "core", *call.arguments], cwd=folder, env=environment, stdout=out, stderr=err,
                stdin=subprocess.DEVNULL, start_new_session=True,
            ).pid  # fmt: skip
        status, seconds = _waited(process)
        out.seek(0)
        err.seek(0)
        return Outcome(status, out.read(), err.read().decode(errors="replace"), seconds)


def _become(call: Call, folder: Path, environment: Mapping[str, str], out: IO[bytes], err: IO[bytes]) -> NoReturn:
    """Be what a new process would be: streams, folder, environment, limits and the end of the interpreter."""
    status: object = 1
    try:
        os.setsid()
        os.chdir(folder)
        os.environ.update(environment)
        for number, source in enumerate((os.open(os.devnull, os.O_RDONLY), out.fileno(), err.fileno())):
            os.dup2(source, number)
        resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS + 5))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        sys.stdin = os.fdopen(0, closefd=False)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
        warnings.resetwarnings()
        for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", kind)
        status = _exit_status(call)
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else 1)


def _exit_status(call: Call) -> object:
    from core.cli import main

    try:
        main(call.arguments)
    except SystemExit as stop:
        return 0 if stop.code is None else stop.code
    return 0


def _waited(process: int) -> tuple[int | None, float]:
    """Exit status and processor seconds of a child; one that does not end is stopped with all that it started."""
    handle = os.pidfd_open(process)
    in_time = bool(select.select([handle], [], [], WALL_SECONDS)[0])
    os.close(handle)
    if in_time:
        _, code, usage = os.wait4(process, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    if not in_time:
        _, code, usage = os.wait4(process, 0)
    return os.waitstatus_to_exitcode(code) if in_time else None, usage.ru_utime + usage.ru_stime


def state_of(folder: Path) -> dict[str, str]:
    """Every path below a folder with what it is; nothing that could block is opened."""
    return dict(_states(folder, ""))


def _states(folder: Path, prefix: str) -> Iterator[tuple[str, str]]:
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        name = prefix + entry.name
        if entry.is_symlink():
            yield name, f"link to {os.readlink(entry.path)}"
        elif entry.is_dir():
            yield name, "folder"
            yield from _states(Path(entry.path), name + "/")
        elif entry.is_file():
            yield name, hashlib.sha256(Path(entry.path).read_bytes()).hexdigest()
        else:
            yield name, f"special {stat.S_IFMT(entry.stat().st_mode):o}"
