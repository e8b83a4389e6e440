"""A user's code that is no builder of a model, or misbehaves: one sentence each, and the audit ends."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path

import pytest

from core.audit.intake.target import callable_task
from core.audit.request import STAGES, AuditRequest
from core.audit.sandbox.isolation import run_isolated
from core.cli import run
from tests.benchmarks.hostile_code import OWN

MODULE = "users_hostile_code"


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / f"{MODULE}.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])


def audited(name: str, *words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run(["audit", name if ":" in name else f"{MODULE}:{name}", "--json", *words])
    return status, out.getvalue(), err.getvalue()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("builtins:breakpoint", "opens a debugger, which has no terminal"),
        ("pdb:set_trace", "opens a debugger, which has no terminal"),
        ("os:abort", "ended its process (SIGABRT)"),
        ("kills", "ended its process (SIGKILL)"),
        ("forward_exits", "ended its process (status 0)"),
        ("sys:exit", "cannot be called: SystemExit"),
        ("interrupts", "ended the audit (KeyboardInterrupt)"),
        ("forward_interrupts", "ended the audit (KeyboardInterrupt)"),
        ("builtins:input", "EOFError"),
        ("os:fork", "returned a int"),
        ("builtins:dict", "returned a dict"),
        ("parameters_raise", "fails outside the model's forward (TypeError"),
        ("recursion", "RecursionError: xxx"),
        ("no_words", "cannot be called: Loud"),
        ("closes", "ended its process"),
    ],
)
def test_what_gives_no_model_is_one_sentence(name: str, words: str) -> None:
    status, out, err = audited(name)
    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert words in err
    assert "internal error" not in err
    assert len(err) < 400


@pytest.mark.parametrize("name", ["never", "signal:pause", "forward_hangs", "stops"])
def test_what_never_returns_is_ended(name: str) -> None:
    status, out, err = audited(name, "--max-seconds", "4")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "within 4 seconds; let it end, or raise --max-seconds" in err


@pytest.mark.parametrize("name", ["prints", "forks", "forks_on", "thread"])
def test_what_gives_a_model_is_audited_whatever_else_it_does(name: str) -> None:
    status, out, err = audited(name, "--max-seconds", "60")
    assert status == 0, err
    assert json.loads(out)["identity"]["verdict"] == "proved"
    assert ("{}{}{}" in err) == (name == "prints")


def test_memory_is_bounded_where_it_is_asked_for() -> None:
    status, _, err = audited("good", "--max-memory", "1000")
    assert status == 2
    assert "MiB it is allowed" in err


def test_its_stages_are_told_but_not_the_loading_of_a_library() -> None:
    told: list[int] = []
    task = AuditRequest().task(callable_task(f"{MODULE}:good"))
    run_isolated(task, memory=None, seconds=60, told=lambda what, done, total: told.append(done))
    assert told == list(range(2, len(STAGES) + 1))
