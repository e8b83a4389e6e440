"""The group: verbs, help, exit statuses, and outputs that end early."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from core import cli
from core.cli import VERBS, run
from tests.support import run_cli

ROOT = Path(__file__).parents[2]


def process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """`python -m core` in a separate process."""
    return subprocess.run(
        [sys.executable, "-m", "core", *arguments], cwd=ROOT, text=True, check=False, timeout=120, **options
    )


def existing_verbs() -> list[str]:
    return [verb for verb in VERBS if (ROOT / "core" / "command" / f"{verb}.py").exists()]


def test_help_lists_every_verb_that_exists() -> None:
    for arguments in ([], ["-h"], ["--help"]):
        outcome = run_cli(*arguments)
        assert (outcome.status, outcome.err) == (0, "")
        listed = [line.split()[0] for line in outcome.out.split("Verbs:")[1].splitlines() if line.strip()]
        assert [verb for verb in listed if verb in VERBS] == existing_verbs()
    assert {"observe", "trace", "init", "plan", "compare"} <= set(existing_verbs())


@pytest.mark.parametrize("verb", existing_verbs())
def test_every_verb_has_help_of_its_own(verb: str) -> None:
    outcome = run_cli(verb, "--help")
    assert (outcome.status, outcome.err) == (0, "")
    assert f"python -m core {verb}" in outcome.out


def test_every_verb_module_is_listed() -> None:
    modules = {path.stem for path in (ROOT / "core" / "command").glob("*.py")}
    with_command = {name for name in modules if "\ncommand = " in source(name) or "\ndef command(" in source(name)}
    assert with_command == set(existing_verbs())


def source(name: str) -> str:
    return (ROOT / "core" / "command" / f"{name}.py").read_text()


def test_version() -> None:
    assert run_cli("--version").out.startswith("depthscope, version ")


class TestExitStatus:
    """From the shell, with a real process."""

    def test_done(self) -> None:
        done = process("observe", "--blocks", "1", "--json", capture_output=True)
        assert (done.returncode, done.stderr) == (0, "")

    def test_gate(self) -> None:
        failed = process("observe", "--gate", "--band", "0.5,2", capture_output=True)
        assert failed.returncode == 1
        assert failed.stderr.startswith("The gate fails.\nThe depth-scaled arm leaves the band [0.5, 2]")

    def test_refused(self) -> None:
        refused = process("observe", "--blocks", "0", capture_output=True)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr == "blocks is 0; it must lie between 1 and 2^53.\n"

    def test_a_reader_that_leaves_early(self) -> None:
        """`| head -c 1` of more than a pipe holds: no message, no traceback."""
        verb = "init --fan-in 200 --fan-out 200 --weights --json"
        command = f"{sys.executable} -m core {verb} | head -c 1; echo ${{PIPESTATUS[0]}}"
        found = subprocess.run(
            ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
        )
        assert found.stdout.replace("\n", "") == "{0"
        assert found.stderr == ""

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
    def test_an_output_that_is_full(self) -> None:
        with open("/dev/full", "w") as full:
            found = process("plan", "--json", stdout=full, stderr=subprocess.PIPE)
        assert found.returncode == 2
        assert found.stderr == "The output cannot be written: No space left on device.\n"


class TestWhatCanGoWrong:
    """Every way out is a status and at most one sentence."""

    @pytest.mark.parametrize(
        ("error", "status", "sentence"),
        [
            (KeyboardInterrupt(), 130, "Interrupted.\n"),
            (click.Abort(), 130, "Interrupted.\n"),
            (MemoryError(), 2, "This machine's memory does not hold that"),
            (
                RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
                2,
                "memory does not",
            ),
            (KeyError("x"), 2, "An internal error, KeyError in test_cli.py, line "),
            (click.UsageError("two\nlines"), 2, "two lines."),
            (click.exceptions.Exit(3), 3, ""),
        ],
    )
    def test_errors(self, error: BaseException, status: int, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(*_: Any, **__: Any) -> None:
            raise error

        monkeypatch.setattr(cli.cli, "main", broken)
        outcome = run_cli("observe")
        assert outcome.status == status
        assert sentence in outcome.err
        assert outcome.err.count("\n") == (1 if sentence else 0)
        assert "Traceback" not in outcome.err

    def test_the_exit_status_is_the_processes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cli, "run", lambda _: 1)
        with pytest.raises(SystemExit) as stop:
            cli.main(["observe"])
        assert stop.value.code == 1


def test_a_small_run_keeps_one_thread_and_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line alone sets torch's threads; it leaves the environment as it was."""
    import torch

    before = dict(os.environ)
    threads: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    assert run(["observe", "--blocks", "1", "--json"]) == 0
    assert run(["trace", "--json"]) == 0
    assert threads == [1, 1]
    assert dict(os.environ) == before
