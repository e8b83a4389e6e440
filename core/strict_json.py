"""Strict JSON for untrusted files and uploads, and exact integers when writing.

Each of these raises `StorageError` with one sentence: too many bytes, invalid UTF-8, too deep nesting, a repeated key,
NaN and Infinity literals, numbers that overflow to infinity, integers of too many digits, unpaired surrogates, and
whatever is not JSON (RFC 8259). Size and nesting are checked before the parser builds anything.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections.abc import Sequence
from typing import NoReturn, TypeAlias

from .errors import StorageError, shown

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

MAX_BYTES = 2**20
MAX_DEPTH = 20
MAX_INTEGER_DIGITS = 100
# Binary64 holds every integer up to here, so every JSON reader does.
LARGEST_JSON_INTEGER = 2**53

# A string, closed or not, or one bracket. Possessive repeats keep hostile input linear.
_STRING_OR_BRACKET = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]', re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")


def json_integer(value: int) -> int | str:
    """Return `value` itself up to 2^53 in size, else its decimal text, since some JSON readers keep integers as
    binary64.
    """
    return value if abs(value) <= LARGEST_JSON_INTEGER else str(value)


def read_json(
    path: str | os.PathLike[str], *, name: str | None = None, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH
) -> JsonValue:
    """Return the value in a regular JSON file of at most `max_bytes` bytes and `max_depth` levels. Raises
    `StorageError`.

    `name` is what error messages call the file, by default its path. An upload is stored under a path unknown to its
    owner.
    """
    source = f"The file {shown(name or os.fspath(path))}"
    try:
        # A pipe or device could block at open, so the kind is asked first.
        regular = stat.S_ISREG(os.stat(path).st_mode)
        data = b""
        if regular:
            with open(path, "rb") as stream:
                data = stream.read(max_bytes + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise StorageError(f"{source} cannot be read: {reason}.") from error
    if not regular:
        raise StorageError(f"{source} is not a regular file; give the path of a JSON file.")
    return parse_json(data, source=source, max_bytes=max_bytes, max_depth=max_depth)


def parse_json(
    data: bytes, *, source: str = "The JSON text", max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH
) -> JsonValue:
    """Return the value of the UTF-8 JSON text `data`; a byte-order mark is skipped. Raises `StorageError`.

    `source` is the first words of every error message.
    """
    if len(data) > max_bytes:
        raise StorageError(f"{source} is larger than the {max_bytes:,} bytes allowed.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise StorageError(f"{source} is not UTF-8 at byte {error.start}; save it as UTF-8.") from error
    _check_depth(text, source, max_depth)
    reader = _Reader(source)
    try:
        value: JsonValue = json.loads(
            text,
            object_pairs_hook=reader.mapping,
            parse_constant=reader.constant,
            parse_float=reader.number,
            parse_int=reader.integer,
        )
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise StorageError(f"{source} is not JSON at {place}: {error.msg}.") from error
    if "\\u" in text and _SURROGATE.search(json.dumps(value, ensure_ascii=False)):
        raise StorageError(f"{source} holds half of a surrogate pair, which is no character; write the whole pair.")
    return value


class _Reader:
    """Hooks of the parser; each raises `StorageError` with the source in front."""

    def __init__(self, source: str) -> None:
        self._source = source

    def mapping(self, pairs: Sequence[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
        members: dict[str, JsonValue] = {}
        for key, value in pairs:
            if key in members:
                raise StorageError(f"{self._source} gives the key {shown(key)} twice in one object; keep one of them.")
            members[key] = value
        return members

    def constant(self, literal: str) -> NoReturn:
        raise StorageError(f"{self._source} holds the literal {literal}, which is not JSON; write a finite number.")

    def number(self, literal: str) -> float:
        value = float(literal)
        if not math.isfinite(value):
            raise StorageError(f"{self._source} holds the number {literal[:40]}, which is too large for binary64.")
        return value

    def integer(self, literal: str) -> int:
        if len(literal) > MAX_INTEGER_DIGITS:
            raise StorageError(
                f"{self._source} holds a whole number of {len(literal)} digits; at most {MAX_INTEGER_DIGITS} are read."
            )
        return int(literal)


def _check_depth(text: str, source: str, max_depth: int) -> None:
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        first = text[match.start()]
        if first in "[{":
            depth += 1
            if depth > max_depth:
                raise StorageError(f"{source} nests deeper than the {max_depth} levels allowed.")
        elif first in "]}":
            depth -= 1
