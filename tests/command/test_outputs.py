"""Outputs of every verb: refused before any work, written after the document is printed, all of them or none."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from core.cli import run
from core.errors import StorageError
from core.export.csv import csv_text, write_tables
from core.files import is_room
from core.health.report import observe_document
from core.health.request import ObserveRequest
from core.tables.audit import AUDIT_COLUMNS, audit_tables
from core.tables.observe import OBSERVE_COLUMNS, observe_tables
from tests.command.test_observe import SMALL
from tests.support import run_cli

ROOT = Path(__file__).parents[2]
GPT2 = ("audit", "tests.audit.drawn:gpt2_model", "--rule", "gpt2")
# Deep enough that nobody would wait for it: a refusal that came after the work would run into the timeout.
LONG = ("observe", "--blocks", "4096", "--width", "64", "--heads", "4", "--ff-width", "64")
LAB = ("lab", "norm-jacobian")
FILES = [
    (LONG, "--html"),
    (GPT2, "--html"),
    (GPT2, "--junit"),
    (GPT2, "--sarif"),
    (GPT2, "--golden"),
    (LAB, "--html"),
]
FOLDERS = [(LONG, "--save"), (LONG, "--csv"), (GPT2, "--csv"), (LAB, "--csv")]


def refused_together(commands: list[list[str]]) -> list[dict[str, Any]]:
    """What several commands left, run in one process that then says whether it imported torch."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.command.refusal_driver"],
        input=json.dumps(commands),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    outcomes: list[dict[str, Any]] = json.loads(done.stdout)
    for outcome in outcomes:
        assert (outcome["status"], outcome["out"]) == (2, "")
        assert outcome["err"].count("\n") == 1
        assert "torch" not in outcome["imported"]
    return outcomes


