"""The store of finished cells: one SQLite file behind a small interface.

SQLite and not DuckDB, because a page, a command line and a second process may write at once: SQLite serializes the
writers of several processes on one file, DuckDB allows one. It also rolls back the unfinished commit of a killed
writer, needs no server and comes with Python. A rollback journal, unlike a write-ahead log, leaves one file that can be
copied and that can be read from a read-only folder.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from ..errors import Remedy, StorageError
from ..files import check_kind
from .cells import COLUMNS, Cell, CellResult, cell_in, row_of
from .ranges import DEFAULT_LIMIT
from .store_faults import refusal, sentences

# "DSwp", so that a file of another program is never taken for a store.
APPLICATION_ID = 0x44537770
# 1 had no digests.
SCHEMA_VERSION = 2
# A commit takes milliseconds; a minute of waiting means that another program holds the file.
BUSY_SECONDS = 60.0
NOTICE_SECONDS = 1.0
KEYS_A_QUERY = 500
TABLE = """
CREATE TABLE IF NOT EXISTS cells (
    key BLOB NOT NULL UNIQUE, recipe TEXT NOT NULL, blocks INTEGER NOT NULL, seed TEXT NOT NULL,
    status TEXT NOT NULL, reason TEXT NOT NULL, numbers BLOB NOT NULL, digest BLOB NOT NULL
)
"""


class Store:
    """The finished (recipe, seed) cells by key, in one SQLite file. Every failure raises `StorageError`.

    A cell is written once and never changed. Several processes may use the file at the same time, and the cells of one
    `put` appear together or not at all. A cell whose digest is wrong is damaged and counts as not finished: `lookup`
    leaves it out and `put` replaces it. `say(sentence)` is called if another program keeps the store waiting.
    """

    def __init__(
        self, path: Path, connection: sqlite3.Connection, limit_bytes: int, say: Callable[[str], None]
    ) -> None:
        self.path, self._connection, self._limit, self._say = path, connection, limit_bytes, say
        # By row, with the count of numbers that was asked for.
        self._damaged: dict[int, int | None] = {}

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        limit_bytes: int = DEFAULT_LIMIT,
        say: Callable[[str], None] = lambda sentence: None,
    ) -> Store:
        """Open the store at `path`, or create it; `limit_bytes` is the size that `trim` keeps to.

        Raises `StorageError` if the file is something else, which is left unchanged.
        """
        place = Path(path)
        check_kind(place)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"The folder of the store {place} cannot be made: {error.strerror or error}.") from error
        with sentences(place, "opened"):
            connection = sqlite3.connect(
                place, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )  # fmt: skip
            # A damaged text need not be UTF-8; digests are of bytes.
            connection.text_factory = bytes
            store = cls(place, connection, limit_bytes, say)
            try:
                store._prepare()
            except BaseException:
                connection.close()
                raise
        return store

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @property
    def damaged(self) -> int:
        """The number of damaged (recipe, seed) cells that `lookup` found and `put` has not replaced yet."""
        return len(self._damaged)

    def lookup(self, keys: Sequence[bytes], size: int | None = None) -> dict[bytes, CellResult]:
        """Return a dict from key to result for those of `keys` that are finished.

        If `size` is given, an observed (recipe, seed) cell that does not have exactly `size` finite numbers counts as
        damaged.
        """
        known: dict[bytes, CellResult] = {}
        with sentences(self.path, "read"):
            for start in range(0, len(keys), KEYS_A_QUERY):
                part = keys[start : start + KEYS_A_QUERY]
                marks = ",".join("?" * len(part))
                query = f"SELECT rowid, {', '.join(COLUMNS)} FROM cells WHERE key IN ({marks})"
                for number, *row in self._patiently(query, part):
                    cell = cell_in(row, size)
                    if cell is None:
                        self._damaged[number] = size
                    else:
                        known[row[0]] = cell
        return known

    def put(self, cells: Iterable[Cell]) -> int:
        """Store (recipe, seed) cells in one transaction; return the number of those that were not stored before."""
        with self._transaction():
            self._delete_damaged()
            before = self._connection.total_changes
            marks = ",".join("?" * len(COLUMNS))
            self._connection.executemany(f"INSERT OR IGNORE INTO cells VALUES ({marks})", map(row_of, cells))
            added = self._connection.total_changes - before
        self._damaged.clear()
        return added

    def version(self) -> int:
        """Return a number that changes when another process or connection, but not this one, writes to the file."""
        with sentences(self.path, "read"):
            return self._number("PRAGMA data_version")

    def count(self) -> int:
        """Return the number of all stored (recipe, seed) cells."""
        with sentences(self.path, "read"):
            return self._number("SELECT COUNT(*) FROM cells")

    def used_bytes(self) -> int:
        """Return the bytes of the file that are in use."""
        with sentences(self.path, "read"):
            pages, free, size = (self._pragma(name) for name in ("page_count", "freelist_count", "page_size"))
            return (pages - free) * size

    def trim(self, keep: Container[bytes] = ()) -> int:
        """Delete the oldest (recipe, seed) cells beyond the size limit, but none of `keep`; return their number.

        Only rows of the store's own table are deleted, and the file shrinks; no file is deleted.
        """
        deleted = 0
        while (excess := self.used_bytes() - self._limit) > 0:
            count = self._delete_oldest(excess, keep)
            if not count:
                break
            deleted += count
        if deleted:
            with sentences(self.path, "written"):
                # As a script, since a statement without rows is stepped once, and a step frees one page.
                self._connection.executescript("PRAGMA incremental_vacuum")
        return deleted

    def _delete_damaged(self) -> None:
        """Delete the damaged cells that were found, except those that another process has replaced."""
        for row, size in self._damaged.items():
            query = f"SELECT {', '.join(COLUMNS)} FROM cells WHERE rowid = ?"
            values = self._connection.execute(query, (row,)).fetchone()
            if values is not None and cell_in(values, size) is None:
                self._connection.execute("DELETE FROM cells WHERE rowid = ?", (row,))

    def _delete_oldest(self, excess: int, keep: Container[bytes]) -> int:
        """Delete about `excess` bytes of the oldest cells, none of `keep`; returns the number deleted."""
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
        with sentences(self.path, "written"):
            self._patiently("BEGIN IMMEDIATE")
            try:
                yield
                self._patiently("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _patiently(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Execute a statement; if it has to wait for another program, call `say` once and keep waiting."""
        self._connection.execute(f"PRAGMA busy_timeout = {int(1000 * NOTICE_SECONDS)}")
        try:
            return self._connection.execute(statement, values)
        except sqlite3.OperationalError as error:
            if not (getattr(error, "sqlite_errorname", None) or "").startswith("SQLITE_BUSY"):
                raise
        finally:
            self._connection.execute(f"PRAGMA busy_timeout = {int(1000 * BUSY_SECONDS)}")
        self._say(f"Waiting for the store {self.path}, which another program holds.")
        return self._connection.execute(statement, values)

    def _number(self, query: str) -> int:
        return int(self._patiently(query).fetchone()[0])

    def _pragma(self, name: str) -> int:
        return self._number(f"PRAGMA {name}")

    def _prepare(self) -> None:
        """Create the table in a new file. Raises `StorageError` if the file is not a complete store of this version."""
        if self._pragma("application_id") != APPLICATION_ID and self._is_empty():
            self._connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            with self._transaction():
                # Another process may have made the store since.
                if self._is_empty():
                    self._connection.execute(TABLE)
                    self._connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                    self._connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        # Read again: a store made meanwhile has its table and its id by one commit.
        if self._pragma("application_id") != APPLICATION_ID:
            raise StorageError(
                f"The file {self.path} is a database of something else; give another path for the store."
            )
        found = self._pragma("user_version")
        if found != SCHEMA_VERSION:
            age = "an earlier" if 0 < found < SCHEMA_VERSION else "another"
            raise StorageError(
                f"The store {self.path} was written by {age} version of this program and is left as it is; move the "
                "file away or give another path for the store."
            )
        self._check_length()
        self._connection.execute("PRAGMA synchronous = NORMAL")

    def _is_empty(self) -> bool:
        return not self._number("SELECT COUNT(*) FROM sqlite_schema")

    def _check_length(self) -> None:
        """Raise `StorageError` if the file lost its end; SQLite reads less than a missing page as zeros."""
        # Inside a transaction, so that nobody writes in between; a store in memory has no file.
        self._connection.execute("BEGIN")
        expected = self._pragma("page_count") * self._pragma("page_size")
        with suppress(FileNotFoundError):
            if os.stat(self.path).st_size < expected:
                raise refusal(self.path, "opened", "")
        self._connection.execute("COMMIT")


def default_store(environment: Mapping[str, str]) -> Path:
    """Return the path of the user's store: DEPTHSCOPE_STORE if that is set, else a file in the user's cache folder.

    The pages and the command line use the same store. Raises `StorageError` if the user has no home folder.
    """
    cache = environment.get("XDG_CACHE_HOME") or environment.get("LOCALAPPDATA") or "~/.cache"
    place = environment.get("DEPTHSCOPE_STORE") or os.path.join(cache, "depthscope", "cells.sqlite")
    try:
        return Path(place).expanduser()
    except RuntimeError as error:
        raise StorageError("This user has no home folder for the store", Remedy.STORE) from error
