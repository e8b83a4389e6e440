"""How the tables of an experiment are shown, and how its sentences format numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..numerals import plural as plural  # sentences of experiments say counts by it

if TYPE_CHECKING:
    from .experiment import Result

DIGITS = "%.6g"
HUGE = 1e15


@dataclass(frozen=True, kw_only=True)
class TableView:
    """How a table is shown: one sentence on it, and the titles of the columns shown; the files have all columns.

    `shape`, if given, makes the shown table from the whole one.
    """

    alt: str
    titles: Mapping[str, str] = field(default_factory=dict)
    shape: Callable[[pd.DataFrame], pd.DataFrame] | None = None

    def of(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the table for display."""
        found = table if self.shape is None else self.shape(table)
        return readable(found[list(self.titles)].rename(columns=dict(self.titles)) if self.titles else found)


def rounded(value: Any, digits: int = 4) -> str:
    """Format a number of a summary for a sentence: `digits` significant digits, and a word if it is undefined."""
    return "undefined" if value is None or math.isnan(value) else f"{value:.{digits}g}"


def closeness(error: float) -> str:
    """Return, as text, how accurately an identity holds."""
    return f"to {error:.1e}" if error else "exactly"


def readable(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with numbers too large for a browser's table as text."""
    written = {
        name: [f"{value:.6g}" for value in table[name]]
        for name in table.columns
        if pd.api.types.is_float_dtype(table[name]) and table[name].abs().max() >= HUGE
    }
    return table.assign(**written) if written else table


def formats(table: pd.DataFrame) -> dict[str, str]:
    """Return formats with six significant digits for every column of floats."""
    return {str(name): DIGITS for name in table.columns if pd.api.types.is_float_dtype(table[name])}


def summary_table(result: Result) -> pd.DataFrame:
    """Return every number of a summary, one row each; an undefined one is missing."""
    numbers = _numbers(result)
    values = [float("nan") if value is None else float(value) for value in numbers.values()]
    return pd.DataFrame({"quantity": list(numbers), "value": values})


def summary_view(result: Result) -> pd.DataFrame:
    """Return the summary for display: text, integers in full, other numbers to six digits."""
    numbers = _numbers(result)
    texts = [f"{value:,}" if isinstance(value, int) else rounded(value, 6) for value in numbers.values()]
    return pd.DataFrame({"quantity": [name.replace("_", " ") for name in numbers], "value": texts})


def _numbers(result: Result) -> dict[str, Any]:
    return {name: value for name, value in result.summary.items() if not isinstance(value, bool | str)}
