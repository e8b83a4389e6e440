"""A sweep in progress: slices, resuming, overlaps, refused cells and estimates."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from core.errors import StorageError
from core.sweep.engine import ChunkResult, Engine
from core.sweep.grid import SweepGrid
from core.sweep.plan import Chunk
from core.sweep.run import SweepRun
from core.sweep.store import Store
from tests.sweep.support import finish, small_grid

Computed = Counter[tuple[int, str, str, int]]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "cells.sqlite") as opened:
        yield opened


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> Computed:
    """How often the engine computed each cell."""
    counts: Computed = Counter()
    original = Engine.run

    def counted(self: Engine, chunk: Chunk) -> ChunkResult:
        counts.update((chunk.config.blocks, chunk.dtype, name, s) for name in chunk.recipes for s in chunk.seeds)
        return original(self, chunk)

    monkeypatch.setattr(Engine, "run", counted)
    return counts


def many(**axes: Any) -> SweepGrid:
    """A grid of several chunks: two dtypes and two topologies at every depth."""
    return small_grid(recipes=("gpt2", "peri-norm"), dtypes=("float64", "float32"), **axes)


def test_a_slice_of_no_time_does_one_chunk_and_slices_end(store: Store) -> None:
    run = SweepRun(many(), store)
    assert (run.done, run.total, run.refused) == (0, 2 * 2 * 3 * 4, 0)
    chunks, finished = len(run.pending), 0
    assert chunks == 8
    while run.pending:
        before = len(run.pending)
        finished += run.step(0.0)
        assert len(run.pending) == before - 1
        assert run.done == finished == store.count()
    assert run.done == run.total
    assert run.step() == 0


def test_a_stopped_sweep_goes_on_where_it_stopped(store: Store, computed: Computed) -> None:
    first = SweepRun(many(), store)
    first.step(0.0)
    first.step(0.0)
    second = SweepRun(many(), store)
    assert second.done == first.done > 0
    finish(second)
    finish(SweepRun(many(), store))
    assert set(computed.values()) == {1}
    assert len(computed) == second.total


def test_overlapping_sweeps_compute_no_cell_twice_and_agree_with_a_fresh_one(
    store: Store, computed: Computed, tmp_path: Path
) -> None:
    finish(SweepRun(small_grid(seeds=(2, 3)), store))
    finish(SweepRun(small_grid(recipes=("gpt2", "lns")), store))
    wide = small_grid(seeds=(7, 0, 2, 5), recipes=("lns", "depth-scaled", "gpt2"), blocks=(3, 4, 1))
    run = finish(SweepRun(wide, store))
    assert set(computed.values()) == {1}
    with Store.open(tmp_path / "fresh.sqlite") as other:
        fresh = finish(SweepRun(wide, other))
        for setting in range(3):
            for name in wide.computed:
                ours, theirs = (r.results.numbers(setting, name, wide.seeds) for r in (run, fresh))
                assert ours.tobytes() == theirs.tobytes()


def test_two_runs_taking_turns_share_the_work(store: Store, computed: Computed) -> None:
    with Store.open(store.path) as second_store:
        runs = [SweepRun(many(), store), SweepRun(many(), second_store, start=0.5)]
        while any(run.pending for run in runs):
            for run in runs:
                run.step(0.0)
        assert runs[0].done == runs[1].done == runs[0].total
    assert set(computed.values()) == {1}


def test_the_place_to_start_changes_the_order_and_nothing_else(store: Store, tmp_path: Path) -> None:
    ahead = SweepRun(many(), store)
    with Store.open(tmp_path / "other.sqlite") as other:
        behind = SweepRun(many(), other, start=0.7)
        assert [c.setting for c in behind.pending] != [c.setting for c in ahead.pending]
        assert {(c.setting, c.recipes) for c in behind.pending} == {(c.setting, c.recipes) for c in ahead.pending}
        assert finish(ahead).results.values.tobytes() == finish(behind).results.values.tobytes()


def test_refused_cells_are_done_from_the_start_and_stop_nothing(store: Store) -> None:
    run = SweepRun(small_grid(recipes=("t-fixup", "deepscalelm")), store)
    assert run.refused == run.done == 3 * 4
    finish(run)
    assert (run.done, run.refused) == (run.total, 12)
    # They are decided by arithmetic each time, so the store holds only what was computed.
    assert store.count() == run.total - 12
    assert "encoder-decoder" in run.results.reason(0, "t-fixup", 2)
    assert run.results.reason(0, "unscaled", 2) == ""


def test_a_cell_refused_by_the_engine_is_stored_with_its_reason(store: Store, computed: Computed) -> None:
    from core.decoder.base_draw import Distribution

    grid = small_grid(dtypes=("float32",), distribution=Distribution(1e30))
    run = finish(SweepRun(grid, store))
    assert run.refused == run.total
    again = SweepRun(grid, store)
    assert again.pending == ()
    assert again.refused == again.total
    assert again.results.reason(0, "unscaled", 1) == run.results.reason(0, "unscaled", 1) != ""
    assert np.isnan(again.results.values).all()
    assert set(computed.values()) == {1}


def test_the_estimate_shrinks_with_the_work_and_follows_the_pace(store: Store) -> None:
    run = SweepRun(many(blocks=(1, 2, 4, 8)), store)
    estimates = [run.estimate]
    while run.pending:
        run.step(0.0)
        estimates.append(run.estimate)
    assert [e.cells for e in estimates] == sorted((e.cells for e in estimates), reverse=True)
    assert estimates[0].seconds > 0
    assert estimates[0].peak_bytes > 0
    assert (estimates[-1].cells, estimates[-1].seconds, estimates[-1].peak_bytes) == (0, 0, 0)


def test_memory_is_estimated_for_one_chunk_however_many_seeds(store: Store) -> None:
    few, more = (SweepRun(SweepGrid(seeds=tuple(range(n))), store).estimate for n in (1024, 8192))
    assert more.peak_bytes == few.peak_bytes
    assert more.seconds == pytest.approx(8 * few.seconds)


def test_cells_deleted_meanwhile_are_missed_in_a_sentence(store: Store) -> None:
    run = finish(SweepRun(small_grid(), store))
    store._limit = 0
    store.trim()
    with pytest.raises(StorageError, match="run the sweep again"):
        run.rows()


def test_damaged_cells_are_computed_anew_and_nothing_else_is(store: Store, computed: Computed, tmp_path: Path) -> None:
    whole = finish(SweepRun(many(), store)).rows()
    assert set(computed.values()) == {1}
    damage = sqlite3.connect(store.path)
    damage.execute("UPDATE cells SET numbers = substr(numbers, 9) || x'000000000000f03f' WHERE rowid % 5 = 0")
    damage.commit()
    damage.close()
    with Store.open(store.path) as reopened:
        run = SweepRun(many(), reopened)
        damaged = run.total - run.done
        assert reopened.damaged == damaged == run.total // 5
        pd.testing.assert_frame_equal(finish(run).rows(), whole)
        assert (reopened.damaged, reopened.count()) == (0, run.total)
    assert sum(computed.values()) == run.total + damaged
    assert SweepRun(many(), store).pending == ()
