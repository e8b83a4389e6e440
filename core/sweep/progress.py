"""How far a sweep is, for a terminal or a log."""

from __future__ import annotations

import time
from typing import TextIO

from core.sweep.run import SweepRun

SECONDS_A_LINE = 1.0
LINE_WIDTH = 70


class Progress:
    """Cells done, cells a second and time left; one rewritten line on a terminal, one line a second elsewhere."""

    def __init__(self, run: SweepRun, stream: TextIO) -> None:
        self._run, self._stream, self._rewrites = run, stream, stream.isatty()
        self._started, self._before, self._told = time.monotonic(), run.done, 0.0
        cost = run.estimate
        self._say(
            f"{cost.cells:,} of {run.total:,} cells to compute, {run.done:,} finished; about {clock(cost.seconds)} on "
            f"one core and {cost.peak_bytes / 2**20:,.0f} MiB",
            "\n",
        )

    def show(self, *, last: bool = False) -> None:
        """Tell how far the sweep is, at most once a second but for the last time."""
        now = time.monotonic()
        if not last and (now - self._told < SECONDS_A_LINE or not self._run.pending):
            return
        self._told = now
        run = self._run
        rate = (run.done - self._before) / max(now - self._started, 1e-9)
        left = f", {clock((run.total - run.done) / rate)} left" if rate and not last else ""
        line = f"{run.done:,} of {run.total:,} cells, {rate:,.0f} cells/s{left}"
        self._say(f"\r{line:<{LINE_WIDTH}}" if self._rewrites else line, "" if self._rewrites and not last else "\n")

    def _say(self, text: str, end: str) -> None:
        print(text, end=end, file=self._stream, flush=True)


def clock(seconds: float) -> str:
    """Seconds, minutes or hours, as people say them."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
