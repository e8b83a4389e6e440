"""Limits that a child process puts on itself before it builds a model: memory, time, files, sockets, processes."""

from __future__ import annotations

import os
import sys
from typing import Any

from core.errors import BuildError

DEFAULT_MEMORY = 4 * 2**30
DEFAULT_SECONDS = 300
# Libraries try a temporary file of a few bytes to see that they can.
LARGEST_FILE = 2**16
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONDONTWRITEBYTECODE": "1",
    "CUDA_VISIBLE_DEVICES": "",
}
REFUSED_EVENTS = (
    "socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "subprocess.Popen",
    "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "pickle.find_class",
    "ftplib.connect", "urllib.Request",
)  # fmt: skip


def confine(memory: int, seconds: int) -> None:
    """Limit this process from here on, for good; what it holds already does not count against `memory` bytes.

    Files cannot grow past a few kilobytes, connections and processes cannot be started, pickles cannot be read. Limits
    of the operating system are set where it has them.
    """
    sys.addaudithook(_refuse)
    try:
        import resource
    except ImportError:
        return
    _limit(resource, "RLIMIT_CORE", 0)
    _limit(resource, "RLIMIT_FSIZE", LARGEST_FILE)
    _limit(resource, "RLIMIT_CPU", seconds + _used_seconds(resource))
    held = _held_bytes(resource)
    if held is not None:
        _limit(resource, "RLIMIT_DATA", held + memory)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event in REFUSED_EVENTS:
        raise BuildError(f"The model tried {event}, which an audit never does.")


def _limit(resource: Any, name: str, value: int) -> None:
    kind = getattr(resource, name, None)
    if kind is not None:
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def _used_seconds(resource: Any) -> int:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return int(usage.ru_utime + usage.ru_stime) + 1


def _held_bytes(resource: Any) -> int | None:
    """Private writable memory of this process, as the limit counts it; None where the system does not tell."""
    try:
        with open("/proc/self/statm") as stream:
            return int(stream.read().split()[5]) * int(resource.getpagesize())
    except (OSError, IndexError, ValueError):
        return None


def child_environment(threads: int) -> dict[str, str]:
    """The environment of a child: offline, with the caller's search path for this project."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.pathsep.join(entry for entry in (root, os.environ.get("PYTHONPATH", "")) if entry)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "TRANSFORMERS_"))}
    return {**kept, **OFFLINE, "PYTHONPATH": path, "OMP_NUM_THREADS": str(threads)}
