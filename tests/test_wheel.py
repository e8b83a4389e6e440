"""The wheel: installed, the library and the command line are `depthscope`, beside a user's own package `core`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the unpacked wheel and, where a program starts, a package `core` that must not be imported."""
    folder = tmp_path_factory.mktemp("installed")
    built = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(built, check=True, capture_output=True)
    with zipfile.ZipFile(next(folder.glob("depthscope-*.whl"))) as wheel:
        wheel.extractall(folder / "site")
    (folder / "own" / "core").mkdir(parents=True)
    (folder / "own" / "core" / "__init__.py").write_text("raise RuntimeError('not this one')\n")
    return folder


def program(installed: Path, *words: str) -> str:
    """What a program prints that has the wheel on its path and nothing of this checkout."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=installed / "own",
        env={**os.environ, "PYTHONPATH": str(installed / "site")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_holds_the_library_and_no_dashboard(installed: Path) -> None:
    assert {path.name for path in (installed / "site").iterdir() if path.suffix != ".dist-info"} == {"depthscope"}
    entries = next((installed / "site").glob("*.dist-info")) / "entry_points.txt"
    assert "depthscope = depthscope.cli:main" in entries.read_text()


def test_observe_says_what_the_checkout_says(installed: Path) -> None:
    told = program(installed, "-m", "depthscope", "observe", "--blocks", "3", "--json")
    here = subprocess.run(
        [sys.executable, "-m", "core", "observe", "--blocks", "3", "--json"], cwd=ROOT, capture_output=True, check=True
    )
    assert json.loads(told) == json.loads(here.stdout)


def test_a_sweep_spawns_its_workers_from_the_package(installed: Path) -> None:
    grid = ["--blocks", "1,2,64", "--seeds", "0:64", "--workers"]
    for workers in ("1", "2"):
        program(installed, "-m", "depthscope", "sweep", *grid, workers, "--store", f"s{workers}", "--out", workers)
    tables = [(installed / "own" / workers / "sweep.csv").read_bytes() for workers in ("1", "2")]
    assert tables[0] == tables[1]


def test_an_audit_runs_in_a_child_of_the_package(installed: Path) -> None:
    config = {"model_type": "gpt2", "n_layer": 2, "n_embd": 32, "n_head": 2, "vocab_size": 100, "n_positions": 32}
    (installed / "own" / "config.json").write_text(json.dumps(config))
    found = json.loads(program(installed, "-m", "depthscope", "audit", "config.json", "--json"))
    assert found["identity"]["verdict"] == "proved"


def test_the_library_and_the_help_have_its_name(installed: Path) -> None:
    code = "from depthscope.health import observe_module; print(observe_module.__module__)"
    assert program(installed, "-c", code).strip() == "depthscope.audit.run"
    told = program(installed, "-m", "depthscope", "observe", "--help")
    assert "depthscope observe --blocks" in told
    assert "python -m" not in told
