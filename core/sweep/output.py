"""The output folder of a sweep: its tables and a manifest. A file gets its name only when it is complete.

The files do not depend on when, where or in how many parts they were computed, so equal sweeps give equal bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

from .. import __version__
from ..canonical import canonical_json, engine_version, library_versions
from ..errors import Remedy, StorageError
from ..files import check_kind, clear, file_digest, is_room, replacing
from ..health.columns import REFUSED
from ..locks import made_and_locked
from ..strict_json import read_json
from .grid import SweepGrid
from .run import SweepRun
from .summary import growth_rows
from .tables import PARQUET, ROWS, SUMMARY, write_table

SCHEMA = "depthscope.sweep/1"
MANIFEST = "manifest.json"
LOCK = ".sweep.lock"
TABLES = (ROWS, SUMMARY, PARQUET)
PARTIAL = ".partial"
UNFINISHED, COMPLETE = "unfinished", "complete"
MAX_MANIFEST_BYTES = 2**26


class OutputFolder:
    """A folder that holds one sweep and nothing else. Its methods raise `StorageError` if reading or writing fails."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def finished(self, grid: SweepGrid, *, parquet: bool = False) -> dict[str, Any] | None:
        """Return the manifest if exactly this grid is complete here and its files are unchanged, else None.

        Needs no torch. Raises `StorageError` if the folder holds anything that no sweep wrote. The files of another
        sweep do not count as such: they may be replaced, since its cells are in the store.
        """
        manifest = self._own_manifest()
        if manifest is None or manifest.get("state") != COMPLETE or manifest.get("grid_digest") != grid.digest:
            return None
        digests = manifest.get("digests")
        if (
            manifest.get("engine") != engine_version()
            or not isinstance(digests, dict)
            or set(digests) != {*_names(parquet)}
            or manifest.get("manifest_digest") != _digest_of(manifest)
        ):
            return None
        with suppress(OSError):
            if all(digests[name] == file_digest(self.path / name) for name in digests):
                return manifest
        return None

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Make the folder if it is missing, and keep other sweeps from writing into it while the block runs.

        A folder made here that stays empty is removed at the end. Raises `StorageError` if another sweep is writing
        into it, or if it holds anything that no sweep wrote.
        """
        busy = StorageError(
            f"Another sweep is writing to the folder {self.path}", "wait until it has ended", Remedy.OUTPUT
        )
        with made_and_locked(self.path, LOCK, busy):
            self._own_manifest()
            # No other sweep writes here now, so whatever is left aside is that of a killed one.
            clear(self.path, 0.0)
            yield

    def begin(self, grid: SweepGrid) -> None:
        """Write an unfinished manifest for this grid, by which an interrupted sweep can be recognized."""
        self._write_manifest(_head(grid, UNFINISHED))

    def write(self, run: SweepRun, *, parquet: bool = False) -> dict[str, Any]:
        """Write the tables, then the manifest with their digests, and return the manifest as a dict.

        `parquet` adds the long table as Parquet.
        """
        digests = {
            name: self._write(name, partial(write_table, name=name, results=run.results)) for name in _names(parquet)
        }
        manifest = {
            **_head(run.grid, COMPLETE),
            "cells": {"total": run.total, "observed": run.done - run.refused, REFUSED: run.refused},
            "growth": list(growth_rows(run.results)),
            "digests": digests,
        }
        manifest["manifest_digest"] = _digest_of(manifest)
        self._write_manifest(manifest)
        for name in set(TABLES) - set(digests):
            (self.path / name).unlink(missing_ok=True)
        return manifest

    def _own_manifest(self) -> dict[str, Any] | None:
        """Return the manifest of the sweep in this folder; None if the folder is empty or absent."""
        try:
            names = set(os.listdir(self.path))
        except FileNotFoundError:
            return None
        except OSError as error:
            reason = error.strerror or error
            raise StorageError(f"The folder {self.path} cannot be read: {reason}", Remedy.OUTPUT) from error
        self._check_own(names - {LOCK})
        if MANIFEST not in names:
            return None
        try:
            manifest = read_json(self.path / MANIFEST, name=MANIFEST, max_bytes=MAX_MANIFEST_BYTES)
        except StorageError as error:
            raise StorageError(
                error.sentence, *error.ways, f"delete it and the tables in {self.path}", Remedy.OUTPUT
            ) from error
        if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
            raise StorageError(f"The {MANIFEST} in {self.path} is not a sweep's", Remedy.SWEEP_OUTPUT)
        return dict(manifest)

    def _check_own(self, names: set[str]) -> None:
        """Raise `StorageError` if the folder holds anything that no sweep wrote, or tables without their manifest."""
        own = {MANIFEST, *TABLES}
        foreign = sorted(name for name in names - own - {name + PARTIAL for name in own} if not is_room(name))
        if not foreign and MANIFEST not in names and (tables := sorted(names & own)):
            raise StorageError(
                f"The folder {self.path} holds {tables[0]!r} without the {MANIFEST} of a sweep",
                "delete its tables",
                Remedy.OUTPUT,
            )
        if foreign:
            raise StorageError(
                f"The folder {self.path} holds {foreign[0]!r}, which no sweep put there", Remedy.SWEEP_OUTPUT
            )
        for name in sorted(names & own):
            # To read a pipe would wait for its writer.
            check_kind(self.path / name)

    def _write_manifest(self, manifest: Mapping[str, Any]) -> None:
        text = json.dumps(manifest, indent=1, allow_nan=False) + "\n"
        self._write(MANIFEST, lambda stream: stream.write(text.encode()))

    def _write(self, name: str, fill: Callable[[IO[bytes]], object]) -> str:
        """Fill a temporary file, move it into place, and return the SHA-256 of what was written."""
        try:
            with replacing(self.path / name) as (aside,):
                with open(aside, "wb") as stream:
                    fill(stream)
                digest = file_digest(aside)
            # What an earlier version of the program left where it was killed.
            (self.path / (name + PARTIAL)).unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(
                f"{name} cannot be written to {self.path}: {error.strerror or error}; finished cells are in the store, "
                "so free space or give another folder and run the sweep again."
            ) from error
        return digest


def _names(parquet: bool) -> tuple[str, ...]:
    return TABLES if parquet else (ROWS, SUMMARY)


def _head(grid: SweepGrid, state: str) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "version": __version__,
        "state": state,
        "engine": engine_version(),
        "versions": {"depthscope": __version__, **library_versions()},
        "grid_digest": grid.digest,
        "grid": grid.document(),
    }


def _digest_of(manifest: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the rest of a manifest, so that an edited one is detected."""
    rest = {name: value for name, value in manifest.items() if name != "manifest_digest"}
    return hashlib.sha256(canonical_json(rest).encode()).hexdigest()
