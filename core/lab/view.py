"""Tables of an experiment as a page shows them, and the format of numbers in its sentences."""

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
    """How a table of an experiment is shown on a page; exported files have the whole table instead.

    `alt` is one sentence on the table. `titles` maps the columns to show to their titles; empty shows all. `shape`, if
    given, is a function that makes the shown table from the whole one, before `titles` is applied.
    """

    alt: str
    titles: Mapping[str, str] = field(default_factory=dict)
    shape: Callable[[pd.DataFrame], pd.DataFrame] | None = None

    def of(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the table for display: shaped, with the chosen columns and their titles."""
        found = table if self.shape is None else self.shape(table)
        return readable(found[list(self.titles)].rename(columns=dict(self.titles)) if self.titles else found)


def rounded(value: Any, digits: int = 4) -> str:
    """Return a number as text for a sentence: in `digits` significant digits, or "undefined" for None and NaN."""
    return "undefined" if value is None or math.isnan(value) else f"{value:.{digits}g}"


def closeness(error: float) -> str:
    """Return the error of an identity as text for a sentence: "to 1.2e-16", or "exactly" for 0."""
    return f"to {error:.1e}" if error else "exactly"


def readable(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with every float column that reaches 1e15 turned into text, which a browser's table can show."""
    written = {
        name: [f"{value:.6g}" for value in table[name]]
        for name in table.columns
        if pd.api.types.is_float_dtype(table[name]) and table[name].abs().max() >= HUGE
    }
    return table.assign(**written) if written else table


def formats(table: pd.DataFrame) -> dict[str, str]:
    """Return a dict from each column of floats to the format of six significant digits."""
    return {str(name): DIGITS for name in table.columns if pd.api.types.is_float_dtype(table[name])}


def summary_table(result: Result) -> pd.DataFrame:
    """Return the numbers of a result's summary as a table with columns `quantity` and `value`; NaN if undefined."""
    numbers = _numbers(result)
    values = [float("nan") if value is None else float(value) for value in numbers.values()]
    return pd.DataFrame({"quantity": list(numbers), "value": values})


def summary_view(result: Result) -> pd.DataFrame:
    """Return the numbers of a result's summary as a table of text: integers in full, others to six digits."""
    numbers = _numbers(result)
    texts = [f"{value:,}" if isinstance(value, int) else rounded(value, 6) for value in numbers.values()]
    return pd.DataFrame({"quantity": [name.replace("_", " ") for name in numbers], "value": texts})


def _numbers(result: Result) -> dict[str, Any]:
    return {name: value for name, value in result.summary.items() if not isinstance(value, bool | str)}
