"""The same grid on a real Dask scheduler with two worker processes on loopback, one of them killed half-way."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import SweepError
from core.sweep import distributed
from core.sweep.process import compute
from core.sweep.run import SweepRun
from core.sweep.store import Store
from tests.support import run_cli
from tests.sweep.support import files, small_grid, start, sweep
from tests.sweep.test_interruption import wait_for_cells

GRID = ("--blocks", "4,20", "--seeds", "0:3000", "--recipe", "gpt2,peri-norm")


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[str]:
    """A scheduler's address; it ends with the test."""
    pytest.importorskip("distributed", reason="the extra `distributed` is not installed")
    process = dask("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", folder=tmp_path)
    try:
        yield said(process, r"Scheduler at:\s+(tcp://127\.0\.0\.1:\d+)")
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def workers(scheduler: str, tmp_path: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Two workers of that scheduler, each a separate process with one thread."""
    options = ("--nthreads", "1", "--no-nanny", "--no-dashboard")
    crew = [dask("worker", scheduler, *options, folder=tmp_path) for _ in range(2)]
    try:
        for process in crew:
            said(process, r"(Registered to)")
        yield crew
    finally:
        for process in crew:
            process.kill()
            process.communicate()


def dask(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    """The command `dask`, started where nothing of this project can be imported."""
    program = Path(sys.executable).with_name("dask")
    return subprocess.Popen(
        [program, *arguments], cwd=folder, env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def said(process: subprocess.Popen[str], pattern: str) -> str:
    """Wait until a process has logged `pattern`; its group."""
    assert process.stderr is not None
    for line in process.stderr:
        found = re.search(pattern, line)
        if found:
            return found[1]
    raise AssertionError(f"ended without saying {pattern}")


@pytest.mark.heavy
def test_a_lost_worker_costs_a_retry_and_the_tables_are_the_local_ones(
    scheduler: str, workers: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    assert sweep(*GRID, "--store", tmp_path / "local.sqlite", "--out", tmp_path / "local").returncode == 0
    process = start(
        *GRID, "--scheduler", scheduler, "--store", tmp_path / "far.sqlite", "--out", tmp_path / "far"
    )  # fmt: skip
    wait_for_cells(process, tmp_path / "far.sqlite")
    assert process.poll() is None
    workers[0].kill()
    _, err = process.communicate(timeout=900)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert files(tmp_path / "far") == files(tmp_path / "local")


@pytest.mark.heavy
def test_a_second_sweep_finds_the_cells_of_the_first(
    scheduler: str, workers: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    grid = ("--blocks", "1,2", "--seeds", "0:40", "--store", tmp_path / "cells.sqlite")
    assert sweep(*grid, "--scheduler", scheduler, "--out", tmp_path / "first").returncode == 0
    # Where nothing is missing, no scheduler is asked.
    assert sweep(*grid, "--scheduler", "tcp://127.0.0.1:9", "--out", tmp_path / "second").returncode == 0
    assert files(tmp_path / "first") == files(tmp_path / "second")


@pytest.fixture
def package() -> None:
    """The optional package."""
    pytest.importorskip("distributed", reason="the extra `distributed` is not installed")


def refusal(folder: Path, address: str) -> str:
    """The one line that refuses a scheduler's address; nothing may be left in `folder` or be said before it."""
    before = {name: (folder / name).read_bytes() for name in os.listdir(folder)}
    outcome = run_cli(
        "sweep", "--blocks", "1", "--seeds", "0:2", "--scheduler", address, "--store", folder / "cells.sqlite",
        "--out", folder / "out",
    )  # fmt: skip
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert {name: (folder / name).read_bytes() for name in os.listdir(folder)} == before
    assert "dask scheduler" in outcome.err
    return outcome.err


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.usefixtures("package")
def test_an_address_where_nobody_answers_is_refused_and_nothing_is_left(tmp_path: Path, stored: bool) -> None:
    if stored:
        Store.open(tmp_path / "cells.sqlite").close()
    for address in ("tcp://127.0.0.1:9", "127.0.0.1:9", "what://127.0.0.1:1"):
        assert "No Dask scheduler answers at" in refusal(tmp_path, address)


@pytest.mark.usefixtures("package")
def test_a_program_that_is_no_scheduler_is_refused_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distributed, "CONNECT_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        assert "No Dask scheduler answers at" in refusal(tmp_path, f"127.0.0.1:{listening.getsockname()[1]}")


@pytest.mark.parametrize(
    "address",
    ["", "x", "tcp://", "\N{GRINNING FACE}", "127.0.0.1:99999", "nonsense", "tcp://:8786", "tcp://[::1", "a:b"],
)
@pytest.mark.usefixtures("package")
def test_an_address_that_cannot_be_one_is_refused_by_its_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setattr(distributed, "connected", None)
    assert "is no address of a Dask scheduler" in refusal(tmp_path, address)


def test_without_the_optional_package_the_way_out_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        Store.open(tmp_path / "cells.sqlite") as store,
        pytest.raises(SweepError, match="dask and distributed"),
    ):
        next(distributed.run_on_client(SweepRun(small_grid(), store), None))


def test_a_workers_answer_is_the_chunk_computed_here(tmp_path: Path) -> None:
    with Store.open(tmp_path / "cells.sqlite") as store:
        run = SweepRun(small_grid(), store)
        parts = [part for chunk in run.pending for part in run.missing_parts(chunk)]
        for part, (result, seconds) in zip(parts, compute(parts), strict=True):
            assert seconds > 0
            run.accept(part, result, seconds)
        assert run.pending == ()
        assert run.done == run.total