def test_every_output_is_refused_before_any_work(tmp_path: Path) -> None:
    """A pipe, a device, a path with nothing above it, a name that is too long: for every option of every verb."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("mine")
    bad = {
        "--html": [str(tmp_path / "pipe"), str(tmp_path), "/dev/null", "-", str(tmp_path / "none" / "a"), "n" * 300],
        "--csv": [str(tmp_path / "pipe"), str(tmp_path / "file"), "/dev/null/a", str(tmp_path / "new" / ("n" * 300))],
    }
    commands = [[*verb, option, path] for verb, option in FILES for path in bad["--html"]]
    commands += [[*verb, option, path] for verb, option in FOLDERS for path in bad["--csv"]]
    before = sorted(os.listdir(tmp_path))
    for command, outcome in zip(commands, refused_together(commands), strict=True):
        assert "cannot be written" in outcome["err"], command
        assert command[-2] in outcome["err"]
    assert sorted(os.listdir(tmp_path)) == before
    assert (tmp_path / "file").read_text() == "mine"


def test_what_a_verb_would_not_replace_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "sites.csv").write_text("day,site\n1,Leeds\n")
    (tmp_path / "golden.json").write_text("{}")
    refusals = refused_together(
        [
            [*LONG, "--csv", str(tmp_path)],
            [*GPT2, "--csv", str(tmp_path)],
            [*LONG, "--save", str(tmp_path)],
            [*GPT2, "--golden", str(tmp_path / "golden.json")],
        ]
    )
    words = ["it holds a sites.csv of other columns"] * 2 + ["save into an empty folder", "is no golden file"]
    assert [word in refusal["err"] for word, refusal in zip(words, refusals, strict=True)] == [True] * 4
    assert "--csv folder" in refusals[0]["err"]
    assert (tmp_path / "sites.csv").read_text() == "day,site\n1,Leeds\n"


@pytest.mark.parametrize("kind", ["pipe", "manifest", "table"])
def test_a_survey_is_refused_before_the_first_family(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("a family was built")

    monkeypatch.setattr("core.command.survey.survey", never)
    out = tmp_path / "out"
    if kind == "pipe":
        os.mkfifo(out)
    else:
        out.mkdir()
        (out / {"manifest": "manifest.json", "table": "survey.csv"}[kind]).write_text("{}\n")
    outcome = run_cli("survey", "--families", "gpt2", "--out", out)
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert "--out folder" in outcome.err
    assert "internal error" not in outcome.err


def test_a_store_that_is_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    outcome = run_cli("sweep", "--blocks", "1", "--seeds", "0:2", "--store", tmp_path / "pipe", "--out", tmp_path / "o")
    assert (outcome.status, outcome.err) == (
        2,
        f"The --store file '{tmp_path}/pipe' cannot be written: it is a pipe; give another path.\n",
    )
    assert not (tmp_path / "o").exists()


class TestTables:
    """A folder of tables: all of them or none, and nobody's own file."""

    @pytest.fixture
    def tables(self) -> dict[str, Any]:
        return observe_tables(observe_document(ObserveRequest()))

    def test_the_columns_known_before_are_those_written(self, tables: dict[str, Any]) -> None:
        assert {name: tuple(table.columns) for name, table in tables.items()} == OBSERVE_COLUMNS
        audit = run_cli(*GPT2, "--json").document()
        assert {name: tuple(table.columns) for name, table in audit_tables(audit).items()} == AUDIT_COLUMNS

    def test_again_into_the_same_folder(self, tables: dict[str, Any], tmp_path: Path) -> None:
        """A table of the same columns is replaced, also an empty or a torn one; other files are left alone."""
        write_tables(tmp_path, tables)
        for name, kept in (("sites", 200), ("gains", 0)):
            path = tmp_path / f"{name}.csv"
            path.write_bytes(path.read_bytes()[:kept])
        (tmp_path / "notes.csv").write_text("mine")
        write_tables(tmp_path, tables)
        assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {
            "notes.csv": "mine",
            **{f"{name}.csv": csv_text(table) for name, table in tables.items()},
        }

    @pytest.mark.parametrize("line", ["day,site", "arm,recipe", "\ufeffarm", '"unclosed', "x" * 100_000, "\x00"])
    def test_a_file_of_somebodys_own_stops_all_of_them(self, tables: dict[str, Any], tmp_path: Path, line: str) -> None:
        (tmp_path / "sites.csv").write_text(line + "\n")
        with pytest.raises(StorageError, match=r"sites\.csv .*give another folder\.$"):
            write_tables(tmp_path, tables)
        assert os.listdir(tmp_path) == ["sites.csv"]
        assert (tmp_path / "sites.csv").read_text() == line + "\n"

    def test_a_lab_prints_before_it_finds_somebodys_own_table(self, tmp_path: Path) -> None:
        (tmp_path / "jacobian.csv").write_text("mine\n")
        outcome = run_cli(*LAB, "--csv", tmp_path, "--json")
        assert outcome.status == 2
        assert outcome.document() == run_cli(*LAB, "--json").document()
        assert "jacobian.csv of other columns" in outcome.err
        assert os.listdir(tmp_path) == ["jacobian.csv"]


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize("gate", [True, False])
@pytest.mark.parametrize("option", ["--save", "--csv", "--html"])
def test_the_document_is_printed_where_an_export_fails(
    option: str, gate: bool, as_json: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fills up after the check: exit 2 with the sentence, also where the gate would say 1."""
    limits = ["--band", "0.9,1.1"] if gate else []
    given = ["observe", *SMALL, *limits, *(["--json"] if as_json else [])]
    usual = run_cli(*given)
    real = os.fsync

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    outcome = run_cli(*given, option, tmp_path / "out", *(["--gate"] if gate else []))
    monkeypatch.setattr(os, "fsync", real)
    assert outcome.status == 2
    assert outcome.err.count("\n") == 1
    assert "No space left on device" in outcome.err
    assert outcome.out == usual.out
    assert [path.name for path in tmp_path.rglob("*") if path.is_file() or is_room(path.name)] == []


def test_weights_and_record_have_the_same_permissions(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        assert run(["observe", *map(str, SMALL), "--save", str(tmp_path / "run"), "--json"]) == 0
    finally:
        os.umask(before)
    assert {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "run").iterdir()} == dict.fromkeys(
        ("record.json", "initialized.safetensors", "control.safetensors"), 0o640
    )


def test_an_output_that_ends_early_costs_no_export(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "core", *LAB, "--csv", tmp_path / "out"],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (2, "The output cannot be written: No space left on device.\n")
    assert (tmp_path / "out" / "jacobian.csv").stat().st_size > 0


INTERRUPT = """
import os, signal, sys
import core.sweep.run, core.health.report
from core.cli import main
def interrupt(*_, **__): os.kill(os.getpid(), signal.SIGINT)
core.sweep.run.SweepRun.step = core.health.report.observe_document = interrupt
main(sys.argv[1:])
"""


@pytest.mark.parametrize("verb", ["observe", "sweep"])
def test_an_interrupt_says_what_is_kept_only_where_something_is(tmp_path: Path, verb: str) -> None:
    sweep = ("--seeds", "0:2", "--workers", "1", "--store", tmp_path / "cells", "--out", tmp_path / "out")
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPT, verb, "--blocks", "1", *(sweep if verb == "sweep" else ())],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (128 + signal.SIGINT, "")
    kept = f"Interrupted; finished cells are kept in {tmp_path}/cells, and the same command goes on from there."
    assert done.stderr.splitlines()[-1] == (kept if verb == "sweep" else "Interrupted.")
