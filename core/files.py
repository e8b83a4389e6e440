"""Write files completely or not at all, and check output paths before any work is done.

A finished file is first written to a temporary path in the target's folder and then moved into place.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from .errors import StorageError, shown

PathLike = str | os.PathLike[str]
Outputs = Mapping[str, PathLike | None]

ROOM_START, ROOM_END = ".depthscope-", ".partial"
# A folder this young may belong to a process that has not locked it yet.
SETTLED_SECONDS = 60.0
SHOWN = 240
KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


@contextlib.contextmanager
def replacing(*paths: PathLike, seal: PathLike | None = None) -> Iterator[list[Path]]:
    """Yield a temporary path for every path; at the end of the block the temporary files replace the paths together.

    If the block or a move fails, nothing changes and the temporary files are removed. A symbolic link is followed; a
    replaced file keeps its permissions and a new one gets those of the umask. `seal` is one of `paths` and vouches for
    the others: it is removed before the first of them moves, and is moved last. Raises `OSError`, and `StorageError`
    for a path that is not a regular file.
    """
    with contextlib.ExitStack() as rooms:
        opened: dict[Path, Path] = {}
        moves: list[tuple[Path, Path, os.stat_result | None, int]] = []
        for index, path in enumerate(paths):
            check_file(path)
            target, found = _resolved(path)
            if target.parent not in opened:
                opened[target.parent] = rooms.enter_context(_room(target.parent))
            aside = opened[target.parent] / str(index)
            # Made here with an ordinary mode, because a library may replace it by one that only its owner can read.
            os.close(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            moves.append((aside, target, found, stat.S_IMODE((found or os.stat(aside)).st_mode)))
        yield [aside for aside, *_ in moves]
        for aside, _, found, mode in moves:
            _settle(aside, found, mode)
        _move({target: aside for aside, target, *_ in moves}, None if seal is None else _real(seal))


def _move(asides: Mapping[Path, Path], seal: Path | None) -> None:
    """Move every new file to its target; if one move fails, restore the earlier files."""
    earlier = {target: aside.with_name(f"{aside.name}-earlier") for target, aside in asides.items()}
    for target, kept in earlier.items():
        if target.exists():
            _keep(target, kept)
    try:
        if seal is not None:
            seal.unlink(missing_ok=True)
        for target in sorted(asides, key=lambda target: target == seal):
            os.replace(asides[target], target)
    except BaseException:
        for target, kept in earlier.items():
            with contextlib.suppress(OSError):
                if kept.exists():
                    os.replace(kept, target)
                else:
                    target.unlink(missing_ok=True)
        raise


def _keep(target: Path, kept: Path) -> None:
    """Make a hard link to a file, or a copy if the file system has no links."""
    try:
        os.link(target, kept)
    except OSError:
        shutil.copy2(target, kept)


def write_text(path: PathLike, text: str) -> None:
    """Write one UTF-8 text file, completely or not at all. Raises `StorageError`."""
    try:
        with replacing(path) as (aside,):
            aside.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise StorageError(f"The file {_named(path)} cannot be written: {error.strerror or error}.") from error


def file_digest(path: PathLike) -> str:
    """Return the SHA-256 of a file's bytes as hexadecimal text."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def is_room(name: str) -> bool:
    """Return True if `name` is the name of a temporary folder that this module makes, in use or left behind."""
    return name.startswith(ROOM_START) and name.endswith(ROOM_END)


def check_outputs(files: Outputs, folders: Outputs | None = None, inputs: Outputs | None = None) -> None:
    """Raise `StorageError`, before any work, if an output cannot be written. Nothing is left on disk.

    Each argument maps an option's name, for the message, to its path; None is not checked. Two outputs may not be the
    same file, nor may an output be an input.
    """
    places = {option: folder for option, folder in (folders or {}).items() if folder is not None}
    for option, folder in places.items():
        check_folder(folder, option)
    made = [_real(folder) for folder in places.values()]
    taken = {_real(path): option for option, path in {**(inputs or {}), **places}.items() if path is not None}
    for option, path in files.items():
        if path is None:
            continue
        check_file(path, option, made)
        other = taken.setdefault(_real(path), option)
        if other != option:
            raise StorageError(f"{other} and {option} both name {_named(path)}; give each its own path.")


def check_file(path: PathLike, option: str = "", made: list[Path] | None = None) -> None:
    """Raise `StorageError` if no regular file can be written to `path`; `option` is the option's name for the message.

    The folder of `path` must exist, or come into being when one of the folders in `made` is created.
    """
    try:
        reason = _file_fault(path, made or [])
    except (OSError, ValueError) as error:
        reason = f"{_reason(error)}; give another path"
    if reason:
        raise refusal(path, option, reason)


