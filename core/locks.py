"""A folder that one process at a time writes to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import StorageError


@contextmanager
def made_and_locked(folder: Path, name: str, busy: StorageError) -> Iterator[None]:
    """Make a folder if it is missing, and hold the lock `name` in it while the block runs.

    A folder that was made and stays empty is removed at the end. Raises `busy` if another process holds the lock, and
    `StorageError` if the folder cannot be made.
    """
    made = [place for place in (folder, *folder.parents) if not os.path.exists(place)]
    try:
        with _held(folder, name, busy):
            yield
    finally:
        for place in made:
            with suppress(OSError):
                place.rmdir()


@contextmanager
def _held(folder: Path, name: str, busy: StorageError) -> Iterator[None]:
    path = folder / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = _locked(path)
    except BlockingIOError:
        raise busy from None
    except OSError as error:
        raise StorageError(f"The folder {folder} cannot be made or written to: {error.strerror or error}.") from error
    try:
        yield
    finally:
        # While it is held, so that whoever has opened this file meanwhile finds it gone and makes a new one.
        with suppress(OSError):
            path.unlink()
        os.close(lock)


def _locked(path: Path) -> int:
    """Lock the file at `path`, made if missing, and return its descriptor.

    Raises `BlockingIOError` if another holds it.
    """
    import fcntl  # not on Windows, where pages need none of this

    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its holder may have removed it between the opening and the locking.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(lock), os.stat(path)):
                    return lock
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)
