"""The folder of a sweep: two tables and a manifest, each appearing under its name only when whole.

Nothing in them tells when, where or in how many pieces they were computed, so equal sweeps give equal bytes.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from core import __version__
from core.errors import StorageError
from core.files import check_kind, is_room, replacing
from core.health.columns import REFUSED
from core.strict_json import read_json
from core.sweep.canonical import canonical_json, engine_version, library_versions
from core.sweep.folder_lock import LOCK, made_and_locked
from core.sweep.grid import SweepGrid
from core.sweep.growth import growth_rows
from core.sweep.rows import columns, csv_lines, slices
from core.sweep.run import SweepRun
from core.sweep.summary import ALL_RATIOS, SUMMARY_COLUMNS, summary_rows

SCHEMA = "depthscope.sweep/1"
MANIFEST, ROWS, SUMMARY, PARQUET = "manifest.json", "sweep.csv", "summary.csv", "sweep.parquet"
TABLES = (ROWS, SUMMARY, PARQUET)
PARTIAL = ".partial"
UNFINISHED, COMPLETE = "unfinished", "complete"
MAX_MANIFEST_BYTES = 2**26
READ_BYTES = 2**20


class OutputFolder:
    """A folder that holds one sweep and nothing else; every failure is a `StorageError`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def finished(self, grid: SweepGrid, *, parquet: bool = False) -> dict[str, Any] | None:
        """The manifest where this very grid is complete here and its files are as it says; needs no torch.

        Refuses a folder with anything that no sweep wrote. Another sweep's files may be replaced, for their cells are
        in the store.
        """
        manifest = self._own_manifest()
        if manifest is None or manifest.get("state") != COMPLETE or manifest.get("grid_digest") != grid.digest:
            return None
        digests = manifest.get("digests")
        if (
            manifest.get("engine") != engine_version()
            or not isinstance(digests, dict)
            or set(digests) != _names(parquet)
            or manifest.get("manifest_digest") != _digest_of(manifest)
        ):
            return None
        return manifest if all(digests[name] == self._digest(name) for name in digests) else None

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Make the folder and let no other sweep write to it meanwhile; one that stays empty is removed again.

        Refuses a folder that another sweep is writing to, or that holds something else.
        """
        with made_and_locked(self.path):
            self._own_manifest()
            for name in (MANIFEST, *TABLES):
                check_kind(self.path / name)
            yield

    def begin(self, grid: SweepGrid) -> None:
        """Mark the claimed folder as this grid's, so that an interrupted sweep is known as one."""
        self._write_manifest(_head(grid, UNFINISHED))

    def write(self, run: SweepRun, *, parquet: bool = False) -> dict[str, Any]:
        """Write both tables, then the manifest with the digests of what was written, and return it."""
        fills: dict[str, Callable[[IO[bytes]], None]] = {
            ROWS: lambda stream: _write_lines(stream, _row_lines(run)),
            SUMMARY: lambda stream: _write_lines(stream, _summary_lines(run)),
        }
        if parquet:
            from core.sweep.parquet import write_rows

            fills[PARQUET] = lambda stream: write_rows(stream, run)
        digests = {name: self._write_table(name, fill) for name, fill in fills.items()}
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

    def _write_table(self, name: str, fill: Callable[[IO[bytes]], None]) -> str:
        """Write a table; the SHA-256 of its bytes as they are written, whoever changes the file afterwards."""
        state = hashlib.sha256()
        self._write(name, lambda stream: fill(cast("IO[bytes]", _Digested(stream, state))))
        return state.hexdigest()

    def _own_manifest(self) -> dict[str, Any] | None:
        """The manifest of the sweep that lies here; None in an empty or absent folder."""
        try:
            names = set(os.listdir(self.path))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"The folder {self.path} cannot be read: {error.strerror or error}.") from error
        names.discard(LOCK)
        own = {MANIFEST, *TABLES}
        foreign = sorted(name for name in names - own - {name + PARTIAL for name in own} if not is_room(name))
        if not foreign and MANIFEST not in names:
            foreign = sorted(names & own)
        if foreign:
            raise StorageError(
                f"The folder {self.path} holds {foreign[0]!r}, which no sweep put there; give an empty folder or the "
                "folder of an earlier sweep as --out."
            )
        if MANIFEST not in names:
            return None
        manifest = read_json(self.path / MANIFEST, max_bytes=MAX_MANIFEST_BYTES)
        if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
            raise StorageError(
                f"The {MANIFEST} in {self.path} is not a sweep's; give an empty folder or the folder of an earlier "
                "sweep as --out."
            )
        return dict(manifest)

    def _digest(self, name: str) -> str | None:
        state = hashlib.sha256()
        try:
            with open(self.path / name, "rb") as stream:
                while block := stream.read(READ_BYTES):
                    state.update(block)
        except OSError:
            return None
        return state.hexdigest()

    def _write_manifest(self, manifest: Mapping[str, Any]) -> None:
        text = json.dumps(manifest, indent=1, allow_nan=False) + "\n"
        self._write(MANIFEST, lambda stream: _write_lines(stream, [text]))

    def _write(self, name: str, fill: Callable[[IO[bytes]], None]) -> str:
        """Fill a file aside and move it into place; the SHA-256 of what was written."""
        try:
            with replacing(self.path / name) as (aside,):
                with open(aside, "wb") as stream:
                    fill(stream)
                digest = self._digest(str(aside))
            # What an earlier version of the program left where it was killed.
            (self.path / (name + PARTIAL)).unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(
                f"{name} cannot be written to {self.path}: {error.strerror or error}; finished cells are in the store, "
                "so free space or give another folder and run the sweep again."
            ) from error
        assert digest is not None
        return digest


