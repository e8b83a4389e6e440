"""The store of finished cells: one SQLite file behind a small interface.

SQLite and not DuckDB, because a page, a command line and a second process write at once: SQLite serialises writers of
several processes on one file, DuckDB allows one. It also rolls a killed writer's half commit back by itself, needs no
server and comes with Python. A rollback journal, not a write-ahead log, leaves one file that can be copied and that is
readable where nothing may be written.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import numpy as np

from core.decoder.splitmix64 import FloatArray
from core.errors import StoreError
from core.health.columns import OBSERVED, REFUSED
from core.sweep.ranges import DEFAULT_LIMIT

# "DSwp", so that a file of another program is never taken for a store.
APPLICATION_ID = 0x44537770
SCHEMA_VERSION = 1
# A commit takes milliseconds; a minute of waiting means that another program holds the file.
BUSY_SECONDS = 60.0
KEYS_A_QUERY = 500
TABLE = """
CREATE TABLE IF NOT EXISTS cells (
    key BLOB NOT NULL UNIQUE, recipe TEXT NOT NULL, blocks INTEGER NOT NULL, seed TEXT NOT NULL,
    status TEXT NOT NULL, reason TEXT NOT NULL, numbers BLOB NOT NULL
)
"""
REASONS = {
    "SQLITE_FULL": "the disk or a file-size limit is full",
    "SQLITE_IOERR": "the disk does not take or give the data, perhaps because it or a file-size limit is full",
    "SQLITE_READONLY": "it may only be read",
    "SQLITE_CANTOPEN": "it cannot be opened or created there",
    "SQLITE_NOTADB": "it is not a store of cells",
    "SQLITE_CORRUPT": "it is damaged",
    "SQLITE_BUSY": "another program holds it",
    "SQLITE_LOCKED": "another program holds it",
}


class Cell(NamedTuple):
    """A finished cell. `numbers` packs the loss, then every site's activation and adjoint RMS; empty where refused."""

    key: bytes
    recipe: str
    blocks: int
    seed: int
    reason: str
    numbers: bytes


class Found(NamedTuple):
    """What the store says of a key: numbers, or the reason of a refusal."""

    reason: str
    numbers: FloatArray


class Store:
    """Finished cells by key; a cell is written once and never changed. Every failure is a `StoreError`.

    Several processes may use one file at once. A batch of cells appears whole or not at all.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, limit_bytes: int) -> None:
        self.path, self._connection, self._limit = path, connection, limit_bytes

    @classmethod
    def open(cls, path: str | os.PathLike[str], limit_bytes: int = DEFAULT_LIMIT) -> Store:
        """Open or create the store at `path`; a file that is something else is refused and left as it is."""
        place = Path(path)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"The folder of the store {place} cannot be made: {error.strerror or error}.") from error
        with _sentences(place, "opened"):
            connection = sqlite3.connect(
                place, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )  # fmt: skip
            try:
                _prepare(place, connection)
            except BaseException:
                connection.close()
                raise
        return cls(place, connection, limit_bytes)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the file up."""
        self._connection.close()

    def found(self, keys: Sequence[bytes]) -> dict[bytes, Found]:
        """What is known of `keys`; a key that is absent has not finished."""
        known: dict[bytes, Found] = {}
        with _sentences(self.path, "read"):
            for start in range(0, len(keys), KEYS_A_QUERY):
                part = keys[start : start + KEYS_A_QUERY]
                marks = ",".join("?" * len(part))
                query = f"SELECT key, reason, numbers FROM cells WHERE key IN ({marks})"
                for key, reason, numbers in self._connection.execute(query, part):
                    known[key] = Found(reason, np.frombuffer(numbers, dtype="<f8"))
        return known

    def put(self, cells: Iterable[Cell]) -> int:
        """Store cells in one transaction; the number of those that nobody had stored before."""
        rows = [
            (key, recipe, blocks, str(seed), REFUSED if reason else OBSERVED, reason, numbers)
            for key, recipe, blocks, seed, reason, numbers in cells
        ]
        with self._transaction():
            before = self._connection.total_changes
            self._connection.executemany("INSERT OR IGNORE INTO cells VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            return self._connection.total_changes - before

    def version(self) -> int:
        """A number that changes when another process or connection has written, and not when this one has."""
        with _sentences(self.path, "read"):
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        return int(version)

    def count(self) -> int:
        """Number of finished cells of all sweeps."""
        with _sentences(self.path, "read"):
            (number,) = self._connection.execute("SELECT COUNT(*) FROM cells").fetchone()
        return int(number)

    def used_bytes(self) -> int:
        """Bytes of the file that hold cells and their index."""
        with _sentences(self.path, "read"):
            pages, free, size = (
                self._connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
        return int((pages - free) * size)

    def trim(self, keep: Container[bytes] = ()) -> int:
        """Delete the oldest cells beyond the size limit, none of `keep`; the number deleted.

        Only rows of the store's own table go, and the file shrinks by them; no file is ever deleted.
        """
        deleted = 0
        while (excess := self.used_bytes() - self._limit) > 0:
            count = self._delete_oldest(excess, keep)
            if not count:
                break
            deleted += count
        if deleted:
            with _sentences(self.path, "written"):
                # As a script, since a statement without rows is stepped once, and a step frees one page.
                self._connection.executescript("PRAGMA incremental_vacuum")
        return deleted

    def _delete_oldest(self, excess: int, keep: Container[bytes]) -> int:
        """Delete about `excess` bytes of cells."""
        share = self.used_bytes() / max(1, self.count())
        doomed: list[tuple[int]] = []
        with self._transaction():
            for row, key in self._connection.execute("SELECT rowid, key FROM cells ORDER BY rowid"):
                if len(doomed) * share >= excess:
                    break
                if key not in keep:
                    doomed.append((row,))
            self._connection.executemany("DELETE FROM cells WHERE rowid = ?", doomed)
        return len(doomed)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with _sentences(self.path, "written"):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise


def _prepare(path: Path, connection: sqlite3.Connection) -> None:
    def pragma(name: str) -> int:
        return int(connection.execute(f"PRAGMA {name}").fetchone()[0])

    def empty() -> bool:
        return not connection.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()[0]

    if pragma("application_id") != APPLICATION_ID and empty():
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("BEGIN IMMEDIATE")
        # Another process may have made the store since.
        if empty():
            connection.execute(TABLE)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
    # Read again: a store made meanwhile has its table and its id by one commit.
    if pragma("application_id") != APPLICATION_ID:
        raise StoreError(f"The file {path} is a database of something else; give another path for the store.")
    if pragma("user_version") != SCHEMA_VERSION:
        raise StoreError(f"The store {path} was written by another version of this program; give another path.")
    connection.execute("PRAGMA synchronous = NORMAL")


def packed(numbers: FloatArray) -> list[bytes]:
    """Every row of `[n, k]` numbers as a cell holds them: little-endian binary64."""
    data = np.ascontiguousarray(numbers, dtype="<f8").tobytes()
    size = 8 * numbers.shape[1]
    return [data[start : start + size] for start in range(0, len(data), size)]


@contextmanager
def _sentences(path: Path, done: str) -> Iterator[None]:
    """Turn SQLite's errors into one sentence."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", None) or ""
        reason = next((text for code, text in REASONS.items() if name.startswith(code)), str(error))
        raise StoreError(
            f"The store {path} cannot be {done}: {reason}; what it holds is kept. Free space or give another path."
        ) from error
