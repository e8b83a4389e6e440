"""A page's sweep on a scheduler's workers: the local tables, a cancel at once, a lost scheduler as one sentence."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest

from core.errors import SchedulerError
from core.sweep.allowance import Allowance
from core.sweep.engine import Engine
from core.sweep.far import FarSweep
from core.sweep.run import SweepRun
from core.sweep.store import Store
from tests.sweep.support import finish, small_grid
from tests.sweep.test_distributed import scheduler, workers

__all__ = ["scheduler", "workers"]
NOTHING = Allowance(seconds=0.0, pass_seconds=0.0, pass_bytes=0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "cells.sqlite") as opened:
        yield opened


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def near(monkeypatch: pytest.MonkeyPatch, gate: threading.Event) -> list[int]:
    """Stand in for the scheduler: every part is answered in this process once the gate is open; counts answers."""
    answers: list[int] = []

    def answered(run: SweepRun, address: str) -> Iterator[int]:
        assert address == "tcp://here"
        engine = Engine()
        for chunk in [chunk for bundle in run.open_bundles() for chunk in bundle.chunks]:
            for part in run.parts(chunk):
                assert gate.wait(60)
                run.accept(part, engine.run(part), 0.1)
                answers.append(run.done)
                yield run.done

    monkeypatch.setattr("core.sweep.far.run_on_scheduler", answered)
    return answers


def test_answers_make_the_local_tables_whatever_the_allowance_of_this_machine(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    near(monkeypatch, gate)
    grid = small_grid(seeds=tuple(range(300)), recipes=("gpt2", "post-norm"))
    sweep = FarSweep(grid, store, "tcp://here", NOTHING)
    assert sweep.refusal is None
    sweep.start()
    sweep.advance(0.01)
    assert (sweep.running, sweep.done) == (True, 0)
    assert len(sweep.table("cells")) == 0
    gate.set()
    until(lambda: not sweep.running)
    assert sweep.complete
    with Store.open(tmp_path / "local.sqlite") as other:
        local = finish(SweepRun(grid, other))
        for name in ("cells", "summary", "growth"):
            pd.testing.assert_frame_equal(sweep.table(name), getattr(local, name)())


def test_a_cancel_is_immediate_and_later_answers_are_not_lost(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    answers = near(monkeypatch, gate)
    sweep = FarSweep(small_grid(seeds=tuple(range(600))), store, "tcp://here")
    sweep.start()
    sweep.cancel()
    assert not sweep.running
    gate.set()
    until(lambda: len(answers) == 1 and sweep.done == store.count() > 0)
    assert not sweep.complete
    until(lambda: not [thread for thread in threading.enumerate() if thread.name == "far sweep"])
    assert len(answers) == 1
    sweep.start()
    until(lambda: not sweep.running)
    assert sweep.complete


def test_a_scheduler_that_does_not_answer_is_one_sentence(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object) -> Iterator[int]:
        raise SchedulerError("No Dask scheduler answers.")

    monkeypatch.setattr("core.sweep.far.run_on_scheduler", lost)
    sweep = FarSweep(small_grid(), store, "tcp://here")
    sweep.start()
    until(lambda: not sweep.running)
    assert sweep.fault == "No Dask scheduler answers."
    assert sweep.done == 0


@pytest.mark.heavy
def test_a_real_schedulers_workers_give_the_local_bytes(
    scheduler: str, workers: list[subprocess.Popen[str]], store: Store, tmp_path: Path
) -> None:
    grid = small_grid(blocks=(4, 12), seeds=tuple(range(500)), recipes=("gpt2",))
    sweep = FarSweep(grid, store, scheduler)
    sweep.start()
    until(lambda: not sweep.running)
    assert (sweep.fault, sweep.complete) == (None, True)
    with Store.open(tmp_path / "local.sqlite") as other:
        pd.testing.assert_frame_equal(sweep.table("cells"), finish(SweepRun(grid, other)).cells())
