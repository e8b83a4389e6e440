"""`observe --driver`, `--max-memory` and `--checkpoint`, with real processes that are killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from core.export.compare import compare_documents
from core.health import estimate
from tests.support import run_cli

ROOT = Path(__file__).parents[2]
# RealFormer has its own graph, so that there are two passes.
SIZES = [
    "--blocks",
    "24",
    "--width",
    "64",
    "--heads",
    "8",
    "--kv-heads",
    "2",
    "--ff-width",
    "128",
    "--vocabulary",
    "300",
]
KILLS = 10


@pytest.mark.parametrize("recipe", ["depth-scaled", "realformer"])
def test_both_drivers_give_the_same_document(recipe: str) -> None:
    """Every number to 1e-12, and only the driver's name differs; it is how a document was made, not a result."""
    graph, block = (
        run_cli("observe", "--recipe", recipe, "--driver", driver, "--json").document() for driver in ("graph", "block")
    )
    assert (graph["driver"], block["driver"]) == ("graph", "block")
    assert compare_documents(graph, block, tolerance=1e-12)["equal"]


def test_auto_takes_blocks_where_the_graph_is_too_large() -> None:
    """For the memory allowed, and for the parameters that may exist at once."""
    given = ["observe", "--blocks", "64", "--json"]
    assert run_cli(*given).document()["driver"] == "graph"
    assert run_cli(*given, "--max-memory", "300k").document()["driver"] == "block"
    assert run_cli(*given, "--max-memory", "1G").document()["driver"] == "graph"
    assert run_cli(*given, "--max-parameters", "100").document()["driver"] == "block"


def test_seeds_are_observed_block_by_block_too() -> None:
    graph, block = (
        run_cli("observe", "--seeds", "0:3", "--driver", driver, "--json").document() for driver in ("graph", "block")
    )
    assert block["driver"] == "block"
    assert compare_documents(graph, block, tolerance=1e-12)["equal"]


def test_a_long_run_says_first_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.command.kept.SECONDS_FOR_NOTICE", 0.0)
    outcome = run_cli("observe", "--driver", "block")
    assert outcome.err.startswith("Block by block, by estimate: 0 s of one core, ")
    assert outcome.err.endswith("GiB; --checkpoint DIR keeps what is finished.\n")
    assert run_cli("observe", "--driver", "graph").err == ""


def test_progress_has_a_rate_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.command.progress.LOG_FIRST", 0.0)
    monkeypatch.setattr("core.command.progress.LOG_EVERY", 0.0)
    lines = run_cli("observe", "--blocks", "2", "--driver", "block").err.splitlines()
    assert lines[0] == "blocks, forward and in reverse: 1 of 4"
    assert all(" s each, about 0 s left" in line for line in lines[1:])
    assert [line.split(",")[1].split(":")[1].strip() for line in lines] == [f"{n} of 4" for n in range(1, 5)]


def test_a_checkpoint_is_resumed_and_a_foreign_one_refused(tmp_path: Path) -> None:
    given = ["observe", "--blocks", "2", "--checkpoint", tmp_path / "run", "--json"]
    first = run_cli(*given)
    assert first.document()["driver"] == "block"
    assert run_cli(*given).out == first.out
    other = run_cli(*given, "--seed", "5")
    assert other.status == 2
    assert other.err.count("\n") == 1
    assert "seed is '4701' there and '5' here; give another folder as --checkpoint." in other.err


def test_a_damaged_last_block_is_said_on_standard_error(tmp_path: Path) -> None:
    given = ["observe", "--blocks", "2", "--checkpoint", tmp_path / "run", "--json"]
    first = run_cli(*given)
    last = tmp_path / "run" / "pass-1.reverse-00000.step"
    last.write_bytes(last.read_bytes()[:-1])
    again = run_cli(*given)
    assert again.out == first.out
    assert again.err.endswith("pass-1.reverse-00000.step, is damaged; its block is computed again.\n")


def started(folder: Path, recipe: str) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "core",
        "observe",
        *SIZES,
        "--recipe",
        recipe,
        "--json",
        "--checkpoint",
        str(folder),
    ]
    # Where the tests run in the background, an interrupt may be ignored; a terminal's is not.
    return subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def steps_in(folder: Path) -> dict[str, tuple[int, int]]:
    """Every finished step with the file that it was written as: a step computed again has another inode and time."""
    found = {}
    for path in folder.glob("*.step"):
        status = path.stat()
        found[path.name] = (status.st_ino, status.st_mtime_ns)
    return found


