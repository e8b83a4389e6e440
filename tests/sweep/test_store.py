"""The store: what was put is found to the bit, nothing is half written, and nothing foreign is touched."""

from __future__ import annotations

import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

from core.errors import DepthscopeError, StorageError
from core.sweep.cells import Cell
from core.sweep.store import Store
from tests.sweep.support import ROOT

NOBODY = 65534


def cell(number: int, size: int = 7, reason: str = "") -> Cell:
    """A cell with a distinct key and distinct numbers."""
    numbers = (np.arange(0 if reason else size, dtype=np.float64) / 3 + number).tobytes()
    return Cell(number.to_bytes(32, "big"), "gpt2", 8, 2**64 - 1 - number, reason, numbers)


def put(path: Path, first: int, count: int, size: int = 7) -> None:
    """Store a run of cells, in one transaction each."""
    with Store.open(path) as store:
        for number in range(first, first + count):
            store.put([cell(number, size)])


@contextmanager
def unprivileged() -> Iterator[None]:
    """Let file permissions bind, also where the tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_what_was_put_is_found_to_the_bit_by_another_connection(tmp_path: Path) -> None:
    special = np.array([0.1, -0.0, 5e-324, np.inf, np.nan, 1.7976931348623157e308])
    with Store.open(tmp_path / "deep" / "cells.sqlite") as store:
        assert (
            store.put([cell(1), cell(2, reason='not "finite", really'), cell(3)._replace(numbers=special.tobytes())])
            == 3
        )
    with Store.open(tmp_path / "deep" / "cells.sqlite") as store:
        found = store.lookup([cell(number).key for number in range(5)])
        assert store.count() == 3
    assert set(found) == {cell(number).key for number in (1, 2, 3)}
    assert found[cell(1).key].numbers.tobytes() == cell(1).numbers
    assert found[cell(3).key].numbers.tobytes() == special.tobytes()
    assert found[cell(2).key].reason == 'not "finite", really'
    assert len(found[cell(2).key].numbers) == 0


def test_many_keys_are_found_in_one_call(tmp_path: Path) -> None:
    with Store.open(tmp_path / "cells.sqlite") as store:
        store.put(cell(number) for number in range(1700))
        assert len(store.lookup([cell(number).key for number in range(-0, 2000)])) == 1700


def test_a_finished_cell_is_never_changed(tmp_path: Path) -> None:
    with Store.open(tmp_path / "cells.sqlite") as store:
        store.put([cell(1)])
        assert store.put([cell(1)._replace(numbers=bytes(24)), cell(2)]) == 1
        assert store.lookup([cell(1).key])[cell(1).key].numbers.tobytes() == cell(1).numbers


def test_a_batch_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    def failing() -> Iterator[Cell]:
        yield cell(1)
        raise KeyboardInterrupt

    with Store.open(tmp_path / "cells.sqlite") as store:
        with pytest.raises(KeyboardInterrupt):
            store.put(failing())
        with pytest.raises(StorageError):
            store.put([cell(2), cell(3)._replace(recipe=object())])  # type: ignore[arg-type]
        assert store.count() == 0
        store.put([cell(4)])
        assert store.count() == 1


def test_seeds_are_text_for_whoever_opens_the_file(tmp_path: Path) -> None:
    put(tmp_path / "cells.sqlite", 0, 1)
    with sqlite3.connect(tmp_path / "cells.sqlite") as connection:
        row = connection.execute("SELECT recipe, blocks, seed, status FROM cells").fetchone()
    assert row == ("gpt2", 8, "18446744073709551615", "observed")


def test_other_connections_writes_are_noticed_and_own_ones_are_not(tmp_path: Path) -> None:
    with Store.open(tmp_path / "cells.sqlite") as first, Store.open(tmp_path / "cells.sqlite") as second:
        version = first.version()
        first.put([cell(1)])
        assert first.version() == version
        second.put([cell(2)])
        assert first.version() != version


@pytest.mark.parametrize("content", [b"a text of somebody's own\n" * 100, b"SQLite format 3\0" + b"\xff" * 4000])
def test_a_file_that_is_no_store_is_refused_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "notes").write_bytes(content)
    with pytest.raises(StorageError, match="notes"):
        Store.open(tmp_path / "notes")
    assert (tmp_path / "notes").read_bytes() == content


def test_another_programs_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.sqlite") as connection:
        connection.execute("CREATE TABLE cells (name TEXT)")
    before = (tmp_path / "other.sqlite").read_bytes()
    with pytest.raises(StorageError, match="something else"):
        Store.open(tmp_path / "other.sqlite")
    assert (tmp_path / "other.sqlite").read_bytes() == before


@pytest.mark.parametrize("path", ["file/cells.sqlite", "folder"])
def test_a_path_that_cannot_be_a_store_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DepthscopeError):
        Store.open(tmp_path / path)


def test_a_damaged_store_is_refused_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "cells.sqlite"
    put(path, 0, 50, size=400)
    content = bytearray(path.read_bytes())
    content[8192:40_000] = b"\x5a" * (40_000 - 8192)
    path.write_bytes(content)
    with pytest.raises(StorageError) as caught, Store.open(path) as store:
        store.lookup([cell(number).key for number in range(50)])
    assert "damaged" in str(caught.value)


def test_a_read_only_store_is_read_and_refuses_to_be_written_in_a_sentence() -> None:
    # Not tmp_path: its parents are closed to other users.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cells.sqlite"
        put(path, 0, 3)
        path.chmod(0o444)
        os.chmod(folder, 0o555)
        before = path.read_bytes()
        with unprivileged(), Store.open(path) as store:
            assert len(store.lookup([cell(number).key for number in range(3)])) == 3
            with pytest.raises(StorageError, match="may only be read"):
                store.put([cell(4)])
            assert store.count() == 3
        assert path.read_bytes() == before
        os.chmod(folder, 0o755)


def test_a_full_disk_keeps_what_was_stored(tmp_path: Path) -> None:
    path = tmp_path / "cells.sqlite"
    put(path, 0, 20, size=400)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Store.open(path) as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20_000, limits[1]))
        try:
            with pytest.raises(StorageError, match="full"):
                store.put(cell(number, 400) for number in range(100, 200))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert store.count() == 20
        store.put([cell(100, 400)])
        assert store.count() == 21


def test_two_processes_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "cells.sqlite"
    code = (
        "import sys; from pathlib import Path; from tests.sweep.test_store import put; put(Path(sys.argv[1]), {}, 60)"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code.format(first), str(path)], cwd=ROOT) for first in (0, 40)]
    assert [writer.wait(600) for writer in writers] == [0, 0]
    with Store.open(path) as store:
        assert store.count() == 100
        found = store.lookup([cell(number).key for number in range(100)])
    assert all(found[cell(n).key].numbers.tobytes() == cell(n).numbers for n in range(100))


def test_the_size_limit_deletes_the_oldest_cells_and_nothing_that_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "cells.sqlite"
    (tmp_path / "bystander.sqlite").write_bytes(b"mine")
    with Store.open(path, limit_bytes=200_000) as store:
        store.put(cell(number, 250) for number in range(200))
        assert store.used_bytes() > 400_000
        kept = {cell(number).key for number in range(10)}
        deleted = store.trim(kept)
        left = store.lookup([cell(number).key for number in range(200)])
    assert len(left) == 200 - deleted
    assert kept <= set(left)
    # Beside those kept, the newest survive.
    survivors = sorted(int.from_bytes(key, "big") for key in set(left) - kept)
    assert survivors == list(range(200 - len(survivors), 200))
    assert 100_000 < path.stat().st_size <= 200_000
    assert (tmp_path / "bystander.sqlite").read_bytes() == b"mine"


def test_within_the_limit_nothing_is_deleted(tmp_path: Path) -> None:
    with Store.open(tmp_path / "cells.sqlite") as store:
        store.put(cell(number) for number in range(100))
        assert store.trim() == 0
        assert store.count() == 100


def test_many_openings_of_a_new_store_at_once_agree(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        for attempt in range(30):
            path = tmp_path / f"{attempt}.sqlite"
            together = Barrier(8)

            def opened(path: Path = path, together: Barrier = together) -> int:
                together.wait()
                with Store.open(path) as store:
                    return store.count()

            assert [future.result() for future in [pool.submit(opened) for _ in range(8)]] == [0] * 8
