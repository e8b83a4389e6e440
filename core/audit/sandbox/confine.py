"""Limits that a child process sets for itself before it builds a model: memory, time, files, sockets, processes."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from ...errors import AuditError, shown

try:
    import resource
except ImportError:
    # Not on Windows, where a child is held by time alone.
    resource = None  # type: ignore[assignment]

DEFAULT_MEMORY = 4 * 2**30
DEFAULT_SECONDS = 300
# Where a model may be drawn block by block: its size decides, and whoever waits for it can end it.
BLOCK_SECONDS = 4 * 3600
# A pebibyte and a week: within what the operating system's limits and clocks take.
LARGEST_MEMORY, LARGEST_SECONDS = 2**50, 7 * 24 * 3600
# Libraries try a temporary file of a few bytes to see that they can.
LARGEST_FILE = 2**16
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "CUDA_VISIBLE_DEVICES": "",
}
REFUSED_EVENTS = (
    "socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "subprocess.Popen",
    "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "pickle.find_class",
    "ftplib.connect", "urllib.Request",
)  # fmt: skip


def check_limits(memory: int | None, seconds: int) -> None:
    """Raise `AuditError` unless both limits are in range; `memory` is in bytes, None for no limit."""
    for name, value, largest in (("memory", memory, LARGEST_MEMORY), ("seconds", seconds, LARGEST_SECONDS)):
        if value is None and name == "memory":
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= largest:
            unit = "bytes" if name == "memory" else "seconds"
            raise AuditError(f"max_{name} is {shown(value)}; it must lie between 1 and {largest:,} whole {unit}.")


def confine(memory: int, seconds: int) -> None:
    """Limit this process permanently. Memory that it already uses does not count against `memory`, in bytes.

    Opening a connection, starting a process and loading a pickle raise `AuditError`; files cannot grow beyond a few
    kilobytes. Limits of the operating system are set where it supports them.
    """
    # A compiled module may be larger than a file may grow; half of one must not be left behind.
    sys.dont_write_bytecode = True
    sys.addaudithook(_refuse)
    limit_memory(memory)
    _limit("RLIMIT_CORE", 0)
    _limit("RLIMIT_FSIZE", LARGEST_FILE)
    _limit("RLIMIT_CPU", seconds + int(time.process_time()) + 1)


def limit_memory(memory: int) -> None:
    """Let this process allocate at most `memory` bytes more than it uses now, where the system supports that."""
    held = _held_bytes()
    if held is not None:
        _limit("RLIMIT_DATA", held + memory)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event in REFUSED_EVENTS:
        raise AuditError(f"The model tried {event}, which an audit never does.")


def _limit(name: str, value: int) -> None:
    kind = getattr(resource, name, None)
    if kind is not None:
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def _held_bytes() -> int | None:
    """Return the private writable memory of this process in bytes; None where the system does not report it."""
    try:
        with open("/proc/self/statm") as stream:
            return int(stream.read().split()[5]) * resource.getpagesize()
    except (OSError, IndexError, ValueError):
        return None


def child_environment(threads: int) -> dict[str, str]:
    """Return the environment of a child process: offline, `threads` threads, this project on its search path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "TRANSFORMERS_"))}
    return {**kept, **OFFLINE, "PYTHONPATH": search_path(), "OMP_NUM_THREADS": str(threads)}


def search_path() -> str:
    """Return the value of PYTHONPATH with this project in front."""
    root = str(Path(__file__).resolve().parents[3])
    return os.pathsep.join(entry for entry in (root, os.environ.get("PYTHONPATH", "")) if entry)
