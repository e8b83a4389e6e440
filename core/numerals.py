"""Numbers written as text, parsed in the same way in every option, list, file and page.

A number is decimal ASCII digits with an optional minus sign; numbers that are not integers may have a point and an
exponent. ASCII spaces around them are ignored. What else Python's `int` and `float` accept (underscores, other digits,
`nan`, `inf`) is not a number here.
"""

from __future__ import annotations

import math
import re
from numbers import Integral

from .errors import ConfigError, shown

# Enough for every integer here; far below what Python refuses to convert.
MAX_DIGITS = 40
SPACES = " \t\r\n"
_NUMBER = re.compile(r"-?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
MAX_CHARACTERS = 1000
LARGEST_SEED = 2**64 - 1


def whole_number(text: str) -> int | None:
    """Return the integer written in `text`, or None if `text` is not an integer of at most `MAX_DIGITS` digits."""
    word = text.strip(SPACES)
    digits = word.removeprefix("-")
    return int(word) if digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS else None


def finite_number(text: str) -> float | None:
    """Return the binary64 number written in `text`, or None if `text` is not a number or the number overflows."""
    word = text.strip(SPACES)
    if len(word) > MAX_CHARACTERS or _NUMBER.fullmatch(word) is None:
        return None
    value = float(word)
    return value if math.isfinite(value) else None


def checked_seed(seed: object) -> int:
    """Return `seed`, an integer or decimal text, as an integer from 0 to 2^64 - 1. Raises `ConfigError` for anything
    else.
    """
    if isinstance(seed, str):
        number = whole_number(seed)
        seed = seed if number is None else number
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise ConfigError(f"The seed {shown(seed)} is not a whole number; give one from 0 to 2^64 - 1.")
    if not 0 <= int(seed) <= LARGEST_SEED:
        raise ConfigError(f"The seed {shown(seed)} is outside 0 to 2^64 - 1.")
    return int(seed)


def exact_text(value: float) -> str:
    """Return a float as text: in six significant digits if these are exact, else the shortest text that gives `value`
    back.
    """
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def finite(value: float | None) -> float | None:
    """Return `value` if it is finite, else None, since JSON has no NaN and no infinity."""
    return value if value is not None and math.isfinite(value) else None


def plural(count: int, thing: str) -> str:
    """Return a count with its noun, `1 draw` or `3 draws`."""
    return f"{count} {thing}{'' if count == 1 else 's'}"
