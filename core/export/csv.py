"""Tables as CSV: exact numbers, and no cell that a spreadsheet would run as a formula."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ..errors import StorageError
from ..files import check_file, check_folder, refusal, replacing

# A spreadsheet reads a cell that begins like this as a formula, full-width forms and hidden characters included.
_FORMULA = re.compile("[\\s\u200b\ufeff]*[=+\\-@＝＋－＠]|[ \u00a0\u200b\ufeff\u3000]*[\t\r\n]")
MAX_HEADER = 2**16


def csv_text(table: pd.DataFrame) -> str:
    """Return the table as CSV text: floats in full, missing values empty, an apostrophe before text like a formula."""
    safe = table.copy(deep=False)
    safe.columns = pd.Index([defused(str(name)) for name in table.columns])
    for index, name in enumerate(table.columns):
        column = table[name]
        if not (pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column)):
            safe.isetitem(index, [defused(cell) for cell in column])
    text = safe.to_csv(index=False, lineterminator="\n")
    # The writer quotes only what holds its own line end, and a bare carriage return would end a line elsewhere.
    return text if "\r" not in text else safe.to_csv(index=False, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)


def defused(cell: Any) -> Any:
    """Return text with an apostrophe in front if a spreadsheet would run it as a formula; other values unchanged."""
    return "'" + cell if isinstance(cell, str) and _FORMULA.match(cell) else cell


def write_tables(folder: str | os.PathLike[str], tables: Mapping[str, pd.DataFrame]) -> list[Path]:
    """Write `{name}.csv` for every table into `folder`, all of them or none, and return the paths.

    The folder is made if missing. A file there that has other columns belongs to someone else and is not replaced.
    Raises `StorageError`.
    """
    check_tables(folder, {name: list(table.columns) for name, table in tables.items()})
    place = Path(folder)
    written = [place / f"{name}.csv" for name in tables]
    try:
        place.mkdir(parents=True, exist_ok=True)
        with replacing(*written) as asides:
            for aside, table in zip(asides, tables.values(), strict=True):
                aside.write_text(csv_text(table), encoding="utf-8", newline="")
    except OSError as error:
        raise StorageError(f"The tables cannot be written to {place}: {error.strerror or error}.") from error
    return written


def check_tables(folder: str | os.PathLike[str], columns: Mapping[str, Iterable[object]], option: str = "") -> None:
    """Raise `StorageError` if tables with these columns, by name, cannot be written into the folder.

    A CSV of a table's name is replaced only if it has that table's columns or is empty. `option` is the name of the
    command's option for the message.
    """
    check_folder(folder, option)
    for name, header in columns.items():
        path = Path(folder) / f"{name}.csv"
        check_file(path, option, [Path(os.path.realpath(folder))])
        if _header(path) not in ([], [defused(str(column)) for column in header]):
            reason = f"it holds a {path.name} of other columns than this table's; give another folder"
            raise refusal(folder, option, reason, "folder")


def _header(path: Path) -> list[str]:
    """Return the cells of a file's first line; empty if there is no file or it is empty."""
    try:
        with open(path, encoding="utf-8", errors="replace", newline="") as stream:
            return next(csv.reader([stream.readline(MAX_HEADER)]), [])
    except FileNotFoundError:
        return []
    except (OSError, csv.Error) as error:
        raise StorageError(f"The file {path} cannot be read: {error}; give another folder.") from error