class _Digested(io.RawIOBase):
    """A stream that hands on what is written and feeds it to a digest."""

    def __init__(self, stream: IO[bytes], state: hashlib._Hash) -> None:
        self._stream, self._state, self._written = stream, state, 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, data: Any) -> int:
        self._state.update(data)
        self._stream.write(data)
        self._written += len(data)
        return len(data)


def summary_lines(folder: OutputFolder) -> list[str]:
    """The largest ratios of a written summary as a table for a terminal, one line an arm and setting."""
    rows = _summary(folder)
    extra = list(rows[0])[len(SUMMARY_COLUMNS) :] if rows else []
    found: dict[tuple[str, ...], dict[str, dict[str, str]]] = {}
    for row in rows:
        key = tuple(row[name] for name in ("arm", "recipe", "blocks", *extra))
        found.setdefault(key, {})[row["quantity"]] = row
    lines = [f"{'arm':<13}{'recipe':<20}{'blocks':>6}{'largest A':>14}{'largest G':>14}{'in band':>9}{'seeds':>7}"]
    for (arm, name, blocks, *rest), quantity in found.items():
        shown = [quantity[kind]["median"] for kind in ("largest_activation_ratio", "largest_adjoint_ratio")]
        medians = "".join(f"{float(value):>14.6g}" if value else f"{'-':>14}" for value in shown)
        share = quantity[ALL_RATIOS]["share_within"]
        band = f"{float(share):>8.1%}" if share else f"{'-':>8}"
        settings = "".join(f"  {column} {value}" for column, value in zip(extra, rest, strict=True))
        lines.append(f"{arm:<13}{name:<20}{blocks:>6}{medians} {band}{quantity[ALL_RATIOS]['seeds']:>7}{settings}")
    return lines


def refused_recipes(folder: OutputFolder) -> list[str]:
    """Recipes of a written summary of which no cell was observed."""
    observed: dict[str, int] = {}
    for row in _summary(folder):
        observed[row["recipe"]] = observed.get(row["recipe"], 0) + int(row["seeds"])
    return [name for name, seeds in observed.items() if not seeds]


def _summary(folder: OutputFolder) -> list[dict[str, str]]:
    with open(folder.path / SUMMARY, encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def _names(parquet: bool) -> set[str]:
    return {ROWS, SUMMARY, PARQUET} if parquet else {ROWS, SUMMARY}


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
    """SHA-256 of the rest of a manifest, so that an edited one is not believed."""
    rest = {name: value for name, value in manifest.items() if name != "manifest_digest"}
    return hashlib.sha256(canonical_json(rest).encode()).hexdigest()


def _row_lines(run: SweepRun) -> Iterator[str]:
    yield ",".join(columns(run)) + "\n"
    for part in slices(run):
        yield from csv_lines(part)


def _summary_lines(run: SweepRun) -> Iterator[str]:
    names = (*SUMMARY_COLUMNS, *run.grid.extra_columns)
    yield ",".join(names) + "\n"
    for row in summary_rows(run.results):
        yield ",".join("" if row[name] is None else str(row[name]) for name in names) + "\n"


def _write_lines(stream: IO[bytes], lines: Iterable[str]) -> None:
    stream.writelines(line.encode() for line in lines)
