"""The store does not lie: what was damaged has not finished, and a file that is no whole store is refused."""

from __future__ import annotations

import os
import socket
import sqlite3
import tempfile
from pathlib import Path

import numpy as np
import pytest

from core.errors import StorageError
from core.sweep import store as store_module
from core.sweep.cells import COLUMNS, row_of
from core.sweep.store import SCHEMA_VERSION, Store
from tests.sweep.test_store import cell, put


def change(path: Path, statement: str, *values: object) -> None:
    """An edit of the file by another program."""
    connection = sqlite3.connect(path)
    connection.execute(statement, values)
    connection.commit()
    connection.close()


EDITS = {
    "key": "randomblob(32)",
    "recipe": "'lns'",
    "blocks": "9",
    "seed": "'1'",
    "status": "'refused'",
    "reason": "x'ff'",
    "numbers": "substr(numbers, 1, 13)",
    "digest": "zeroblob(32)",
}


@pytest.mark.parametrize(("column", "value"), [*EDITS.items(), ("numbers", "x''"), ("numbers", "zeroblob(56)")])
def test_an_edited_cell_has_not_finished_and_is_replaced(tmp_path: Path, column: str, value: str) -> None:
    assert set(EDITS) == set(COLUMNS)
    put(tmp_path / "cells.sqlite", 0, 3)
    change(tmp_path / "cells.sqlite", f"UPDATE cells SET {column} = {value} WHERE rowid = 2")
    keys = [cell(number).key for number in range(3)]
    with Store.open(tmp_path / "cells.sqlite") as store:
        assert set(store.lookup(keys)) == {keys[0], keys[2]}
        # A cell under another key is no cell of anybody's, so nobody met it.
        assert store.damaged == (column != "key")
        assert store.put([cell(1)]) == 1
        assert store.damaged == 0
        assert {key: found.numbers.tobytes() for key, found in store.lookup(keys).items()} == {
            cell(number).key: cell(number).numbers for number in range(3)
        }


def test_two_cells_under_each_others_keys_have_not_finished(tmp_path: Path) -> None:
    put(tmp_path / "cells.sqlite", 0, 2)
    for row, key in ((1, b"aside"), (2, cell(0).key), (1, cell(1).key)):
        change(tmp_path / "cells.sqlite", "UPDATE cells SET key = ? WHERE rowid = ?", key, row)
    with Store.open(tmp_path / "cells.sqlite") as store:
        assert store.lookup([cell(0).key, cell(1).key]) == {}
        assert store.damaged == 2


@pytest.mark.parametrize("numbers", [[1.0, np.nan, 2.0], [1.0, np.inf, 2.0], [1.0, 2.0], [1.0, 2.0, 3.0, 4.0]])
def test_numbers_that_no_cell_has_are_damage_though_their_digest_fits(tmp_path: Path, numbers: list[float]) -> None:
    bad = cell(1)._replace(numbers=np.array(numbers).tobytes())
    with Store.open(tmp_path / "cells.sqlite") as store:
        store.put([bad, cell(2, size=3), cell(3, reason="Refused.")])
        assert set(store.lookup([cell(n).key for n in (1, 2, 3)], size=3)) == {cell(2).key, cell(3).key}
        store.put([cell(1, size=3)])
        assert len(store.lookup([cell(1).key], size=3)) == 1


def test_a_damaged_cell_that_another_process_replaced_stays(tmp_path: Path) -> None:
    put(tmp_path / "cells.sqlite", 0, 1)
    change(tmp_path / "cells.sqlite", "UPDATE cells SET blocks = 1")
    with Store.open(tmp_path / "cells.sqlite") as first, Store.open(tmp_path / "cells.sqlite") as second:
        for store in (first, second):
            assert store.lookup([cell(0).key]) == {}
        first.put([cell(0)])
        second.put([cell(1)])
        assert set(second.lookup([cell(0).key, cell(1).key])) == {cell(0).key, cell(1).key}


