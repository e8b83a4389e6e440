"""Signals that ask a sweep to end, raised where it is, so that everything is left as after an interrupt."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# SIGHUP is not everywhere.
ASKED = tuple(signal.Signals[name] for name in ("SIGTERM", "SIGHUP") if name in signal.Signals.__members__)


class Stopped(BaseException):
    """A signal has asked this process to end; like `KeyboardInterrupt` no ordinary error."""

    def __init__(self, asked: signal.Signals) -> None:
        super().__init__(asked.name)
        self.signal = asked


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise `Stopped` at SIGTERM and SIGHUP; one that the caller ignores, as nohup has it, stays ignored."""
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