def wait_for(folder: Path, count: int, process: subprocess.Popen[bytes]) -> None:
    while len(list(folder.glob("*.step"))) < count and process.poll() is None:
        time.sleep(0.002)


@pytest.mark.heavy
@pytest.mark.parametrize("recipe", ["depth-scaled", "realformer"])
def test_killed_at_ten_random_moments_it_ends_in_the_same_bytes(recipe: str, tmp_path: Path) -> None:
    """kill -9, between blocks and within them; no finished block is computed again."""
    whole, _ = started(tmp_path / "whole", recipe).communicate()
    total = len(steps_in(tmp_path / "whole"))
    noise, folder = random.Random(4701), tmp_path / "run"
    finished: dict[str, tuple[int, int]] = {}
    moments = sorted(noise.sample(range(total - 1), KILLS))
    for moment in moments:
        process = started(folder, recipe)
        wait_for(folder, moment, process)
        time.sleep(noise.uniform(0, 0.02))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        now = steps_in(folder)
        assert finished.items() <= now.items()
        finished = now
    process = started(folder, recipe)
    resumed, said = process.communicate()
    assert (process.returncode, said) == (0, b"")
    assert resumed == whole
    assert finished.items() <= steps_in(folder).items()
    assert len(finished) >= moments[-1]
    # Nothing is left of the killed ones but the run itself.
    assert {path.name for path in folder.iterdir()} == {*steps_in(folder), "checkpoint.json"}


@pytest.mark.heavy
def test_an_interrupt_says_how_to_go_on(tmp_path: Path) -> None:
    whole, _ = started(tmp_path / "whole", "depth-scaled").communicate()
    process = started(tmp_path / "run", "depth-scaled")
    wait_for(tmp_path / "run", 5, process)
    process.send_signal(signal.SIGINT)
    out, said = process.communicate()
    assert (process.returncode, out) == (130, b"")
    text = said.decode()
    assert f"Interrupted; finished blocks are kept in {tmp_path / 'run'}" in text
    assert "the same command goes on from there." in text
    assert started(tmp_path / "run", "depth-scaled").communicate() == (whole, b"")


@pytest.mark.heavy
@pytest.mark.parametrize("driver", ["graph", "block"])
def test_the_estimate_is_the_measured_peak_within_a_factor_of_two(driver: str) -> None:
    """Resident bytes beyond those of a small run, in a process of its own, without room for blocks' graphs."""
    sizes = {"blocks": 12, "width": 512, "heads": 8, "ff_width": 2048, "vocabulary": 4000, "positions": 128}
    code = f"""
import json, re
from dataclasses import replace
import torch
from core.decoder.config import DecoderConfig
from core.health.estimate import estimate
from core.health.report import observe_document
from core.health.request import ObserveRequest
from core.sweep.request import uniform_batch
torch.set_num_threads(1)
def peak():  # of this program alone: what getrusage tells begins with the parent's
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
config = DecoderConfig(**{sizes})
request = ObserveRequest(config=config, batch=uniform_batch(2, 128, 4000, 1), dtype="float32", driver={driver!r})
request = replace(request, max_memory=estimate(request).total_bytes)
observe_document(ObserveRequest(dtype="float32", driver={driver!r}))
before = peak()
observe_document(request)
print(json.dumps([peak() - before, estimate(request).total_bytes]))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    measured, estimated = json.loads(done.stdout)
    assert 0.5 < estimated / measured < 2.0


def test_what_fits_is_decided_by_both_budgets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is refused as a whole is sent to the blocks, where those fit."""
    monkeypatch.setattr(estimate, "available_memory", lambda: 4 * 2**20)
    given: list[Any] = ["observe", "--blocks", "1024"]
    outcome = run_cli(*given, "--driver", "graph")
    assert outcome.status == 2
    assert outcome.err.endswith("make the decoder smaller, or leave --driver graph out.\n")
    assert json.loads(run_cli(*given, "--json").out)["driver"] == "block"