def test_a_digest_covers_every_column_and_where_each_ends() -> None:
    plain = cell(1)._replace(recipe="ab", reason="c", numbers=b"")
    variants = [
        plain,
        plain._replace(key=b"other"),
        plain._replace(recipe="a", reason="bc"),
        plain._replace(blocks=9),
        plain._replace(seed=5),
        plain._replace(reason=""),
        plain._replace(numbers=bytes(8)),
    ]
    assert len({row_of(variant)[-1] for variant in variants}) == len(variants)


@pytest.mark.parametrize("version", [SCHEMA_VERSION - 1, SCHEMA_VERSION + 1])
def test_a_store_of_another_version_is_refused_with_a_way_out_and_left_as_it_is(tmp_path: Path, version: int) -> None:
    path = tmp_path / "cells.sqlite"
    put(path, 0, 3)
    change(path, f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    with pytest.raises(StorageError, match="left as it is; move the file away or give another path") as caught:
        Store.open(path)
    assert ("an earlier version" in str(caught.value)) == (version < SCHEMA_VERSION)
    assert path.read_bytes() == before


@pytest.mark.parametrize("lost", [1, 100, 4096, 5000])
def test_a_store_without_its_end_is_refused_as_damaged(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "cells.sqlite"
    put(path, 0, 50, size=400)
    content = path.read_bytes()[:-lost]
    path.write_bytes(content)
    with pytest.raises(StorageError, match="damaged") as caught:
        Store.open(path)
    assert str(path) in str(caught.value)
    assert "move the file away or give another path" in str(caught.value)
    assert "space" not in str(caught.value)
    assert path.read_bytes() == content


def test_a_store_without_its_table_is_damaged_in_words_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "cells.sqlite"
    put(path, 0, 1)
    change(path, "DROP TABLE cells")
    with Store.open(path) as store, pytest.raises(StorageError, match="damaged") as caught:
        store.lookup([cell(0).key])
    assert "no such table" not in str(caught.value)


def test_what_is_no_file_is_refused_by_its_kind(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    # A socket's path may have hardly a hundred characters.
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{short}/socket")
        for path, kind in (
            (tmp_path / "pipe", "a pipe"),
            (tmp_path / "folder", "a folder"),
            (Path(short) / "socket", "a socket"),
            (Path("/dev/null"), "a device"),
        ):
            with pytest.raises(StorageError, match=f"{path}' cannot be written: it is {kind}; give another path"):
                Store.open(path)


def test_waiting_for_another_program_is_said_once_and_then_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, said = tmp_path / "cells.sqlite", list[str]()
    put(path, 0, 1)
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN EXCLUSIVE")
    monkeypatch.setattr(store_module, "NOTICE_SECONDS", 0.01)

    def heard(sentence: str) -> None:
        said.append(sentence)
        holder.execute("ROLLBACK")

    with Store.open(path, say=heard) as store:
        assert said == [f"Waiting for the store {path}, which another program holds."]
        store.put([cell(1)])
        holder.execute("BEGIN EXCLUSIVE")
        store.put([cell(2)])
        assert store.count() == 3
    assert len(said) == 2
    holder.close()


def test_a_store_that_stays_held_is_refused_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, said = tmp_path / "cells.sqlite", list[str]()
    put(path, 0, 1)
    monkeypatch.setattr(store_module, "NOTICE_SECONDS", 0.01)
    monkeypatch.setattr(store_module, "BUSY_SECONDS", 0.05)
    holder = sqlite3.connect(path, isolation_level=None)
    with Store.open(path, say=said.append) as store:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match=r"another program holds it; .* so end that program or give another"):
            store.put([cell(2)])
        holder.execute("ROLLBACK")
        assert store.count() == 1
    assert len(said) == 1
    holder.close()


def test_a_file_that_is_moved_away_meanwhile_is_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "cells.sqlite"
    with Store.open(path) as store:
        store.put([cell(1)])
        path.rename(tmp_path / "elsewhere")
        with pytest.raises(StorageError, match=r"moved or deleted meanwhile; .* run the sweep again or give") as caught:
            store.put([cell(2)])
    assert "read" not in str(caught.value).replace(str(path), "")
