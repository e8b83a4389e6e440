"""A sweep behind a page whose passes run on the workers of a Dask scheduler."""

from __future__ import annotations

import time
from collections.abc import Iterator
from threading import Lock, Semaphore, Thread
from typing import TYPE_CHECKING

from core.errors import DepthscopeError
from core.sweep.allowance import Allowance
from core.sweep.distributed import run_on_scheduler
from core.sweep.grid import SweepGrid
from core.sweep.interactive import SLICE_SECONDS, InteractiveSweep
from core.sweep.plan import Chunk
from core.sweep.run import SweepRun
from core.sweep.store import Store

if TYPE_CHECKING:
    from core.sweep.engine import ChunkResult


class FarSweep(InteractiveSweep):
    """The same sweep with its passes elsewhere: a thread waits for answers, and `advance` only for the thread.

    Nothing is computed here, so no turn is taken and the allowance bounds the size of the grid alone. Cancelling is
    immediate; answers that arrive before the thread has noticed are stored.
    """

    elsewhere = True

    def __init__(self, grid: SweepGrid, store: Store, address: str, allowance: Allowance | None = None) -> None:
        self._address = address
        self._thread: Thread | None = None
        super().__init__(grid, store, Semaphore(0), allowance)

    @property
    def refusal(self) -> str | None:
        """Nothing that the allowance bounds is computed here."""
        return None

    def start(self) -> None:
        """Hand the missing passes to the scheduler; a thread that has not yet noticed a cancel goes on."""
        super().start()
        self._began = time.monotonic()
        if self.running and (self._thread is None or not self._thread.is_alive()):
            self._thread = Thread(target=self._collect, name="far sweep", daemon=True)
            self._thread.start()

    def advance(self, seconds: float = SLICE_SECONDS) -> None:
        """Wait for `seconds`, or until the sweep stops."""
        if self.running and self._thread is not None:
            self._thread.join(seconds)
            with self._lock:
                self._look()

    def _collect(self) -> None:
        try:
            for _ in run_on_scheduler(self._run, self._address):
                if not self.running:
                    break
        except DepthscopeError as error:
            self.fault = str(error)
        finally:
            with self._lock:
                self._rest()

    def _new_run(self) -> SweepRun:
        return _GuardedRun(self.grid, self._store, self._lock)


class _GuardedRun(SweepRun):
    """A run that enters answers and looks at the store only while nobody reads its tables."""

    def __init__(self, grid: SweepGrid, store: Store, lock: Lock) -> None:
        super().__init__(grid, store)
        self._guard = lock

    def parts(self, chunk: Chunk) -> Iterator[Chunk]:
        """As the run says, looked up at once."""
        with self._guard:
            found = list(super().parts(chunk))
        yield from found

    def accept(self, part: Chunk, result: ChunkResult, seconds: float) -> None:
        """Enter an answer."""
        with self._guard:
            super().accept(part, result, seconds)
