"""`lab` on the command line: the documents of the core, the list, files, and refusals in one sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from core.lab.experiments import EXPERIMENTS, experiment
from tests.support import run_cli


def test_the_list() -> None:
    plain = run_cli("lab", "--list")
    assert plain.status == 0
    assert [line.split()[0] for line in plain.out.splitlines()] == list(EXPERIMENTS)
    document = run_cli("lab", "--list", "--json").document()
    assert [row["name"] for row in document["experiments"]] == list(EXPERIMENTS)
    assert document["schema"] == "depthscope.lab/1"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_command_prints_the_cores_document(name: str) -> None:
    outcome = run_cli("lab", name, "--json")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.document() == experiment(name).document()


def test_json_is_printed_wherever_it_is_asked_for() -> None:
    assert run_cli("lab", "--json", "soft-cap").document() == experiment("soft-cap").document()


def test_the_list_runs_no_experiment() -> None:
    outcome = run_cli("lab", "--list", "chain", "--json")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err == "--list lists every experiment and runs none; leave chain or --list out.\n"


def test_options_arrive_as_typed() -> None:
    outcome = run_cli("lab", "norm-steps", "--x", "-1,2.5,3;0,1,2", "--norm", "rmsnorm", "--epsilon", "0", "--json")
    options = experiment("norm-steps").options(
        {"x": ((-1.0, 2.5, 3.0), (0.0, 1.0, 2.0)), "norm": "rmsnorm", "epsilon": 0.0}
    )
    assert outcome.document() == experiment("norm-steps").document(options)
    scaled = run_cli("lab", "stream-growth", "--scaled", "--blocks", 4, "--seed", 2**64 - 1, "--json").document()
    assert scaled["options"]["scaled"] is True
    assert scaled["options"]["seed"] == str(2**64 - 1)


def test_a_preset_is_a_start() -> None:
    saturated = run_cli("lab", "sigmoid-unit", "--preset", "saturated", "--json").document()
    assert saturated["summary"]["logit"] == 8.5
    changed = run_cli("lab", "sigmoid-unit", "--preset", "saturated", "--bias", "0", "--json").document()
    assert changed["summary"]["logit"] == 9.0


def test_the_readable_form() -> None:
    outcome = run_cli("lab", "relu-chain")
    assert outcome.status == 0
    assert "output_rms[1/d]          3.55616e-08" in outcome.out
    assert "more rows; --json has them all" in outcome.out


def test_tables_as_files(tmp_path: Path) -> None:
    outcome = run_cli("lab", "norm-jacobian", "--csv", tmp_path / "out", "--json")
    assert outcome.status == 0
    tables = experiment("norm-jacobian").run().tables
    assert {path.stem for path in (tmp_path / "out").iterdir()} == set(tables)
    read = pd.read_csv(tmp_path / "out" / "jacobian.csv", float_precision="round_trip")
    pd.testing.assert_frame_equal(read, tables["jacobian"])
    assert run_cli("lab", "norm-jacobian", "--html", tmp_path / "page.html").status == 0
    page = (tmp_path / "page.html").read_text()
    assert "Content-Security-Policy" in page
    assert all(f"<h2>{name}</h2>" in page for name in tables)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["lab"], "Name an experiment"),
        (["lab", "nothing"], "The experiment 'nothing' is unknown"),
        (["lab", "chain", "--layers", "1e3"], "layers is '1e3'"),
        (["lab", "chain", "--colour", "red"], "No such option"),
        (["lab", "chain", "--preset", "none"], "The preset 'none' of chain"),
        (["lab", "norm-steps", "--x", "1;2,3"], "Row 1 of x"),
        (["lab", "norm-jacobian", "--x", "5,5,5,5"], "divides 0 by 0"),
        (["lab", "decoder-variance", "--width", "7"], "odd"),
        (["lab", "compounding", "--csv", "/dev/null/x"], "cannot be written"),
    ],
)
def test_refusals_are_one_sentence(arguments: list[str], text: str) -> None:
    outcome = run_cli(*arguments)
    assert (outcome.status, outcome.out) == (2, "")
    assert text in outcome.err
    assert outcome.err.count("\n") == 1
    assert "Traceback" not in outcome.err


def test_a_refusal_needs_no_torch() -> None:
    program = (
        "import sys; from core.cli import run; "
        "assert run(['lab', 'decoder-variance', '--heads', '3']) == 2; assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert json.dumps(done.stderr).count("\\n") == 1
