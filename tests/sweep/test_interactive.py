"""A sweep behind a page: within its allowance, one slice at a time, safe across threads, and equal to the verb's."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Semaphore
from typing import Any

import pandas as pd
import pytest

from core.decoder.config import DecoderConfig
from core.errors import BudgetError, StorageError
from core.sweep.allowance import Allowance
from core.sweep.grid import SweepGrid
from core.sweep.interactive import InteractiveSweep
from core.sweep.run import SweepRun
from core.sweep.store import Store
from tests.support import run_cli
from tests.sweep.support import finish, small_grid


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "cells.sqlite") as opened:
        yield opened


def started(grid: SweepGrid, store: Store, turns: int = 1, **allowed: Any) -> InteractiveSweep:
    sweep = InteractiveSweep(grid, store, Semaphore(turns), Allowance(**allowed))
    sweep.start()
    return sweep


def to_the_end(sweep: InteractiveSweep) -> InteractiveSweep:
    for _ in range(1000):
        if not sweep.running:
            return sweep
        sweep.advance(0.01)
    raise AssertionError("the sweep does not end")


def test_a_busy_machine_does_not_take_back_what_was_granted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = started(small_grid(seeds=tuple(range(2000))), store, seconds=10.0)
    clock = iter(range(0, 10**9, 1000))
    with monkeypatch.context() as patch:
        patch.setattr("core.sweep.run.time.perf_counter", lambda: float(next(clock)))
        sweep.advance(0.0)
    sweep.cancel()
    assert 0 < sweep.done < sweep.total
    assert sweep.estimate.seconds > 10
    assert sweep.refusal is None
    sweep.start()
    assert sweep.running


def test_slices_end_in_the_tables_of_an_uninterrupted_run(store: Store, tmp_path: Path) -> None:
    grid = small_grid(seeds=tuple(range(40)), recipes=("depth-scaled", "post-norm"))
    sweep = to_the_end(started(grid, store))
    assert (sweep.done, sweep.complete, sweep.running, sweep.fault) == (sweep.total, True, False, None)
    with Store.open(tmp_path / "other.sqlite") as other:
        run = finish(SweepRun(grid, other))
        for name in ("cells", "summary", "growth"):
            pd.testing.assert_frame_equal(sweep.table(name), getattr(run, name)())
        assert sweep.rows == len(run.rows())


def test_rows_count_one_for_a_cell_that_is_refused_beforehand(store: Store) -> None:
    grid = small_grid(recipes=("deepscalelm",))
    sweep = to_the_end(started(grid, store))
    assert sweep.planned_refusals == sweep.refused == 4
    assert sweep.rows == 4 * 1 + 4 * 7 + 4 * (3 + 7)


def test_files_are_the_bytes_of_the_command_line(store: Store, tmp_path: Path) -> None:
    sweep = to_the_end(started(small_grid(recipes=("gpt2", "deepscalelm")), store))
    out = tmp_path / "out"
    options = ("--blocks", "1,3", "--seeds", "0:4", "--recipe", "gpt2,deepscalelm", "--parquet")
    assert run_cli("sweep", *options, "--store", tmp_path / "third.sqlite", "--out", out).status == 0
    for name in ("sweep.csv", "summary.csv", "sweep.parquet"):
        assert sweep.file(name) == (out / name).read_bytes()


def test_a_file_is_written_without_the_others(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = to_the_end(started(small_grid(), store))
    whole = sweep.file("summary.csv")
    # The summary is made of what a run keeps; only the long table reads the sites of every cell again.
    monkeypatch.setattr(Store, "lookup", lambda *_: pytest.fail("the long table was made"))
    assert sweep.file("summary.csv") == whole


def test_nothing_runs_before_it_is_started_or_after_it_is_cancelled(store: Store) -> None:
    sweep = InteractiveSweep(small_grid(seeds=tuple(range(600))), store, Semaphore(1))
    sweep.advance()
    assert (sweep.done, store.count()) == (0, 0)
    sweep.start()
    sweep.advance(0.0)
    done = sweep.done
    assert 0 < done < sweep.total
    sweep.cancel()
    sweep.advance()
    assert sweep.done == done == store.count()
    sweep.start()
    assert to_the_end(sweep).complete


def test_cancelling_from_another_thread_waits_for_one_pass_only(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, go_on = threading.Event(), threading.Event()
    step, passes = SweepRun.step, []

    def slow(run: SweepRun, budget: float) -> int:
        passes.append(budget)
        inside.set()
        assert go_on.wait(10)
        return step(run, budget)

    monkeypatch.setattr(SweepRun, "step", slow)
    sweep = started(small_grid(seeds=tuple(range(600))), store)
    worker = threading.Thread(target=sweep.advance, args=(60.0,))
    worker.start()
    assert inside.wait(10)
    sweep.cancel()
    assert not sweep.running
    go_on.set()
    worker.join(10)
    assert len(passes) == 1
    assert store.count() == sweep.done > 0


def test_sweeps_of_all_visitors_share_the_turns(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four visitors, two turns: never three slices at once, and everybody finishes with the same numbers."""
    at_once, most, guard = 0, 0, threading.Lock()
    step = SweepRun.step

    def counted(run: SweepRun, budget: float) -> int:
        nonlocal at_once, most
        with guard:
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.002)
        try:
            return step(run, budget)
        finally:
            with guard:
                at_once -= 1

    monkeypatch.setattr(SweepRun, "step", counted)
    turns = Semaphore(2)
    sweeps = []
    for _ in range(4):
        sweeps.append(InteractiveSweep(small_grid(seeds=tuple(range(300))), Store.open(store.path), turns))
        sweeps[-1].start()
    threads = [threading.Thread(target=to_the_end, args=(sweep,)) for sweep in sweeps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert 1 <= most <= 2
    assert all(sweep.complete for sweep in sweeps)
    for sweep in sweeps[1:]:
        pd.testing.assert_frame_equal(sweep.table("cells"), sweeps[0].table("cells"))
    assert store.count() == sweeps[0].total


def test_a_turn_that_does_not_come_is_waited_for_no_longer_than_the_slice(store: Store) -> None:
    sweep = started(small_grid(), store, turns=0)
    sweep.advance(0.05)
    assert (sweep.done, sweep.running) == (0, True)


@pytest.mark.parametrize(
    ("axes", "allowed", "sentence"),
    [
        ({"seeds": tuple(range(100))}, {"cells": 399}, "400 cells and a page takes 399"),
        ({"blocks": tuple(range(1, 20))}, {"plans": 37}, "38 decoders and a page takes 37"),
    ],
)
def test_a_grid_beyond_the_allowance_is_refused_before_it_is_planned(
    store: Store, monkeypatch: pytest.MonkeyPatch, axes: dict[str, Any], allowed: dict[str, int], sentence: str
) -> None:
    monkeypatch.setattr("core.sweep.interactive.SweepRun", lambda *_: pytest.fail("planned"))
    with pytest.raises(BudgetError, match=sentence):
        InteractiveSweep(small_grid(**axes), store, Semaphore(1), Allowance(**allowed))


@pytest.mark.parametrize(
    ("axes", "allowed", "sentence"),
    [
        ({"seeds": tuple(range(2000))}, {"seconds": 0.001}, "The missing cells take about"),
        ({"blocks": (2000,)}, {}, "One pass takes about"),
        ({"sizes": (DecoderConfig(vocabulary=2**18, width=64),)}, {"pass_seconds": 60}, "A pass needs about"),
    ],
)
def test_work_beyond_the_allowance_does_not_start_and_finished_work_is_shown(
    store: Store, axes: dict[str, Any], allowed: dict[str, float], sentence: str
) -> None:
    sweep = started(small_grid(**axes), store, **{"pass_bytes": 2**26, **allowed})
    assert not sweep.running
    assert sweep.refusal is not None
    assert sentence in sweep.refusal
    assert "command line" in sweep.refusal


def test_what_is_finished_needs_no_allowance(store: Store) -> None:
    finish(SweepRun(small_grid(), store))
    sweep = InteractiveSweep(small_grid(), store, Semaphore(0), Allowance(seconds=0.0, pass_seconds=0.0, pass_bytes=0))
    assert sweep.complete
    assert sweep.refusal is None
    sweep.start()
    assert not sweep.running


def test_a_store_that_fails_stops_the_sweep_with_its_sentence(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = started(small_grid(seeds=tuple(range(600))), store)
    sweep.advance(0.0)
    done = sweep.done

    def full(*_: object) -> int:
        raise StorageError("The store is full.")

    monkeypatch.setattr(Store, "put", full)
    sweep.advance()
    assert (sweep.running, sweep.fault, sweep.done) == (False, "The store is full.", done)
    assert len(sweep.table("cells"))
    monkeypatch.undo()
    sweep.start()
    assert sweep.fault is None
    assert to_the_end(sweep).complete


def test_an_unexpected_fault_stops_the_sweep_and_gives_its_turn_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = Semaphore(1)
    sweep = InteractiveSweep(small_grid(), store, turns)
    sweep.start()

    def broken(*_: object) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(SweepRun, "step", broken)
    with pytest.raises(ZeroDivisionError):
        sweep.advance()
    assert not sweep.running
    assert turns.acquire(blocking=False)


def test_the_pace_counts_what_this_visit_computed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    grid = small_grid(seeds=tuple(range(600)))
    now = 100.0
    monkeypatch.setattr("core.sweep.interactive.time.monotonic", lambda: now)
    sweep = InteractiveSweep(grid, store, Semaphore(1))
    assert (sweep.pace.done, sweep.pace.cells_per_second, sweep.pace.seconds_left) == (0, 0.0, None)
    sweep.start()
    step = SweepRun.step

    def timed(run: SweepRun, budget: float) -> int:
        nonlocal now
        now += 2.0
        return step(run, budget)

    monkeypatch.setattr(SweepRun, "step", timed)
    sweep.advance(1.0)
    pace = sweep.pace
    assert 0 < pace.done < pace.total
    assert pace.cells_per_second == pace.done / 2.0
    assert pace.share == pace.done / pace.total
    assert pace.seconds_left is not None
    assert pace.seconds_left > 0
