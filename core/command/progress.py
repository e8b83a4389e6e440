"""The progress of a long run on standard error; a short run shows nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from ..decoder.progress import Told, silent

# Seconds before the first line and between two: a terminal has one line rewritten, a log is given few.
TERMINAL_FIRST, TERMINAL_EVERY = 1.0, 0.2
LOG_FIRST, LOG_EVERY = 30.0, 30.0
LINE_WIDTH = 90


class ProgressLine:
    """A function that shows progress on `stream`: call it with what is counted, how many are done, and how many in all.

    Its clock starts at the first call, so imports do not count.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic, timed: bool = False) -> None:
        self._stream, self._clock, self._rewrites, self._timed = stream, clock, stream.isatty(), timed
        # What is counted, and when and at which count that began.
        self._began: tuple[str, float, int] = ("", 0.0, 0)
        self._next: float | None = None
        self._shown = False

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show that `done` of `total` are finished, if enough time has passed since the last line."""
        now = self._clock()
        if what != self._began[0]:
            self._began = (what, now, done)
        if self._next is None:
            self._next = now + (TERMINAL_FIRST if self._rewrites else LOG_FIRST)
        if now < self._next:
            return
        self._next = now + (TERMINAL_EVERY if self._rewrites else LOG_EVERY)
        line = f"{what}: {done:,} of {total:,}{self._pace(now, done, total) if self._timed else ''}"
        self._write(f"\r{line:<{LINE_WIDTH}}" if self._rewrites else f"{line}\n")

    def _pace(self, now: float, done: int, total: int) -> str:
        """Return how long each took and how long the others will take, from the second count on."""
        _, began, first = self._began
        if done == first:
            return ""
        each = (now - began) / (done - first)
        return f", {each:.3g} s each, about {duration(each * (total - done))} left"

    def clear(self) -> None:
        """Remove the progress line from a terminal."""
        if self._rewrites and self._shown:
            self._write(f"\r{'':<{LINE_WIDTH}}\r")

    def _write(self, text: str) -> None:
        # A log that can take no more is no reason to lose the result.
        with suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()
        self._shown = True


def duration(seconds: float) -> str:
    """Return a time in words, such as 2 h 5 min, 3 min 20 s or 7 s."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


@contextmanager
def progress(timed: bool = False) -> Iterator[Told]:
    """Yield a function that shows the progress of a long computation on standard error while the block runs.

    `timed` adds the rate and the time left of what is counted.
    """
    if sys.stderr is None:
        yield silent
        return
    line = ProgressLine(sys.stderr, timed=timed)
    try:
        yield line
    finally:
        line.clear()
