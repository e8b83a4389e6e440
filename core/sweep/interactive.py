"""A sweep behind a page: it computes in slices of time within a limit, and its tables can be read at any moment.

A server runs a page's script in a new thread while the old one may still be computing, and it serves several visitors
at once. So each sweep has a lock, and `turns` limits how many slices the server computes at the same time.
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
    """The progress of a sweep: finished (recipe, seed) cells, all cells, speed and time left.

    `cells_per_second` is measured since the sweep was started, with the time for drawing weights and for waiting.
    `seconds_left` is None until it is known.
    """

    done: int
    total: int
    cells_per_second: float
    seconds_left: float | None

    @property
    def share(self) -> float:
        """The share of finished (recipe, seed) cells, from 0 to 1."""
        return self.done / self.total


class InteractiveSweep:
    """The sweep of one grid for one visitor, with one store; every method may be called from any thread.

    `running` is True while the sweep should go on; the page then calls `advance` repeatedly. `fault` is the sentence of
    the error that stopped the sweep, or None. Finished (recipe, seed) cells are stored in any case. Raises
    `BudgetError` if the grid is too large for the allowance.
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
        """The number of (recipe, seed) cells of the grid, refused ones too."""
        return self._run.total

    @property
    def done(self) -> int:
        """The number of finished (recipe, seed) cells, refused ones too."""
        return self._run.done

    @property
    def refused(self) -> int:
        """The number of refused (recipe, seed) cells: those without finite ratios, or that cannot run."""
        return self._run.refused

    @property
    def planned_refusals(self) -> int:
        """The number of (recipe, seed) cells known from the start to be unable to run; they count as finished."""
        return len(self._run.plan.refusals) * len(self.grid.seeds)

    @property
    def complete(self) -> bool:
        """True if no (recipe, seed) cell is missing."""
        return not self._run.pending

    @property
    def estimate(self) -> SweepEstimate:
        """The estimated cost of the (recipe, seed) cells that were missing after the last slice."""
        return self._cost

    @cached_property
    def rows(self) -> int:
        """The number of rows of the complete long table: one per residual site.

        A (recipe, seed) cell that cannot run has a single row.
        """
        refused, settings = self._run.plan.refusals, self.grid.settings
        return len(self.grid.seeds) * sum(
            1 if (index, arm.recipe) in refused else len(site_labels(arm.recipe, setting.config))
            for arm in self.grid.arms
            for index, setting in enumerate(settings)
        )

    @property
    def refusal(self) -> str | None:
        """A sentence that says why a page does not compute the missing (recipe, seed) cells, or None if it does.

        It uses the estimate without the correction by measured times, so a sweep that was allowed can go on if the
        machine turns out to be busy.
        """
        try:
            self.allowance.check_work(replace(self._cost, seconds=self._left), self._longest)
        except BudgetError as error:
            return str(error)
        return None

    @property
    def pace(self) -> Pace:
        """The progress of the sweep."""
        spent = (time.monotonic() if self.running else self._paused) - self._began if self._began else 0.0
        new, gone = self.done - self._before, self._work - self._left
        return Pace(
            done=self.done,
            total=self.total,
            cells_per_second=new / spent if new and spent > 0 else 0.0,
            seconds_left=spent * self._left / gone if gone > 0 and spent > 0 else None,
        )

    def start(self) -> None:
        """Start the sweep; does nothing if no (recipe, seed) cell is missing or the allowance is exceeded."""
        if not self.complete and self.refusal is None:
            self._began, self._before, self._work = 0.0, self.done, self._left
            self.fault, self.running = None, True

    def cancel(self) -> None:
        """Stop the sweep after the slice that is being computed, which is still stored."""
        if self.running:
            self._paused, self.running = time.monotonic(), False

    def advance(self, seconds: float = SLICE_SECONDS) -> None:
        """Compute for about `seconds`, at least one pass, if the sweep is running.

        Waits up to `seconds` for its turn on the server, and computes nothing if it gets none.
        """
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
        """Return the table `cells`, `summary` or `growth` of the finished (recipe, seed) cells.

        It is kept until more cells are finished.
        """
        with self._lock:
            kept = self._tables.get(name)
            if kept is None or kept[0] != self.done:
                self._tables[name] = kept = (self.done, getattr(self._run, name)())
            return kept[1]

    def file(self, name: str) -> bytes:
        """Return a table of a complete sweep as bytes, equal to the file that the command line writes for this grid."""
        stream = io.BytesIO()
        with self._lock:
            write_table(stream, name, self._run.results)
        return stream.getvalue()

    def _finish(self) -> None:
        """Stop, trim the store to its size limit, and free base draws by building the run again."""
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
        """Record what is missing, so that the page need not wait for a running pass to show it."""
        self._cost = self._run.estimate
        self._longest = max((chunk.seconds for chunk in self._run.pending), default=0.0)
        self._left = self._run.seconds_left
