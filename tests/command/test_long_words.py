"""What a sentence names may be of any length; the sentence stays one that can be read."""

from __future__ import annotations

import pytest

from core.cli import run
from core.errors import LONGEST_SENTENCE, LONGEST_WORD, DepthscopeError, StorageError, cropped, first_line, readable

LONG = "x" * 6000


@pytest.mark.parametrize(
    "words",
    [
        ("audit", LONG), ("audit", f"{LONG}:{LONG}"), ("audit", f"/tmp/{LONG}.json"),
        ("audit", "x.json", "--batch", LONG),
        ("audit", "x.json", "--rule", LONG), ("audit", "x.json", "--gate", LONG), ("audit", "x.json", LONG),
        (LONG,), ("observe", f"--{LONG}"), ("observe", "--restore", LONG), ("plan", "--config", LONG),
        ("compare", LONG, LONG), ("observe", "--batch", "a/" * 3000),
    ],
)  # fmt: skip
def test_no_argument_is_echoed_whole(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert len(err) < 600


def test_no_control_character_reaches_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["observe", "--", "a\x01\x1b[2Jb"]) == 2
    err = capsys.readouterr().err
    assert err.rstrip("\n").isprintable()
    assert "a\N{REPLACEMENT CHARACTER}" in err


def test_a_refusal_shortens_whatever_it_is_given() -> None:
    told_whole = f"{'a/' * 3000}b cannot be read: no such file."
    for sentence in (str(DepthscopeError(told_whole)), str(StorageError(told_whole)), readable(told_whole)):
        assert sentence.startswith("a/a/")
        assert sentence.endswith("/b cannot be read: no such file.")
        assert max(map(len, sentence.split())) <= LONGEST_WORD
    assert len(readable("ab " * 6000)) <= LONGEST_SENTENCE
    assert readable("A short one, /a/path.") == "A short one, /a/path."


def test_a_name_is_cropped_in_its_middle_and_printable() -> None:
    assert cropped("abc" * 50, 21) == "abcabcabc...abcabcabc"
    assert cropped("a\n\x1b[31mb\u202e") == "a [31mb"


def test_an_exception_whose_own_words_fail_is_told_by_its_type() -> None:
    class Loud(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    assert first_line(Loud()) == "Loud"
    assert first_line(ValueError("")) == "ValueError"
    assert first_line(KeyError("a")) == "KeyError: 'a'"
