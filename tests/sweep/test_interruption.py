"""A sweep in a separate process: stopped, killed, out of disk, doubled, and repeated without torch."""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from core.sweep.store import Store
from tests.sweep.support import ROOT, command_line, csv_rows, files, start, sweep

GRID = ("--blocks", "2,6", "--seeds", "0:1100")
LONG = ("--blocks", "24", "--seeds", "0:10000")


def count(path: Path) -> int:
    """Finished cells of a store, 0 where there is none yet."""
    if not path.exists():
        return 0
    with Store.open(path) as store:
        return store.count()


def wait_for_cells(process: subprocess.Popen[str], path: Path, wanted: int = 1, seconds: float = 600) -> None:
    """Wait until the sweep has stored that many cells."""
    deadline = time.monotonic() + seconds
    while count(path) < wanted:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)


def processor_seconds_of_children() -> float:
    """User and system time of this process's ended children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a sweep of `GRID` that nothing disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    done = sweep(*GRID, "--store", folder / "cells.sqlite", "--out", folder / "out")
    assert done.returncode == 0, done.stderr
    return folder / "out"


def test_a_second_call_answers_within_a_second_and_without_torch(undisturbed: Path) -> None:
    """Its processor time is the time that it takes on a machine with nothing else to do."""
    arguments = command_line(*GRID, "--out", undisturbed)
    code = (
        "import sys, runpy; sys.argv = sys.argv[1:]\n"
        "try: runpy.run_module('core', run_name='__main__')\n"
        "except SystemExit as end: print(end.code, 'torch' in sys.modules, 'pandas' in sys.modules)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, *arguments[2:]], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert told.stdout.splitlines()[-1] == "0 False False"
    times = []
    for _ in range(3):
        began = processor_seconds_of_children()
        assert subprocess.run(arguments, cwd=ROOT, capture_output=True, check=False).returncode == 0
        times.append(processor_seconds_of_children() - began)
    assert min(times) < 1.0


def test_an_interrupt_leaves_finished_cells_and_one_sentence(tmp_path: Path) -> None:
    process = start(*LONG, "--store", tmp_path / "cells.sqlite", "--out", tmp_path / "out")
    wait_for_cells(process, tmp_path / "cells.sqlite")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    assert "Interrupted" in err.splitlines()[-1]
    assert 0 < count(tmp_path / "cells.sqlite") < 20_000


def test_an_interrupt_of_worker_processes_ends_them_too(tmp_path: Path) -> None:
    process = start(*LONG, "--workers", "2", "--store", tmp_path / "cells.sqlite", "--out", tmp_path / "out",
                    start_new_session=True)  # fmt: skip
    wait_for_cells(process, tmp_path / "cells.sqlite")
    children = children_of(process.pid)
    assert len(children) >= 2
    # As a terminal does it: to the whole group.
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert_gone(children)
    assert count(tmp_path / "cells.sqlite") > 0


def test_a_full_disk_ends_in_one_sentence_and_the_sweep_can_go_on(tmp_path: Path, undisturbed: Path) -> None:
    arguments = (*GRID, "--store", tmp_path / "cells.sqlite", "--out", tmp_path / "out")
    limited = sweep(
        *arguments, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (800_000, resource.RLIM_INFINITY))
    )
    assert limited.returncode == 2
    assert "Traceback" not in limited.stderr
    sentence = limited.stderr.splitlines()[-1]
    assert "full" in sentence
    assert "kept" in sentence
    kept = count(tmp_path / "cells.sqlite")
    assert 0 < kept < 4400
    # The tables are larger still: with every cell stored, the limit stops them alone.
    assert sweep(*arguments).returncode == 0
    assert files(tmp_path / "out") == files(undisturbed)
    shutil.rmtree(tmp_path / "out")
    limited = sweep(
        *arguments, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (800_000, resource.RLIM_INFINITY))
    )
    assert limited.returncode == 2
    assert "sweep.csv cannot be written" in limited.stderr.splitlines()[-1]
    assert not (tmp_path / "out" / "sweep.csv").exists()
    assert sweep(*arguments).returncode == 0
    assert files(tmp_path / "out") == files(undisturbed)


def test_two_processes_on_one_grid_share_a_store(tmp_path: Path, undisturbed: Path) -> None:
    both = [start(*GRID, "--store", tmp_path / "cells.sqlite", "--out", tmp_path / name) for name in ("a", "b")]
    for process in both:
        _, err = process.communicate(timeout=900)
        assert process.returncode == 0, err
    assert files(tmp_path / "a") == files(tmp_path / "b") == files(undisturbed)
    assert count(tmp_path / "cells.sqlite") == 2 * 2 * 1100


def test_workers_end_with_a_killed_parent_in_the_middle_of_a_chunk(tmp_path: Path) -> None:
    """Of chunks that never end, which the workers find in place of the engine's."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, time\n"
        "from core.sweep.engine import Engine\n"
        "def endless(self, chunk):\n"
        f"    open(os.path.join({str(tmp_path)!r}, f'computing-{{os.getpid()}}'), 'w').close()\n"
        "    while True: sum(range(1000))\n"
        "Engine.run = endless\n"
    )
    process = start(*GRID, "--workers", "2", "--store", tmp_path / "cells.sqlite", "--out", tmp_path / "out",
                    env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"})  # fmt: skip
    deadline = time.monotonic() + 300
    while len(computing := list(tmp_path.glob("computing-*"))) < 2:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    children = children_of(process.pid)
    assert {int(path.name.removeprefix("computing-")) for path in computing} <= set(children)
    process.kill()
    process.communicate()
    try:
        assert_gone(children, 60)
    finally:
        for pid in filter(is_running, children):
            os.kill(pid, signal.SIGKILL)


def test_of_three_sweeps_into_one_folder_one_writes_it(tmp_path: Path, undisturbed: Path) -> None:
    arguments = (*GRID, "--parquet", "--store", tmp_path / "cells.sqlite", "--out", tmp_path / "out")
    crew = [start(*arguments) for _ in range(3)]
    ended = [(process.communicate(timeout=900)[1], process.returncode) for process in crew]
    losers = [err for err, status in ended if status == 2]
    assert {status for _, status in ended} <= {0, 2}
    assert len(losers) < 3
    for err in losers:
        assert err == (
            f"Another sweep is writing to the folder {tmp_path / 'out'}; wait until it has ended, or give another "
            "folder as --out.\n"
        )
    # One that came late found the folder finished and had nothing to say.
    assert sum("cells to compute" in err for err, _ in ended) == 1
    found = files(tmp_path / "out")
    manifest = json.loads(found.pop("manifest.json"))
    assert manifest["digests"] == {name: hashlib.sha256(content).hexdigest() for name, content in found.items()}
    assert {name: found[name] for name in ("sweep.csv", "summary.csv")} == {
        name: content for name, content in files(undisturbed).items() if name != "manifest.json"
    }


@pytest.mark.heavy
def test_a_killed_sweep_ends_with_the_files_of_the_undisturbed_one(tmp_path: Path, undisturbed: Path) -> None:
    moments = random.Random(11)
    progress = set()
    began = time.perf_counter()
    assert sweep(*GRID, "--store", tmp_path / "timing.sqlite", "--out", tmp_path / "timing").returncode == 0
    usual = time.perf_counter() - began
    for attempt in range(20):
        folder = tmp_path / str(attempt)
        workers = ("--workers", "2") if attempt % 3 == 2 else ()
        arguments = (*GRID, *workers, "--store", folder / "cells.sqlite", "--out", folder / "out")
        process = start(*arguments)
        # From the first moment to the last; a run that ended before it was killed counts as one more kind of moment.
        if attempt % 2:
            time.sleep(usual * moments.random())
        else:
            # Where other work makes starting long, most moments lie before the first cell: these are among the cells.
            wait_for_cells(process, folder / "cells.sqlite", moments.randrange(1, 3400))
            time.sleep(0.05 * moments.random())
        children = children_of(process.pid)
        process.kill()
        process.communicate()
        assert_gone(children)
        progress.add(count(folder / "cells.sqlite"))
        resumed = sweep(*arguments)
        assert resumed.returncode == 0, resumed.stderr
        assert files(folder / "out") == files(undisturbed)
        assert count(folder / "cells.sqlite") == 4400
        shutil.rmtree(folder)
    # The moments were of different kinds: before the first cell, in between, after the last.
    assert len(progress) >= 3


@pytest.mark.heavy
def test_memory_does_not_grow_with_the_number_of_seeds(tmp_path: Path) -> None:
    def peak_kib(seeds: int) -> int:
        arguments = command_line(
            "--blocks", "8", "--seeds", f"0:{seeds}", "--workers", "1", "--store", tmp_path / f"{seeds}.sqlite",
            "--out", tmp_path / str(seeds),
        )  # fmt: skip
        code = (
            "import resource, subprocess, sys\n"
            "assert subprocess.run(sys.argv[1:], capture_output=True).returncode == 0\n"
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
        )
        told = subprocess.run(
            [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, check=True
        )
        return int(told.stdout)

    one_chunk, many = peak_kib(512), peak_kib(512 * 16)
    assert len(csv_rows(tmp_path / "512" / "sweep.csv")) == 512 * 2 * 17
    # Fifteen chunks more hold 15,360 members: only their few scalars and the allocator's slack may remain.
    assert many - one_chunk < 40_000


def children_of(pid: int) -> list[int]:
    """Processes that this one started."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def assert_gone(pids: list[int], seconds: float = 300) -> None:
    """Every process has ended within the time, though nobody told it to."""
    deadline = time.monotonic() + seconds
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < deadline, f"still running: {pids}"
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
