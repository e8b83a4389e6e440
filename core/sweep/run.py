"""A sweep in progress: its finished and missing cells, and how to continue, one slice of time at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from .cells import Cell, cell_keys, packed
from .grid import SweepGrid
from .plan import Chunk, ChunkGroup, SweepEstimate, SweepPlan
from .results import Results
from .store import Store
from .summary import GROWTH_TYPES, SUMMARY_TYPES, growth_rows, summary_rows
from .tables import cell_frame, frame, row_parts, row_types

TASK_SECONDS, DRAWS_PER_TASK = 5.0, 5.0

if TYPE_CHECKING:
    import pandas as pd

    from .engine import ChunkResult, Engine


class SweepRun:
    """The sweep of one grid with one store, computed in slices of time; its tables can be read between slices.

    Creating a run plans the grid and reads the cells that are in the store; it imports no torch and draws nothing. Then

        while run.pending:
            run.step(0.3)
            show(run.done, run.total, run.summary())

    A slice ends after the chunk during which its time is over, which is a fraction of a second at small sizes. All
    cells that it finished are stored when it returns, so to stop, do not call `step` again. Another run of the same
    grid or of an overlapping one continues from there, in this process or in another one, even at the same time. A run
    is used by one thread at a time.

    The process must run torch on one thread before the first slice (`core.sweep.process.use_one_thread`, once, at the
    start of the program); `step` raises `SweepError` otherwise. `StorageError` is raised if the store cannot be read or
    written, and what was stored before is kept. A cell without finite ratios, or that cannot run, raises nothing: it is
    refused, counts as done, and appears in the tables with its reason.

    The tables are pandas frames: `rows` has one row per residual site, `cells` one per cell, `summary` one per arm
    (recipe or control), depth and quantity, `growth` one per exponent. Cells that are not finished are in none of them.

    `start`, from 0 to below 1, is the share of chunks to skip at first and to compute at the end. Processes that work
    on one grid at the same time should use different values; the numbers do not depend on it.
    """

    def __init__(self, grid: SweepGrid, store: Store, *, start: float = 0.0) -> None:
        self.grid, self.store = grid, store
        self.plan = SweepPlan(grid)
        self.results = Results(grid, self.plan.refusals, store)
        self._engine: Engine | None = None
        self._worked, self._expected = 0.0, 0.0
        # Versions of the store when the whole grid, and when single chunks, were last looked up.
        self._opened_at = store.version()
        self._read_at: dict[Chunk, int] = {}
        for setting, name in self._runnable():
            self.results.read(setting, name, grid.seeds)
        pending = [chunk for group in self.plan.groups for chunk in group.chunks if self._is_open(chunk)]
        first = int(start * len(pending))
        self._pending = pending[first:] + pending[:first]

    @property
    def total(self) -> int:
        """The number of (recipe, seed) cells of the grid, refused ones too."""
        return self.grid.cells

    @property
    def done(self) -> int:
        """The number of finished (recipe, seed) cells: found in the store, computed now, or refused."""
        return self.results.finished

    @property
    def refused(self) -> int:
        """The number of refused (recipe, seed) cells: those that cannot run or have a ratio that is not finite."""
        return int(np.count_nonzero(self.results.refused))

    @property
    def pending(self) -> tuple[Chunk, ...]:
        """The chunks (batched passes) with missing (recipe, seed) cells, in the order in which they are computed.

        Empty if the sweep is complete.
        """
        return tuple(self._pending)

    @property
    def estimate(self) -> SweepEstimate:
        """The estimated cost of the missing (recipe, seed) cells on one core of this machine.

        After the first slice, the seconds are corrected by the time that the finished chunks (batched passes) took.
        """
        pace = self._worked / self._expected if self._expected else 1.0
        return SweepEstimate(
            cells=self.total - self.done,
            seconds=self.seconds_left * pace,
            peak_bytes=max((chunk.peak_bytes for chunk in self._pending), default=0),
        )

    @property
    def seconds_left(self) -> float:
        """The estimated seconds of the missing (recipe, seed) cells without the correction by measured times."""
        return sum(group.seconds for group in self.pending_groups())

    def step(self, budget_seconds: float = 0.3) -> int:
        """Compute and store chunks (batched passes) for `budget_seconds`, at least one.

        Returns the number of (recipe, seed) cells that finished. Raises `SweepError` if torch does not run on one
        thread, and `StorageError` if the cells cannot be stored.
        """
        from .engine import Engine

        started, before = time.perf_counter(), self.done
        while self._pending:
            began = time.perf_counter()
            for part in self.missing_parts(self._pending[0]):
                self._engine = self._engine or Engine()
                result = self._engine.run(part)
                self._record(part, result, time.perf_counter() - began)
                began = time.perf_counter()
            del self._pending[0]
            if time.perf_counter() - started >= budget_seconds:
                break
        return self.done - before

    def missing_parts(self, chunk: Chunk) -> Iterator[Chunk]:
        """Yield the parts of a chunk that are still to be computed, after looking into the store again.

        This is the whole chunk, or less if another run has stored some of its cells meanwhile.
        """
        wanted: dict[tuple[int, ...], list[str]] = {}
        version = self.store.version()
        known, self._read_at[chunk] = self._read_at.get(chunk, self._opened_at), version
        for name in chunk.recipes:
            if known != version:
                self.results.read(chunk.setting, name, self.results.missing(chunk.setting, name, chunk.seeds))
            seeds = tuple(self.results.missing(chunk.setting, name, chunk.seeds))
            if seeds:
                wanted.setdefault(seeds, []).append(name)
        for seeds, names in wanted.items():
            yield replace(chunk, seeds=seeds, recipes=tuple(names))

    def pending_groups(self) -> list[ChunkGroup]:
        """Return the chunks (batched passes) with missing (recipe, seed) cells, grouped by shared base weights."""
        groups: dict[tuple[object, ...], list[Chunk]] = {}
        for chunk in self._pending:
            key = (chunk.setting // (len(self.grid.settings) // len(self.grid.sizes)), chunk.seeds)
            groups.setdefault(key, []).append(chunk)
        return [ChunkGroup(tuple(chunks)) for chunks in groups.values()]

    def missing_work(self) -> Iterator[list[Chunk]]:
        """Yield the missing work as tasks for workers: lists of chunks (batched passes) with the same base weights.

        A task takes about `TASK_SECONDS`, since its results are stored only at its end. It is longer if drawing the
        random base weights, which every task repeats, would be a large part of it.
        """
        for group in self.pending_groups():
            task: list[Chunk] = []
            limit = max(TASK_SECONDS, DRAWS_PER_TASK * group.draw_seconds)
            for part in (part for chunk in group.chunks for part in self.missing_parts(chunk)):
                task.append(part)
                if sum(one.seconds for one in task) > limit:
                    yield task
                    task = []
            if task:
                yield task

    def accept(self, part: Chunk, result: ChunkResult, seconds: float) -> None:
        """Store what a worker computed for a part yielded by `missing_parts`, in `seconds` of the worker's time."""
        self._record(part, result, seconds)
        self._pending = [chunk for chunk in self._pending if chunk.setting != part.setting or self._is_open(chunk)]

    def rows(self, recipe: str | None = None, blocks: int | None = None) -> pd.DataFrame:
        """Return the long table, one row per residual site; `recipe` and `blocks` select one recipe or depth."""
        return frame(row_parts(self.results, recipe, blocks), row_types(self.grid))

    def cells(self) -> pd.DataFrame:
        """Return one row per finished (recipe, seed) cell: its quantities, `within_band`, `status` and `reason`."""
        return cell_frame(self.results)

    def summary(self) -> pd.DataFrame:
        """Return the summary over seeds: quantiles, one row per arm (recipe or control), depth and quantity."""
        return frame([list(summary_rows(self.results))], {**SUMMARY_TYPES, **self.grid.axis_types})

    def growth(self) -> pd.DataFrame:
        """Return the exponents of growth with the number of blocks: fits with their intervals, and theoretical ones."""
        return frame([list(growth_rows(self.results))], {**GROWTH_TYPES, **self.grid.axis_types})

    def keys(self) -> set[bytes]:
        """Return the keys in the store of all (recipe, seed) cells of the grid that can run."""
        grid = self.grid
        return {
            key
            for setting, name in self._runnable()
            for key in cell_keys(grid, grid.settings[setting], name, grid.seeds)
        }

    def _runnable(self) -> list[tuple[int, str]]:
        """Return setting and recipe of the cells that can run."""
        pairs = product(range(len(self.grid.settings)), self.grid.computed)
        return [pair for pair in pairs if pair not in self.plan.refusals]

    def _is_open(self, chunk: Chunk) -> bool:
        return any(self.results.missing(chunk.setting, name, chunk.seeds) for name in chunk.recipes)

    def _record(self, part: Chunk, result: ChunkResult, seconds: float) -> None:
        self._worked += seconds
        self._expected += part.seconds
        setting, blocks = self.grid.settings[part.setting], part.config.blocks
        cells = []
        for name in part.recipes:
            values, reasons = result.values[name], result.reasons[name]
            rows = zip(cell_keys(self.grid, setting, name, part.seeds), part.seeds, packed(values), strict=True)
            for position, (key, seed, numbers) in enumerate(rows):
                reason = reasons.get(position, "")
                cells.append(Cell(key, name, blocks, seed, reason, b"" if reason else numbers))
        self.store.put(cells)
        for name in part.recipes:
            self.results.record(part.setting, name, part.seeds, result.values[name], result.reasons[name])
