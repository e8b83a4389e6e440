"""Unpacks a zipped model folder from an untrusted source; all its files are checked before a byte is written."""

from __future__ import annotations

import lzma
import os
import stat
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO

from ...errors import AuditError, shown

MAX_MEMBERS = 200
MAX_BYTES = 2**32
MAX_RATIO = 100
SUFFIXES = (".json", ".safetensors", ".txt", ".md", ".model", ".jinja")
CHUNK = 2**20


def unpack_model(archive: str | os.PathLike[str] | IO[bytes], folder: Path, *, max_bytes: int = MAX_BYTES) -> Path:
    """Write the files of a zip below `folder`; return the path of the folder in it that holds config.json.

    Raises `AuditError` for links, encrypted files, names outside the folder, files that share their bytes or unpack to
    more than `max_bytes` or `MAX_RATIO` times their size, files that a model folder does not need, and a missing
    config.json.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            members = [info for info in opened.infolist() if not info.is_dir()]
            _check(members, max_bytes)
            written = 0
            for info in members:
                written += _write(opened, info, folder, max_bytes - written)
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, EOFError, OSError) as error:
        raise AuditError(f"The archive cannot be read: {_reason(error)}.") from error
    found = sorted(folder.rglob("config.json"), key=lambda path: len(path.parts))
    if not found:
        raise AuditError("The archive holds no config.json; zip the folder that a model was saved to.")
    return found[0].parent


def _check(members: list[zipfile.ZipInfo], max_bytes: int) -> None:
    if len(members) > MAX_MEMBERS:
        raise AuditError(f"The archive holds {len(members):,} files; at most {MAX_MEMBERS} are unpacked.")
    total = sum(info.file_size for info in members)
    if total > max_bytes:
        raise AuditError(f"The archive unpacks to {total:,} bytes; at most {max_bytes:,} are allowed.")
    names: set[str] = set()
    for info in members:
        _check_member(info)
        if info.filename in names:
            raise AuditError(f"The archive holds {shown(info.filename)} twice.")
        names.add(info.filename)
    reached = 0
    for info in sorted(members, key=lambda member: member.header_offset):
        if info.header_offset < reached:
            raise AuditError(f"{shown(info.filename)} shares its bytes with another member of the archive.")
        reached = info.header_offset + info.compress_size


def _check_member(info: zipfile.ZipInfo) -> None:
    name = info.filename
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name or "\x00" in name:
        raise AuditError(f"{shown(name)} in the archive would be written outside its folder.")
    mode = info.external_attr >> 16
    if mode and not stat.S_ISREG(mode) and stat.S_IFMT(mode):
        raise AuditError(f"{shown(name)} in the archive is a link or a device; put the file itself there.")
    if info.flag_bits & 1:
        raise AuditError(f"{shown(name)} in the archive is encrypted; zip it without a password.")
    if info.file_size > MAX_RATIO * max(info.compress_size, 1) + CHUNK:
        raise AuditError(
            f"{shown(name)} unpacks from {info.compress_size:,} to {info.file_size:,} bytes; that is no model's file."
        )
    if path.suffix.lower() not in SUFFIXES:
        raise AuditError(
            f"{shown(name)} in the archive is not a file of a safetensors folder; it may hold {', '.join(SUFFIXES)}."
        )


def _write(opened: zipfile.ZipFile, info: zipfile.ZipInfo, folder: Path, allowance: int) -> int:
    """Write one member in chunks and return its size. Raises `AuditError` where it is larger than the archive says."""
    target = folder / info.filename
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        sink = open(target, "xb")  # noqa: SIM115 - closed below; only its opening is refused in these words
    except OSError as error:
        raise AuditError(f"{shown(info.filename)} in the archive cannot be written: {error.strerror}.") from error
    written = 0
    with sink, opened.open(info) as source:
        while chunk := source.read(CHUNK):
            written += len(chunk)
            if written > min(allowance, info.file_size):
                raise AuditError(f"{shown(info.filename)} unpacks to more than the archive says.")
            sink.write(chunk)
    return written


def _reason(error: Exception) -> str:
    # The system's own sentence would name the folder that is written to.
    said = error.strerror if isinstance(error, OSError) else None
    return " ".join((said or str(error) or type(error).__name__).split())[:120].rstrip(".")
