"""Show the progress of a sweep in a terminal or a log."""

from __future__ import annotations

import time
from typing import TextIO

from .run import SweepRun

SECONDS_A_LINE = 1.0
LINE_WIDTH = 70
# Torch's import and the first call of its kernels, which a small sweep mostly consists of.
START_SECONDS = 2.0


class Progress:
    """Prints the number of finished (recipe, seed) cells, cells per second and time left, about once per second.

    A terminal rewrites one line. The speed is measured from the first call of `show` on, so the time to start workers
    is not counted.
    """

    def __init__(self, run: SweepRun, stream: TextIO) -> None:
        self._run, self._stream, self._rewrites = run, stream, stream.isatty()
        self._told = 0.0
        # Clock, finished cells and modelled seconds left, where measuring began.
        self._since: tuple[float, int, float] | None = None
        cost = run.estimate
        self._say(
            f"{cost.cells:,} of {run.total:,} cells to compute, {run.done:,} finished; about "
            f"{clock(START_SECONDS + cost.seconds)} on one core, starting included, and "
            f"{cost.peak_bytes / 2**20:,.0f} MiB",
            "\n",
        )

    def show(self, *, last: bool = False) -> None:
        """Print the progress, at most once per second; `last` prints it in any case."""
        now, run = time.monotonic(), self._run
        if self._since is None:
            self._since = (now, run.done, run.seconds_left)
            return
        if not last and (now - self._told < SECONDS_A_LINE or not run.pending):
            return
        self._told = now
        began, before, work = self._since
        spent, done = max(now - began, 1e-9), run.done - before
        line = f"{run.done:,} of {run.total:,} cells"
        if done:
            line += f", {done / spent:,.0f} cells/s"
            worked = work - run.seconds_left
            line += f", {clock(spent * run.seconds_left / worked)} left" if worked > 0 and not last else ""
        self._say(f"\r{line:<{LINE_WIDTH}}" if self._rewrites else line, "" if self._rewrites and not last else "\n")

    def _say(self, text: str, end: str) -> None:
        print(text, end=end, file=self._stream, flush=True)


def clock(seconds: float) -> str:
    """Return a time in seconds as text in seconds, minutes or hours, such as "3 min 5 s"."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
