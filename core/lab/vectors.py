"""Vectors and rows typed by a person: finite binary64 numbers, commas between numbers and semicolons between rows."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from numbers import Real

from ..errors import LabError, shown
from ..numerals import SPACES, finite_number

MAX_ROWS = 64
# Squares, their sums and their reciprocals must stay inside binary64, also after a factor.
LARGEST, SMALLEST = 1e100, 1e-100

Vector = tuple[float, ...]


def checked_vector(name: str, value: object, low: int, high: int) -> Vector:
    """`value`, or the numbers its text lists, as `low` to `high` finite floats; raises `LabError`."""
    cells: object = [cell.strip(SPACES) for cell in value.split(",")] if isinstance(value, str) else value
    if not isinstance(cells, Sequence) or isinstance(cells, str | bytes):
        raise LabError(f"{name} is {shown(value)}; give numbers separated by commas.")
    found = tuple(_finite(name, cell) for cell in cells)
    if not low <= len(found) <= high:
        raise LabError(f"{name} has {len(found)} numbers; give {low} to {high}.")
    return found


def checked_rows(name: str, value: object, low: int, high: int) -> tuple[Vector, ...]:
    """Rows of equal length, each a `checked_vector`; text separates rows by semicolons. Raises `LabError`."""
    parts: object = value.split(";") if isinstance(value, str) else value
    if not isinstance(parts, Sequence) or isinstance(parts, str | bytes) or not parts:
        raise LabError(f"{name} is {shown(value)}; give rows of numbers, separated by semicolons.")
    if len(parts) > MAX_ROWS:
        raise LabError(f"{name} has {len(parts)} rows; give at most {MAX_ROWS}.")
    found = tuple(checked_vector(f"row {index} of {name}", part, low, high) for index, part in enumerate(parts))
    for index, row in enumerate(found):
        if len(row) != len(found[0]):
            raise LabError(
                f"Row {index} of {name} has {len(row)} numbers and row 0 has {len(found[0])}; make all equal."
            )
    return found


def _finite(name: str, cell: object) -> float:
    found = math.nan
    if isinstance(cell, str):
        number = finite_number(cell)
        found = math.nan if number is None else number
    elif isinstance(cell, Real) and not isinstance(cell, bool):
        with contextlib.suppress(OverflowError):
            found = float(cell)
    if found != 0 and not SMALLEST <= abs(found) <= LARGEST:
        raise LabError(f"{name} holds {shown(cell)}; give 0 or numbers of size {SMALLEST:g} to {LARGEST:g}.")
    return found
