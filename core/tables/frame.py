"""Tables of exactly the columns that are named, for files and, under titles, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd


@dataclass(frozen=True)
class Column:
    """A column of a table: its name in files, its title for people (none where they do not see it), its pandas type."""

    name: str
    title: str = ""
    dtype: str = ""


def names(columns: Sequence[Column]) -> tuple[str, ...]:
    """The columns as files name them."""
    return tuple(column.name for column in columns)


def frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str | Column]) -> pd.DataFrame:
    """A table of exactly `columns`, in order; what a row holds beyond them is left out, what it lacks is missing."""
    found = [column if isinstance(column, Column) else Column(column) for column in columns]
    table = pd.DataFrame({one.name: [row.get(one.name) for row in rows] for one in found}, columns=names(found))
    return table.astype({one.name: one.dtype for one in found if one.dtype})


def stacked(key: str, tables: Mapping[Any, Mapping[str, Sequence[Any]]]) -> pd.DataFrame:
    """Tables by columns below each other, each led by its name in the column `key`."""
    return pd.concat([pd.DataFrame({key: name, **columns}) for name, columns in tables.items()], ignore_index=True)


def for_people(table: pd.DataFrame, columns: Sequence[Column]) -> pd.DataFrame:
    """The columns that have a title, under it; truth values as yes and no."""
    view = titled(table, {column.name: column.title for column in columns if column.title})
    return view.assign(
        **{name: yes_or_no(view[name]) for name in map(str, view) if pd.api.types.is_bool_dtype(view[name])}
    )


def titled(table: pd.DataFrame, titles: Mapping[str, str]) -> pd.DataFrame:
    """The columns that have a title, under it and in the order of the titles."""
    return table[list(titles)].rename(columns=dict(titles))


def yes_or_no(column: pd.Series[Any]) -> list[str]:
    """Truth values in words."""
    return ["yes" if cell else "no" for cell in column]
