"""Several files of one model that are uploaded together: a config.json and its safetensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import IO

from ...errors import AuditError, shown
from ...strict_json import MAX_BYTES
from .target import UNBOUNDED, path_task, received
from .weight_files import CONFIG, INDEX, MAX_INDEX_BYTES, SHARD_NAME, SINGLE, screen_folder

MOST_FILES = 20
CHUNK = 2**20
INDEX_SUFFIX = ".index.json"


@dataclass(frozen=True)
class Given:
    """One uploaded file: its name, its bytes, and their number."""

    name: str
    stream: IO[bytes]
    size: int


def received_files(files: Sequence[Given], folder: Path, *, max_bytes: int) -> Path:
    """Write the uploaded files of one model into `folder`; return the config's path, or `folder` if there are weights.

    A single config.json or zip is handled by `received`. Several files are a config.json and safetensors, with an index
    or without. Raises `AuditError` or `StorageError` for more than `MOST_FILES` files or `max_bytes` in all, names that
    are paths or occur twice, weights without a config, and if `received` raises.
    """
    _check(files, max_bytes)
    (first, *others) = files
    suffix = PurePath(first.name).suffix.lower()
    if not others and suffix != ".safetensors":
        return received(first.name, first.stream, folder, max_bytes=max_bytes)
    weights = [file for file in files if file.name.endswith(".safetensors")]
    if not weights:
        raise AuditError("No safetensors file is among these files; give a config.json alone, or its weights with it.")
    config, index = _config(files, weights), [file for file in files if file.name.endswith(INDEX_SUFFIX)]
    _write(config, folder / CONFIG, MAX_BYTES)
    for file in index[:1]:
        _write(file, folder / INDEX, MAX_INDEX_BYTES)
    for file in weights:
        # An index knows its shards by their names; without one a single file may be called anything.
        _write(file, folder / (file.name if index else SINGLE if len(weights) == 1 else file.name), file.size)
    source = weights[0].name
    screen_folder(folder, UNBOUNDED, source)
    path_task(folder, UNBOUNDED, shrink=True, source=source)
    return folder


def _check(files: Sequence[Given], max_bytes: int) -> None:
    """Raise `AuditError` for files that cannot be those of one model, before a byte is written."""
    if not files:
        raise AuditError("No file was given; give a config.json.")
    if len(files) > MOST_FILES:
        raise AuditError(f"{len(files)} files were given; at most {MOST_FILES} are taken, so zip their folder.")
    total = sum(file.size for file in files)
    if total > max_bytes:
        raise AuditError(f"The files hold {total:,} bytes together; at most {max_bytes:,} are taken.")
    names: set[str] = set()
    for file in files:
        if file.name != PurePath(file.name).name or set(file.name) & set("\\:\0") or file.name in ("", ".."):
            raise AuditError(f"The name {shown(file.name)} is a path; give files by their own names.")
        if file.name.casefold() in names:
            raise AuditError(f"{shown(file.name)} was given twice.")
        names.add(file.name.casefold())
        if len(files) > 1 and not (file.name.endswith(".json") or SHARD_NAME.fullmatch(file.name)):
            raise AuditError(
                f"{shown(file.name)} is neither a config.json nor safetensors; give these together, or one zip alone."
            )


def _config(files: Sequence[Given], weights: Sequence[Given]) -> Given:
    """Return the file named config.json, else the only JSON file that is not an index.

    Raises `AuditError` otherwise.
    """
    others = [file for file in files if file.name.endswith(".json") and not file.name.endswith(INDEX_SUFFIX)]
    named = [file for file in others if file.name == CONFIG] or others
    if not named:
        raise AuditError(f"{shown(weights[0].name)} holds weights alone; give its config.json together with it.")
    if len(named) > 1:
        raise AuditError(f"{shown(named[0].name)} and {shown(named[1].name)} may both be the config; call it {CONFIG}.")
    return named[0]


def _write(file: Given, target: Path, most: int) -> None:
    """Write one file in chunks, at most one byte more than `most`: reading the file later raises for the extra byte."""
    left = most + 1
    with open(target, "xb") as sink:
        while left > 0 and (chunk := file.stream.read(min(CHUNK, left))):
            left -= len(chunk)
            sink.write(chunk)
