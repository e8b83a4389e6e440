"""The limits of an audit's process are options like others: refused at once, with the range, whoever gives them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from core.audit.intake.target import family_task
from core.audit.request import AuditRequest
from core.audit.sandbox.confine import DEFAULT_MEMORY, LARGEST_MEMORY, LARGEST_SECONDS, check_limits, child_environment
from core.audit.sandbox.isolation import Child
from core.audit.survey import survey
from core.cli import run
from core.errors import AuditError

BAD = [("max_memory", value) for value in (0, -5, LARGEST_MEMORY + 1, 10**21)]
BAD += [("max_seconds", value) for value in (0, -5, LARGEST_SECONDS + 1, 99999999999, 10**21)]


@pytest.fixture
def no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*words: Any, **options: Any) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", started)


@pytest.mark.parametrize(("name", "value"), BAD)
@pytest.mark.parametrize("words", [("audit", "config.json"), ("audit", "os:abort"), ("survey", "--out", "x")])
def test_a_limit_that_nothing_can_be_held_to_is_refused_before_anything(
    words: tuple[str, ...], name: str, value: int, no_child: None, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    assert run([*words, f"--{name.replace('_', '-')}", str(value)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    if words[0] == "audit" and name == "max_memory" and value <= 0:
        assert f"--max-memory is '{value}'; it must be a number of bytes" in err
    else:
        assert f"{name} is" in err
        assert "must lie between 1 and" in err
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(("name", "value"), [*BAD, ("max_seconds", 1.5), ("max_seconds", True), ("max_memory", "1")])
def test_the_request_the_child_and_the_survey_refuse_it_too(name: str, value: Any, no_child: None) -> None:
    limits = {"memory": DEFAULT_MEMORY, "seconds": 5, name.removeprefix("max_"): value}
    for refused in (
        AuditRequest(**{name: value}).check,
        lambda: check_limits(**limits),
        lambda: Child(family_task("gpt2", 2, 32), **limits),
        lambda: next(survey(["gpt2"], **limits)),
    ):
        with pytest.raises(AuditError, match=rf"{name} .* must lie between 1 and"):
            refused()


def test_the_limits_themselves_are_taken() -> None:
    for memory in (1, LARGEST_MEMORY, None):
        for seconds in (1, LARGEST_SECONDS):
            check_limits(memory, seconds)
    AuditRequest(max_memory=1, max_seconds=LARGEST_SECONDS).check()


def test_a_child_may_keep_what_it_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the library's compiled modules each audit would compile it again, which takes longer than the audit."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    assert "PYTHONDONTWRITEBYTECODE" not in child_environment(1)
