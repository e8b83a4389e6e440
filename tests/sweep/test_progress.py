"""What a sweep says of its progress: the time left is that of the work, and starting counts as none."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import pytest

from core.sweep import progress
from core.sweep.plan import SweepEstimate
from core.sweep.progress import Progress


@dataclass
class Work:
    """A run of equal cells, the work of which is off by a factor that no arithmetic knows."""

    total: int = 100
    done: int = 0
    seconds_a_cell: float = 0.5

    @property
    def seconds_left(self) -> float:
        return (self.total - self.done) * self.seconds_a_cell

    @property
    def pending(self) -> bool:
        return self.done < self.total

    @property
    def estimate(self) -> SweepEstimate:
        return SweepEstimate(cells=self.total - self.done, seconds=self.seconds_left, peak_bytes=2**20)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that tests set."""
    time = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: time[0])
    return time


def told(run: Any) -> tuple[Progress, io.StringIO]:
    stream = io.StringIO()
    return Progress(run, stream), stream


@pytest.mark.parametrize("true_seconds", [0.1, 0.5, 7.0])
@pytest.mark.parametrize("start_seconds", [0.0, 300.0])
def test_time_left_is_right_from_the_second_chunk_on(
    now: list[float], true_seconds: float, start_seconds: float
) -> None:
    run = Work(done=10)
    bar, stream = told(run)
    now[0] += start_seconds
    bar.show()
    for _ in range(3):
        run.done += 20
        now[0] += 20 * true_seconds
        bar.show()
        last = stream.getvalue().splitlines()[-1]
        assert last == (
            f"{run.done} of 100 cells, {1 / true_seconds:,.0f} cells/s, "
            f"{progress.clock((100 - run.done) * true_seconds)} left"
        )


def test_a_first_line_for_a_sweep_of_no_work_names_the_start(now: list[float]) -> None:
    _, stream = told(Work(total=640, seconds_a_cell=1e-4))
    assert stream.getvalue() == (
        "640 of 640 cells to compute, 0 finished; about 2 s on one core, starting included, and 1 MiB\n"
    )


def test_nothing_is_divided_by_where_nothing_was_finished_or_no_time_passed(now: list[float]) -> None:
    run = Work()
    bar, stream = told(run)
    bar.show()
    now[0] += 5
    bar.show()
    assert stream.getvalue().splitlines()[-1] == "0 of 100 cells"
    run.done = 100
    bar.show(last=True)
    assert stream.getvalue().splitlines()[-1] == "100 of 100 cells, 20 cells/s"
