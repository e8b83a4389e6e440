"""A sample of hostile calls of every verb keeps the command line's promises; the command runs thousands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.hostile import broken, state_of
from tests.benchmarks.hostile_calls import VERB_SHARES
from tests.benchmarks.hostile_forks import Call, Outcome

ROOT = Path(__file__).parents[2]
# A survey imports the library of all its families.
VERBS = [verb for verb in VERB_SHARES if verb and verb != "survey"]
SENTENCE = "The seed -1 is outside 0 to 2^64 - 1.\n"


def test_a_sample_keeps_every_promise() -> None:
    words = ["-m", "tests.benchmarks.hostile", "--calls", "150", "--seed", "26", "--verbs", *VERBS]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.startswith("150 calls, 0 broke a promise;")


@pytest.mark.parametrize(
    ("arguments", "status", "out", "err", "promise"),
    [
        (["init"], 1, "", "Traceback (most recent call last):\n", "a traceback"),
        (["init"], 1, "", "", "exit status 1 without a gate"),
        (["init"], 0, "", "x.py:1: RuntimeWarning: overflow\n", "words on standard error of a call that was done"),
        (["init"], 2, "", "An internal error, KeyError in x.py, line 1, stopped this run.\n", "an internal error"),
        (["init"], 2, "", "", "0 sentences on standard error"),
        (["init"], 2, "", SENTENCE + SENTENCE, "2 sentences on standard error"),
        (["init"], 2, "", "No way out\n", "a sentence without an end"),
        (["init"], 2, "", "x" * 700 + ".\n", "a sentence longer than a person reads"),
        (["init"], 2, "", "The name \x1b[31m is unknown.\n", "a control character in a sentence"),
        (["init"], 2, "{}", SENTENCE, "standard output of a refused call"),
        (["init"], -11, "", "", "exit status -11"),
        (["init"], None, "", "", "exit status None"),
        (["init", "--json"], 0, '{"a": NaN}', "", "no strict JSON on standard output (literal NaN)"),
        (["init", "--json"], 0, '{"a": 1, "a": 1}', "", "no strict JSON on standard output (a repeated key)"),
    ],
)
def test_every_broken_promise_is_told(
    arguments: list[str], status: int | None, out: str, err: str, promise: str
) -> None:
    assert promise in broken(Call(arguments), Outcome(status, out.encode(), err, 0.0), {}, {})


def test_a_call_that_keeps_its_promises_is_let_pass() -> None:
    progress = "8 of 8 cells to compute, 0 finished; about 0 s on one core and 0 MiB\n"
    refused = Outcome(2, b"", progress + SENTENCE, 0.0)
    store = {"work/cells.sqlite": "new"}
    assert broken(Call(["sweep", "--store", "cells.sqlite"]), refused, {}, store) == []
    assert broken(Call(["compare", "a", "b", "--json"]), Outcome(1, b'{"a": 1}', "", 0.0), {}, {}) == []


def test_what_is_left_behind_is_told(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    before = state_of(tmp_path)
    (tmp_path / "new.partial").write_text("half")
    after, refused, done = state_of(tmp_path), Outcome(2, b"", SENTENCE, 0.0), Outcome(0, b"", "", 0.0)
    assert before == {"loop": "link to loop"}
    assert broken(Call(["init", "--csv", "o"]), refused, before, after) == ["left or changed new.partial"]
    assert broken(Call(["init"]), done, before, after) == ["left or changed new.partial"]
    assert broken(Call(["init", "--csv", "o"]), done, before, after) == ["forgot new.partial"]
