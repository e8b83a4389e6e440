"""Strict JSON: what is read equals the standard parser's value, and each kind of hostile text gets one sentence."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import DepthscopeError, StorageError, shown
from core.strict_json import MAX_BYTES, json_integer, parse_json, read_json
from tests.support import no_runaway

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**90), 10**90)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('ab\\"[{', max_size=5), inner),
    max_leaves=20,
)


def nesting(value: object) -> int:
    """Containers around the deepest leaf, by recursion."""
    if isinstance(value, list):
        return 1 + max(map(nesting, value), default=0)
    if isinstance(value, dict):
        return 1 + max(map(nesting, value.values()), default=0)
    return 0


@given(value=VALUES, ascii_only=st.booleans())
@settings(deadline=None)
def test_reads_back_what_the_standard_writer_wrote(value: object, ascii_only: bool) -> None:
    data = json.dumps(value, ensure_ascii=ascii_only).encode()
    depth = nesting(value)
    assert parse_json(data, max_depth=depth) == value
    if depth:
        with pytest.raises(StorageError, match=f"deeper than the {depth - 1} levels"):
            parse_json(data, max_depth=depth - 1)


@given(data=st.binary(max_size=40) | st.text('[]{}":,\\u19eE+-.0natrufl \n', max_size=40).map(str.encode))
@settings(deadline=None, max_examples=500)
def test_any_bytes_are_a_value_or_one_sentence(data: bytes) -> None:
    try:
        value = parse_json(data)
    except StorageError as error:
        assert_one_sentence(error)
    else:
        assert value == json.loads(data)


REFUSALS = {
    "empty": (b"", "not JSON at line 1, column 1"),
    "trailing": (b"{} {}", "not JSON at line 1, column 4"),
    "comma": (b"[1,]", "not JSON"),
    "utf8": (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
    "utf16": ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
    "repeated": (b'{"a": 1, "b": {"c": 2, "c": 3}}', "key 'c' twice"),
    "repeated by escape": (b'{"a": 1, "\\u0061": 2}', "key 'a' twice"),
    "nan": (b"[NaN]", "literal NaN"),
    "infinity": (b'{"a": Infinity}', "literal Infinity"),
    "negative infinity": (b"-Infinity", "literal -Infinity"),
    "overflow": (b"[1e999]", "1e999, which is too large"),
    "long integer": (b"1" * 101, "whole number of 101 digits"),
    "longest integer": (b"9" * 100_000, "whole number of 100000 digits"),
    "surrogate": (b'["\\ud83d"]', "surrogate"),
    "surrogate key": (b'{"\\udc00": 1}', "surrogate"),
    "deep list": (b"[" * 21 + b"]" * 21, "deeper than the 20 levels"),
    "deep object": (b'{"a":' * 21 + b"1" + b"}" * 21, "deeper than the 20 levels"),
    "unclosed depth": (b"[" * 500_000, "deeper than the 20 levels"),
    "too large": (b" " * MAX_BYTES + b"1", "larger than the 1,048,576 bytes"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_each_refusal_is_one_typed_sentence(name: str) -> None:
    data, words = REFUSALS[name]
    with pytest.raises(StorageError) as caught:
        parse_json(data, source="The upload")
    assert words in str(caught.value)
    assert str(caught.value).startswith("The upload ")
    assert_one_sentence(caught.value)


def test_limits_are_inclusive() -> None:
    assert parse_json(b"[" * 20 + b"]" * 20) is not None
    assert parse_json(b" " * (MAX_BYTES - 1) + b"1") == 1
    assert parse_json(b"9" * 100) == 10**100 - 1
    assert parse_json(b"\xef\xbb\xbf[1]") == [1]
    assert parse_json(b'["\\ud83d\\ude00"]') == ["\N{GRINNING FACE}"]


@pytest.mark.parametrize(
    "data",
    [
        b'"' + b'\\"' * (MAX_BYTES // 2 - 1),
        b'"\\' * (MAX_BYTES // 2),
        b"[" * 20 + b'"",' * (MAX_BYTES // 4),
        b"0." + b"1" * (MAX_BYTES - 2),
        b"[" + b"0," * (MAX_BYTES // 2 - 1) + b"0]",
    ],
    ids=["escaped quotes", "backslashes", "strings", "digits", "numbers"],
)
def test_hostile_text_of_full_size_takes_linear_time(data: bytes) -> None:
    with no_runaway():
        try:
            parse_json(data)
        except StorageError as error:
            assert_one_sentence(error)


def test_files(tmp_path: Path) -> None:
    good = tmp_path / "good.json"
    good.write_bytes(b'{"a": [1, 2.5, null]}')
    assert read_json(good) == {"a": [1, 2.5, None]}
    assert read_json(str(good)) == {"a": [1, 2.5, None]}
    large = tmp_path / "large.json"
    with large.open("wb") as stream:
        stream.truncate(200_000_000)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    refused: list[tuple[str | Path, str]] = [
        (tmp_path / "missing.json", "No such file"),
        (tmp_path, "not a regular file"),
        (pipe, "not a regular file"),
        (large, "larger than"),
        ("nul\0byte", "cannot be read"),
        ("x" * 5000, "cannot be read"),
        ("two\nlines", "No such file"),
    ]
    for path, words in refused:
        with pytest.raises(StorageError) as caught:
            read_json(path)
        assert words in str(caught.value)
        assert_one_sentence(caught.value)


@given(value=st.integers())
def test_integers_stay_exact(value: int) -> None:
    written = json_integer(value)
    assert int(written) == value
    assert isinstance(written, int) == (abs(value) <= 2**53)


def test_shown_is_short_and_on_one_line() -> None:
    for value in ("a\nb" * 1000, 10**5000, [1] * 1000, {"a": 1}, None, True, 1.5, b"x" * 99):
        text = shown(value)
        assert len(text) <= 60
        assert "\n" not in text
    assert (shown(True), shown(None), shown(7)) == ("true", "null", "7")


def assert_one_sentence(error: DepthscopeError) -> None:
    """Ends in one period, stays on one line, and is no parser dump."""
    text = str(error)
    assert text.endswith(".")
    assert "\n" not in text
    assert len(text) < 300
