"""Describe what is wrong with the file of a store, and what to do, in one sentence."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import StorageError

# What SQLite's errors mean and what to do, by the beginning of their names; any other one is a damaged file.
FAULTS = {
    "SQLITE_FULL": ("the disk or a file-size limit is full", "free space"),
    "SQLITE_IOERR_SHORT_READ": ("it is damaged", "move the file away"),
    "SQLITE_IOERR": (
        "the disk does not take or give the data, perhaps because it or a file-size limit is full",
        "look at the disk",
    ),
    "SQLITE_READONLY_DBMOVED": ("the file was moved or deleted meanwhile", "run the sweep again"),
    "SQLITE_READONLY": ("it may only be read", "permit writing"),
    "SQLITE_CANTOPEN": ("it cannot be opened or created there", "permit that"),
    "SQLITE_NOTADB": ("it is not a store of cells or is damaged", "move the file away"),
    "SQLITE_BUSY": ("another program holds it", "end that program"),
    "SQLITE_LOCKED": ("another program holds it", "end that program"),
    "": ("it is damaged", "move the file away"),
}


@contextmanager
def sentences(path: Path, done: str) -> Iterator[None]:
    """Turn SQLite's errors in the block into a `StorageError`; `done` is what was tried: opened, read or written."""
    try:
        yield
    except UnicodeDecodeError as error:
        # SQLite quotes what it cannot read.
        raise refusal(path, done, "") from error
    except sqlite3.Error as error:
        raise refusal(path, done, getattr(error, "sqlite_errorname", None) or "") from error


def refusal(path: Path, done: str, error: str) -> StorageError:
    """Return the `StorageError` for a store that cannot be opened, read or written; `done` is one of these words.

    `error` is SQLite's name of the error, empty for a damaged file.
    """
    reason, way = next(fault for name, fault in FAULTS.items() if error.startswith(name))
    return StorageError(
        f"The store {path} cannot be {done}: {reason}; what it holds is kept, so {way} or give another path for the "
        "store."
    )
