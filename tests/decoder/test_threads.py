"""Work shared among the cores: every task once, errors passed on, and threads that do not multiply."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from core.decoder.threads import on_all_cores

# Tensors are made outside the threads: to make a large one would be torch's first question for its setting.
COUNTED = """
import os, torch
from core.decoder import threads
threads.cores = lambda: 3
torch.set_num_threads({0})
x, tile = torch.ones(32, 512), torch.ones(512, 512)
x @ tile
before = len(os.listdir("/proc/self/task"))
seen = []
def work(_):
    for _ in range(50):
        x.new_zeros(32, 512).addmm_(x, tile)
    seen.append(len(os.listdir("/proc/self/task")))
threads.on_all_cores(work, range(6))
print(max(seen) - before)
"""


@pytest.mark.parametrize("count", [1, 2, 7])
def test_every_task_is_done_once(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.decoder.threads.cores", lambda: count)
    done: list[int] = []
    on_all_cores(done.append, range(20))
    assert sorted(done) == list(range(20))
    on_all_cores(done.append, [])
    assert len(done) == 20


@pytest.mark.parametrize("count", [1, 3])
def test_an_error_of_a_task_is_raised(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.decoder.threads.cores", lambda: count)
    with pytest.raises(ZeroDivisionError):
        on_all_cores(lambda task: 1 // task, [1, 0, 1])  # type: ignore[arg-type, return-value]


def test_torchs_setting_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.decoder.threads.cores", lambda: 4)
    on_all_cores(lambda task: None, range(8))
    assert torch.get_num_threads() == 1


@pytest.mark.heavy
@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
@pytest.mark.parametrize(("torch_threads", "more"), [(1, 3), (3, 0)])
def test_threads_do_not_multiply(torch_threads: int, more: int) -> None:
    """With three cores and torch on one thread there are three more threads; with torch on all of them, none."""
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", COUNTED.format(torch_threads)],
        capture_output=True,
        text=True,
        check=True,
        env={**environment, "OMP_NUM_THREADS": "3"},
        cwd=Path(__file__).parents[2],
    )
    assert int(done.stdout) <= more
