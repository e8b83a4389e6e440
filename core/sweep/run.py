"""A sweep in progress: what is finished, what is missing, and how to go on, a slice of time at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from core.decoder.recipes import recipe
from core.decoder.splitmix64 import FloatArray
from core.errors import StoreError
from core.sweep.cells import Cell, Found, packed
from core.sweep.cost import SweepEstimate
from core.sweep.grid import SweepGrid
from core.sweep.keys import cell_keys
from core.sweep.plan import Bundle, Chunk, SweepPlan
from core.sweep.results import REFUSED, Results
from core.sweep.store import Store

if TYPE_CHECKING:
    import pandas as pd

    from core.sweep.engine import ChunkResult, Engine


class SweepRun:
    """One grid against one store, worked off in slices; every table may be read at any time between them.

    Building a run plans the grid and reads what the store already has; it imports no torch and draws nothing. Then

        while run.pending:
            run.step(0.3)
            show(run.done, run.total, run.summary())

    A slice ends after the chunk that passes its budget, so it may take one chunk longer: a fraction of a second at
    small sizes, and `chunk_seconds` says how long. Everything a slice finished is stored when it returns, so stopping
    is simply not calling again; another run of the same grid, or of one that overlaps it, goes on from there, in this
    process or in another one at the same time. A run is used by one thread at a time.

    The process must run torch on one thread before the first slice (`core.sweep.process.use_one_thread`, once, at the
    start of the program); `EngineError` says so otherwise. `StoreError` is raised where the store cannot be read or
    written, and what was stored before is kept. A cell without finite ratios, or a recipe or size that cannot run, is
    no error but a refused cell: it counts as done, stands in every table with its reason, and stops nothing.

    Tables are pandas frames, and pandas is imported when one is asked for: `rows` has one row a site, `cells` one row a
    cell, `summary` one row an arm, depth and quantity, `growth` one row an exponent. Cells that have not finished are
    absent from all of them.

    `start` in [0, 1) is the share of the pending chunks to begin after, in a circle: processes that work on one grid at
    once begin apart, and find what another one finished when they get there. The numbers do not depend on it.
    """

    def __init__(self, grid: SweepGrid, store: Store, *, start: float = 0.0) -> None:
        self.grid, self.store = grid, store
        self.plan = SweepPlan(grid)
        self.results = Results(grid, self.plan.refusals)
        self._engine: Engine | None = None
        self._worked = 0.0
        self._expected = 0.0
        self._computed = 0
        self._sizes: dict[tuple[int, str], int] = {}
        # Versions of the store when the whole grid, and when single chunks, were last looked up.
        self._opened_at = store.version()
        self._read_at: dict[Chunk, int] = {}
        for setting in range(len(grid.settings)):
            for name in grid.computed:
                if (setting, name) not in self.plan.refusals:
                    self._read(setting, name, grid.seeds)
        pending = [chunk for bundle in self.plan.bundles for chunk in bundle.chunks if self._is_open(chunk)]
        first = int(start * len(pending))
        self._pending = pending[first:] + pending[:first]

    @property
    def total(self) -> int:
        """Distinct cells of the grid, refused ones included."""
        return self.grid.cells

    @property
    def done(self) -> int:
        """Cells that have finished: stored before, computed now, or refused."""
        return self.results.finished

    @property
    def refused(self) -> int:
        """Cells refused, before anything was drawn or because a ratio was not finite."""
        return int(np.count_nonzero(self.results.state == REFUSED))

    @property
    def pending(self) -> tuple[Chunk, ...]:
        """Chunks with missing cells, in the order in which they are computed; empty when the sweep is complete."""
        return tuple(self._pending)

    @property
    def estimate(self) -> SweepEstimate:
        """What the missing cells will take on one core of this machine, by arithmetic; after the first slice the
        seconds are corrected by what the finished chunks took."""
        pace = self._worked / self._expected if self._expected else 1.0
        return SweepEstimate(
            cells=self.total - self.done,
            seconds=self.seconds_left * pace,
            peak_bytes=max((chunk.peak_bytes for chunk in self._pending), default=0),
        )

    @property
    def seconds_left(self) -> float:
        """Seconds of the missing cells by arithmetic alone: a measure of the work that is left."""
        return sum(bundle.seconds for bundle in self.open_bundles())

    @property
    def chunk_seconds(self) -> float:
        """Rough seconds of the next chunk, the least that a slice takes; 0 when the sweep is complete."""
        return self._pending[0].seconds if self._pending else 0.0

    @property
    def cells_per_second(self) -> float:
        """Cells that this run computed, divided by the seconds it took; 0 before the first slice."""
        return self._computed / self._worked if self._worked else 0.0

    def step(self, budget_seconds: float = 0.3) -> int:
        """Compute and store chunks for about `budget_seconds`, at least one; returns the cells that finished."""
        from core.sweep.engine import Engine

        started, before = time.perf_counter(), self.done
        while self._pending:
            chunk = self._pending[0]
            began = time.perf_counter()
            for part in self.parts(chunk):
                self._engine = self._engine or Engine()
                self._enter(part, self._engine.run(part))
                self._note(part, time.perf_counter() - began)
                began = time.perf_counter()
            del self._pending[0]
            if time.perf_counter() - started >= budget_seconds:
                break
        return self.done - before

    def parts(self, chunk: Chunk) -> Iterator[Chunk]:
        """What is still to compute of a chunk, after another look at the store: all of it, or what overlaps no finished
        cell, which another sweep or process may have stored meanwhile."""
        wanted: dict[tuple[int, ...], list[str]] = {}
        version = self.store.version()
        known, self._read_at[chunk] = self._read_at.get(chunk, self._opened_at), version
        for name in chunk.recipes:
            if known != version:
                self._read(chunk.setting, name, self.results.missing(chunk.setting, name, chunk.seeds))
            seeds = tuple(self.results.missing(chunk.setting, name, chunk.seeds))
            if seeds:
                wanted.setdefault(seeds, []).append(name)
        for seeds, names in wanted.items():
            yield chunk.narrowed(seeds, names)

    def open_bundles(self) -> list[Bundle]:
        """The pending chunks, those that share base draws together."""
        groups: dict[tuple[object, ...], list[Chunk]] = {}
        for chunk in self._pending:
            key = (chunk.setting // (len(self.grid.settings) // len(self.grid.sizes)), chunk.seeds)
            groups.setdefault(key, []).append(chunk)
        return [Bundle(tuple(chunks)) for chunks in groups.values()]

    def accept(self, part: Chunk, result: ChunkResult, seconds: float) -> None:
        """Store what a worker computed of a chunk that `parts` gave; `seconds` is the worker's time."""
        self._enter(part, result)
        self._note(part, seconds)
        self._pending = [chunk for chunk in self._pending if chunk.setting != part.setting or self._is_open(chunk)]

    def rows(self, recipe: str | None = None, blocks: int | None = None) -> pd.DataFrame:
        """The long table of the contract, one row a site, of one recipe or depth where given."""
        from core.sweep.frames import row_frame

        return row_frame(self, recipe, blocks)

    def cells(self) -> pd.DataFrame:
        """One row a finished cell: its extreme ratios, loss, `within_band`, `status` and `reason`."""
        from core.sweep.frames import cell_frame

        return cell_frame(self)

    def summary(self) -> pd.DataFrame:
        """The contract's summary over seeds, one row an arm, depth and quantity."""
        from core.sweep.frames import summary_frame

        return summary_frame(self)

    def growth(self) -> pd.DataFrame:
        """Growth exponents against blocks: fits with their intervals, and derived laws."""
        from core.sweep.frames import growth_frame

        return growth_frame(self)

    def numbers(self, setting: int, recipe: str, seeds: Sequence[int]) -> FloatArray:
        """Stored rows `[len(seeds), 1 + 2 S]` of observed cells: loss, then every site's activation and adjoint RMS.

        Raises `StoreError` where another process trimmed them away meanwhile.
        """
        found = [cell for _, cell in self._stored(setting, recipe, seeds)]
        if len(found) < len(seeds):
            raise StoreError(
                f"The store {self.store.path} no longer has {len(seeds) - len(found)} finished cells, which another "
                "process deleted or damage hides; run the sweep again, and with another store where that does not help."
            )
        return stacked(found)[0]

    def keys(self) -> set[bytes]:
        """Keys of every cell of the grid that runs, which a store must not trim away."""
        return {
            key
            for index, setting in enumerate(self.grid.settings)
            for name in self.grid.computed
            if (index, name) not in self.plan.refusals
            for key in cell_keys(self.grid, setting, name, self.grid.seeds)
        }

    def _is_open(self, chunk: Chunk) -> bool:
        return any(self.results.missing(chunk.setting, name, chunk.seeds) for name in chunk.recipes)

    def _read(self, setting: int, recipe: str, seeds: Sequence[int]) -> None:
        """Enter what the store has of `seeds`."""
        pairs = self._stored(setting, recipe, seeds)
        if pairs:
            numbers, reasons = stacked([found for _, found in pairs])
            self.results.take(setting, recipe, [seed for seed, _ in pairs], numbers, reasons)

    def _stored(self, setting: int, recipe: str, seeds: Sequence[int]) -> list[tuple[int, Found]]:
        if not seeds:
            return []
        keys = cell_keys(self.grid, self.grid.settings[setting], recipe, seeds)
        known = self.store.found(keys, self._numbers_per_cell(setting, recipe))
        return [(seed, known[key]) for seed, key in zip(seeds, keys, strict=True) if key in known]

    def _numbers_per_cell(self, setting: int, name: str) -> int:
        """Numbers of an observed cell: the loss, then two for each site."""
        config = self.grid.settings[setting].config
        if (config.blocks, name) not in self._sizes:
            self._sizes[config.blocks, name] = 1 + 2 * len(recipe(name).graph(config).site_labels())
        return self._sizes[config.blocks, name]

    def _enter(self, part: Chunk, result: ChunkResult) -> None:
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
            self.results.take(part.setting, name, part.seeds, result.values[name], result.reasons[name])

    def _note(self, part: Chunk, seconds: float) -> None:
        self._worked += seconds
        self._expected += part.seconds
        self._computed += len(part.seeds) * len(part.recipes)


def stacked(cells: Sequence[Found]) -> tuple[FloatArray, dict[int, str]]:
    """Numbers `[n, 1 + 2 S]` of stored cells of one setting, NaN where refused, and the reasons by position."""
    reasons = {position: cell.reason for position, cell in enumerate(cells) if cell.reason}
    numbers = np.full((len(cells), max((len(cell.numbers) for cell in cells), default=1)), np.nan)
    for position, cell in enumerate(cells):
        if not cell.reason:
            numbers[position] = cell.numbers
    return numbers, reasons
