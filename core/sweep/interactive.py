"""A sweep behind a page: slices of time under an allowance, tables at any moment, threads that cannot meet.

A server runs a page's script in a new thread while the old one may still be computing, and serves several visitors at
once. So a run is behind a lock, and `turns` bounds how many slices are computed on the server at the same time.
"""

from __future__ import annotations

import io
import time
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock, Semaphore
from typing import TYPE_CHECKING

from ..errors import BudgetError, DepthscopeError
from .allowance import Allowance
from .grid import SweepGrid
from .plan import SweepEstimate
from .results import site_labels
from .run import SweepRun
from .store import Store
from .tables import write_table

if TYPE_CHECKING:
    import pandas as pd

SLICE_SECONDS = 0.3


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How far a sweep is. `cells_per_second` counts what was finished since it was started, over the time that took,
    drawing and waiting included; `seconds_left` is None until it is known."""

    done: int
    total: int
    cells_per_second: float
    seconds_left: float | None

    @property
    def share(self) -> float:
        """Finished cells, from 0 to 1."""
        return self.done / self.total


class InteractiveSweep:
    """One grid against one store, for one visitor; every method may be called from any thread.

    `running` says that slices are wanted: whoever shows the sweep then calls `advance` again and again. `fault` is the
    sentence why it stopped by itself, and None otherwise; finished cells are stored in any case.
    """

    def __init__(self, grid: SweepGrid, store: Store, turns: Semaphore, allowance: Allowance | None = None) -> None:
        self.allowance = allowance or Allowance()
        self.allowance.check(grid)
        self.grid, self.running = grid, False
        self.fault: str | None = None
        self._store, self._turns, self._lock = store, turns, Lock()
        self._run = SweepRun(self.grid, self._store)
        self._tables: dict[str, tuple[int, pd.DataFrame]] = {}
        self._began, self._paused = 0.0, 0.0
        self._measure_work()
        self._before, self._work = self._run.done, self._left

    @property
    def total(self) -> int:
        """Distinct cells of the grid, refused ones included."""
        return self._run.total

    @property
    def done(self) -> int:
        """Finished cells, refused ones included."""
        return self._run.done

    @property
    def refused(self) -> int:
        """Refused cells."""
        return self._run.refused

    @property
    def planned_refusals(self) -> int:
        """Cells refused by arithmetic, before anything is drawn; they are finished from the beginning."""
        return len(self._run.plan.refusals) * len(self.grid.seeds)

    @property
    def complete(self) -> bool:
        """Whether no cell is missing."""
        return not self._run.pending

    @property
    def estimate(self) -> SweepEstimate:
        """What the cells that were missing after the last slice take."""
        return self._cost

    @cached_property
    def rows(self) -> int:
        """Rows of the long table once complete: one per site, and one for a cell that is refused beforehand."""
        refused, settings = self._run.plan.refusals, self.grid.settings
        return len(self.grid.seeds) * sum(
            1 if (index, arm.recipe) in refused else len(site_labels(arm.recipe, setting.config))
            for arm in self.grid.arms
            for index, setting in enumerate(settings)
        )

    @property
    def refusal(self) -> str | None:
        """Why a page does not compute what is missing; None where it does.

        By arithmetic alone: a sweep that was granted may be gone on with on a machine that turned out busy.
        """
        try:
            self.allowance.check_work(replace(self._cost, seconds=self._left), self._longest)
        except BudgetError as error:
            return str(error)
        return None

    @property
    def pace(self) -> Pace:
        """How far the sweep is."""
        spent = (time.monotonic() if self.running else self._paused) - self._began if self._began else 0.0
        new, gone = self.done - self._before, self._work - self._left
        return Pace(
            done=self.done,
            total=self.total,
            cells_per_second=new / spent if new and spent > 0 else 0.0,
            seconds_left=spent * self._left / gone if gone > 0 and spent > 0 else None,
        )

    def start(self) -> None:
        """Ask for slices; nothing happens where nothing is missing or the allowance does not hold it."""
        if not self.complete and self.refusal is None:
            self._began, self._before, self._work = 0.0, self.done, self._left
            self.fault, self.running = None, True

    def cancel(self) -> None:
        """Ask for no further slice; what the one under way finishes is stored."""
        if self.running:
            self._paused, self.running = time.monotonic(), False

    def advance(self, seconds: float = SLICE_SECONDS) -> None:
        """Compute one slice, at least one pass, where it is wanted and this sweep's turn comes within `seconds`."""
        with self._lock:
            if not self.running or not self._turns.acquire(timeout=seconds):
                return
            # Loading the engine before the first slice says nothing about the sweep.
            self._began = self._began or time.monotonic()
            end = time.monotonic() + seconds
            try:
                self._run.step(0.0)
                # One pass at a time, so that cancelling waits for no more than the one under way.
                while self.running and self._run.pending and time.monotonic() < end:
                    self._run.step(0.0)
            except DepthscopeError as error:
                self.fault = str(error)
                self.cancel()
                return
            except BaseException:
                self.cancel()
                raise
            finally:
                self._turns.release()
            self._measure_work()
            if self.complete or not self.running:
                self._finish()

    def table(self, name: str) -> pd.DataFrame:
        """`cells`, `summary` or `growth` of the finished cells, made once for each state of the sweep."""
        with self._lock:
            kept = self._tables.get(name)
            if kept is None or kept[0] != self.done:
                self._tables[name] = kept = (self.done, getattr(self._run, name)())
            return kept[1]

    def file(self, name: str) -> bytes:
        """A table of the folder that the command line writes for this grid, the same bytes; complete sweeps only."""
        stream = io.BytesIO()
        with self._lock:
            write_table(stream, name, self._run.results)
        return stream.getvalue()

    def _finish(self) -> None:
        """Stop, keep the store within its size, and let go of base draws by reading the run anew."""
        try:
            if self.complete:
                self._store.trim(self._run.keys())
            self._run = SweepRun(self.grid, self._store)
            self._measure_work()
        except DepthscopeError as error:
            self.fault = self.fault or str(error)
        finally:
            self.cancel()

    def _measure_work(self) -> None:
        """Note what is missing, so that whoever draws the page need not wait for the pass under way."""
        self._cost = self._run.estimate
        self._longest = max((chunk.seconds for chunk in self._run.pending), default=0.0)
        self._left = self._run.seconds_left