def check_folder(path: PathLike, option: str = "") -> None:
    """Raise `StorageError` if `path` is not a folder that can be written into, and cannot be created as one."""
    try:
        reason = _folder_fault(Path(os.path.abspath(path)))
    except (OSError, ValueError) as error:
        reason = f"{_reason(error)}; give another folder"
    if reason:
        raise refusal(path, option, reason, "folder")


def refusal(path: PathLike, option: str, reason: str, what: str = "file") -> StorageError:
    """Return the error for an output at `path`; `reason` ends with what to do, `what` is "file" or "folder"."""
    return StorageError(f"The {f'{option} {what}'.strip()} {_named(path)} cannot be written: {reason}.")


def check_kind(path: PathLike, option: str = "") -> None:
    """Raise `StorageError` if `path` is a pipe, a device, a socket or a folder, even if it can be written."""
    kind = ""
    with contextlib.suppress(OSError, ValueError):
        kind = _kind(os.stat(path))
    if kind:
        raise refusal(path, option, f"it is {kind}; give another path")


def _kind(found: os.stat_result) -> str:
    return next((kind for is_kind, kind in KINDS if is_kind(found.st_mode)), "")


def _file_fault(path: PathLike, made: list[Path]) -> str:
    if os.fspath(path) == "-":
        return "standard output is the document's; give the path of a file, ./- where it is called so"
    target, found = _resolved(path)
    if found is not None:
        if kind := _kind(found):
            return f"it is {kind}; give another path"
        if any(os.path.samestat(found, own) for own in _own_streams()):
            return "it is where this command prints; give another path"
        if not os.access(target, os.W_OK):
            return "it is write-protected; give another path"
    elif not target.parent.exists():
        if any(folder.is_relative_to(target.parent) for folder in made):
            return ""
        return f"the folder {_named(target.parent)} does not exist; make it or give another path"
    return _probe(target.parent)


def _folder_fault(place: Path) -> str:
    missing = []
    while not place.exists():
        if place.is_symlink():
            return f"{_named(place)} is a link that leads nowhere; give another folder"
        missing.append(place.name)
        place = place.parent
    if not place.is_dir():
        return f"{_named(place)} is not a folder; give another folder"
    if missing and max(len(os.fsencode(name)) for name in missing) > os.pathconf(place, "PC_NAME_MAX"):
        return "its name is too long; give another folder"
    return _probe(place)


def _probe(folder: Path) -> str:
    """Return why nothing can be written in a folder, found by trying; an empty string if something can."""
    room = _new_room(folder)
    try:
        os.mkdir(room)
    except OSError as error:
        return f"{_reason(error)} in the folder {_named(folder)}; give another path"
    finally:
        with contextlib.suppress(OSError):
            os.rmdir(room)
    return ""


@contextlib.contextmanager
def _room(folder: Path) -> Iterator[Path]:
    """Give a temporary folder within `folder` while the block runs, and remove those of killed processes."""
    clear(folder)
    room, held = _new_room(folder), None
    try:
        os.mkdir(room, 0o700)
        held = _lock(room)
        yield room
    finally:
        shutil.rmtree(room, ignore_errors=True)
        if held is not None:
            os.close(held)


def clear(folder: Path, older: float = SETTLED_SECONDS) -> None:
    """Remove temporary folders of killed processes that are older than `older` seconds; a lock marks those in use."""
    with contextlib.suppress(OSError):
        for room in [folder / name for name in os.listdir(folder) if is_room(name)]:
            if time.time() - room.stat().st_mtime > older and (held := _lock(room)) is not None:
                shutil.rmtree(room, ignore_errors=True)
                os.close(held)


def _lock(room: Path) -> int | None:
    """Take a lock that ends with this process; returns None if another process has it or locks are not available."""
    if sys.platform == "win32":
        return None
    import fcntl

    held = os.open(room, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        return None
    return held


def _settle(aside: Path, found: os.stat_result | None, mode: int) -> None:
    """Flush a temporary file to disk, with the owner and permissions of the file that it replaces."""
    with open(aside, "r+b") as stream:
        os.fsync(stream.fileno())
    if found is not None and hasattr(os, "chown"):
        with contextlib.suppress(OSError):
            os.chown(aside, found.st_uid, found.st_gid)
    os.chmod(aside, mode)


def _resolved(path: PathLike) -> tuple[Path, os.stat_result | None]:
    """Return the file behind a path, with symbolic links followed, and its status; None if there is no file."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return _real(path), None
    return Path(os.path.realpath(path, strict=True)), found


def _real(path: PathLike) -> Path:
    return Path(os.path.realpath(path))


def _new_room(folder: Path) -> Path:
    return folder / f"{ROOM_START}{secrets.token_hex(8)}{ROOM_END}"


def _own_streams() -> Iterator[os.stat_result]:
    for stream in (1, 2):
        with contextlib.suppress(OSError):
            yield os.fstat(stream)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _named(path: PathLike) -> str:
    return shown(os.fspath(path), SHOWN)
