"""A process that computes cells: its settings, its work, and the signals that end it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .engine import ChunkResult
    from .plan import Chunk

# glibc's names for mallopt: memory given back to the kernel, and size from which it is mapped apart.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEEP_ALL = 2**31 - 1
_LARGEST_KEPT = 2**30
# Signals that ask to end; SIGHUP is not everywhere.
ASKED = tuple(signal.Signals[name] for name in ("SIGTERM", "SIGHUP") if name in signal.Signals.__members__)


def use_one_thread() -> None:
    """Run torch on one thread, and keep freed memory for the next pass.

    With one thread the stored bits do not depend on the number of cores, and several processes are faster than several
    threads on small tensors. New memory is slow at its first use, so glibc, on Linux, is asked to keep what a pass
    frees. MKL is asked for matrix products that do not depend on memory addresses, unless the environment sets it
    otherwise; it reads this setting at its first product.
    """
    os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
    import torch  # kept out of the module, so that plans and tables need no torch

    torch.set_num_threads(1)
    if sys.platform == "linux":
        try:
            mallopt = ctypes.CDLL(None).mallopt
        except (OSError, AttributeError):
            return
        mallopt(_M_TRIM_THRESHOLD, _KEEP_ALL)
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_KEPT)


def compute(parts: Sequence[Chunk]) -> list[tuple[ChunkResult, float]]:
    """Compute a list of chunks (batched passes) in a worker process; return each result with its seconds."""
    from .engine import Engine

    use_one_thread()
    engine, answers = Engine(), []
    for chunk in parts:
        started = time.perf_counter()
        answers.append((engine.run(chunk), time.perf_counter() - started))
    return answers


class Stopped(BaseException):
    """Raised when a signal asks this process to end; like `KeyboardInterrupt`, it is not an `Exception`."""

    def __init__(self, asked: signal.Signals) -> None:
        super().__init__(asked.name)
        self.signal = asked


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise `Stopped` on SIGTERM and SIGHUP while the block runs.

    A signal that is ignored when the block begins, as under nohup, stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {asked: signal.getsignal(asked) for asked in ASKED}
    try:
        for asked, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(asked, _raise)
        yield
    finally:
        for asked, handler in before.items():
            signal.signal(asked, handler)


def _raise(number: int, frame: FrameType | None) -> None:
    raise Stopped(signal.Signals(number))
