"""Build tables with exactly the named columns, for files, and with readable titles, for display."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd


@dataclass(frozen=True)
class Column:
    """A column of a table: its name in files, its title for display (None if it is not displayed), its pandas type."""

    name: str
    title: str = ""
    dtype: str = ""


def names(columns: Sequence[Column]) -> tuple[str, ...]:
    """Return the column names used in files."""
    return tuple(column.name for column in columns)


def frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str | Column]) -> pd.DataFrame:
    """Return a table of exactly `columns`, in order.

    Other keys of a row are left out, absent ones are missing values.
    """
    found = [column if isinstance(column, Column) else Column(column) for column in columns]
    table = pd.DataFrame({one.name: [row.get(one.name) for row in rows] for one in found}, columns=names(found))
    return table.astype({one.name: one.dtype for one in found if one.dtype})


def stacked(key: str, tables: Mapping[Any, Mapping[str, Sequence[Any]]]) -> pd.DataFrame:
    """Concatenate tables given by columns; the first column `key` holds each table's name."""
    return pd.concat([pd.DataFrame({key: name, **columns}) for name, columns in tables.items()], ignore_index=True)


def for_people(table: pd.DataFrame, columns: Sequence[Column]) -> pd.DataFrame:
    """Return the table for display: the columns that have a title, under that title; truth values are yes and no."""
    view = titled(table, {column.name: column.title for column in columns if column.title})
    return view.assign(
        **{name: yes_or_no(view[name]) for name in map(str, view) if pd.api.types.is_bool_dtype(view[name])}
    )


def titled(table: pd.DataFrame, titles: Mapping[str, str]) -> pd.DataFrame:
    """Return the columns that have a title, under that title and in the order of `titles`."""
    return table[list(titles)].rename(columns=dict(titles))


def yes_or_no(column: pd.Series[Any]) -> list[str]:
    """Return truth values as `yes` and `no`."""
    return ["yes" if cell else "no" for cell in column]
