"""Build tables with given columns for files, and with readable titles for display."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd


@dataclass(frozen=True)
class Column:
    """A column of a table: its name in files, its title for display (empty if not displayed), its pandas type."""

    name: str
    title: str = ""
    dtype: str = ""


def names(columns: Sequence[Column]) -> tuple[str, ...]:
    """Return the names that columns have in files."""
    return tuple(column.name for column in columns)


def frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str | Column]) -> pd.DataFrame:
    """Return a table of exactly `columns`, in this order, with one row per dict in `rows`.

    Other keys of a row are ignored, and missing ones give missing values.
    """
    found = [column if isinstance(column, Column) else Column(column) for column in columns]
    table = pd.DataFrame({one.name: [row.get(one.name) for row in rows] for one in found}, columns=names(found))
    return table.astype({one.name: one.dtype for one in found if one.dtype})


def stacked(key: str, tables: Mapping[Any, Mapping[str, Sequence[Any]]]) -> pd.DataFrame:
    """Return tables, given as dicts of columns, below each other; the first column `key` has the name of each."""
    return pd.concat([pd.DataFrame({key: name, **columns}) for name, columns in tables.items()], ignore_index=True)


def for_people(table: pd.DataFrame, columns: Sequence[Column]) -> pd.DataFrame:
    """Return a table for display: the columns that have a title, under it, with True and False as yes and no."""
    view = titled(table, {column.name: column.title for column in columns if column.title})
    return view.assign(
        **{name: yes_or_no(view[name]) for name in map(str, view) if pd.api.types.is_bool_dtype(view[name])}
    )


def titled(table: pd.DataFrame, titles: Mapping[str, str]) -> pd.DataFrame:
    """Return the columns named in `titles`, in that order, under their titles there."""
    return table[list(titles)].rename(columns=dict(titles))


def yes_or_no(column: pd.Series[Any]) -> list[str]:
    """Return a column of True and False as a list of "yes" and "no"."""
    return ["yes" if cell else "no" for cell in column]
