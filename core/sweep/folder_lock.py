"""One writer for a folder: a lock that the system takes back from a process that ends, however it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import Remedy, StorageError

LOCK = ".sweep.lock"


@contextmanager
def made_and_locked(folder: Path) -> Iterator[None]:
    """Make a folder where it is missing, and hold it alone; what was made and stays empty is removed at the end.

    Raises `StorageError` where it cannot be made, or where another sweep holds it.
    """
    made = [place for place in (folder, *folder.parents) if not os.path.exists(place)]
    try:
        with _held(folder):
            yield
    finally:
        for place in made:
            with suppress(OSError):
                place.rmdir()


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    path = folder / LOCK
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = _locked(path)
    except BlockingIOError:
        raise StorageError(
            f"Another sweep is writing to the folder {folder}", "wait until it has ended", Remedy.OUTPUT
        ) from None
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
    """Descriptor of the file at `path`, made where it is missing; raises `BlockingIOError` where another holds it."""
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
