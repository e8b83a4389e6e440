"""The verb `sweep` where something is in the way: damaged cells, another sweep, a store that is none, no answer."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from pathlib import Path

import pytest

from core.sweep.output import LOCK, OutputFolder
from tests.sweep.support import files
from tests.sweep.test_command import SMALL, home, sweep

__all__ = ["home"]


def test_damaged_cells_are_told_of_and_computed_anew(home: Path) -> None:
    whole = ("--store", home / "cells.sqlite", "--out", home / "whole")
    assert sweep(*SMALL, *whole).status == 0
    connection = sqlite3.connect(home / "cells.sqlite")
    connection.execute("UPDATE cells SET numbers = zeroblob(8) WHERE rowid IN (2, 5)")
    connection.commit()
    connection.close()
    outcome = sweep(*SMALL, "--store", home / "cells.sqlite", "--out", home / "out")
    assert outcome.status == 0
    assert outcome.err.splitlines()[0] == f"Damaged cells of the store {home / 'cells.sqlite'}, computed anew: 2."
    assert files(home / "out") == files(home / "whole")
    again = sweep(*SMALL, "--store", home / "cells.sqlite", "--out", home / "again")
    assert again.err == ""


def test_a_folder_that_another_sweep_writes_to_is_refused_and_nothing_changes(home: Path) -> None:
    folder = home / "out"
    with OutputFolder(folder).claimed():
        held = os.listdir(folder)
        outcome = sweep(*SMALL, "--store", home / "cells.sqlite", "--out", folder)
        assert (outcome.status, outcome.out) == (2, "")
        assert outcome.err == (
            f"Another sweep is writing to the folder {folder}; wait until it has ended, or give another folder as "
            "--out.\n"
        )
        assert os.listdir(folder) == held
        assert os.listdir(home) == ["out"]
    # A folder that was made and stayed empty is gone with its claim.
    assert os.listdir(home) == []
    assert sweep(*SMALL, "--store", home / "cells.sqlite", "--out", folder).status == 0


def test_a_lock_that_a_killed_sweep_left_stands_in_nobodys_way(home: Path) -> None:
    folder = home / "out"
    folder.mkdir()
    (folder / LOCK).write_text("")
    assert sweep(*SMALL, "--out", folder).status == 0
    assert sorted(os.listdir(folder)) == ["manifest.json", "summary.csv", "sweep.csv"]


def test_what_a_killed_sweep_left_aside_a_moment_ago_is_removed(home: Path) -> None:
    left = home / "out" / ".depthscope-0123456789abcdef.partial"
    left.mkdir(parents=True)
    (left / "0").write_text("arm,")
    assert sweep(*SMALL, "--out", home / "out").status == 0
    assert sorted(os.listdir(home / "out")) == ["manifest.json", "summary.csv", "sweep.csv"]


def test_digests_are_of_the_bytes_that_were_written_whatever_is_there_afterwards(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep(*SMALL, "--parquet", "--out", home / "whole")
    replace = os.replace

    def spoilt(source: str, target: str) -> None:
        replace(source, target)
        if not str(target).endswith("manifest.json"):
            Path(target).write_text("spoilt")

    monkeypatch.setattr(os, "replace", spoilt)
    sweep(*SMALL, "--parquet", "--out", home / "out")
    manifests = [json.loads((home / name / "manifest.json").read_text()) for name in ("whole", "out")]
    assert manifests[0]["digests"] == manifests[1]["digests"]
    for name, digest in manifests[0]["digests"].items():
        assert hashlib.sha256((home / "whole" / name).read_bytes()).hexdigest() == digest


def test_a_store_inside_the_folder_is_refused_and_not_made(home: Path) -> None:
    outcome = sweep(*SMALL, "--store", home / "out" / "cells.sqlite", "--out", home / "out")
    assert (outcome.status, outcome.err.count("\n")) == (2, 1)
    assert "lies in --out" in outcome.err
    assert os.listdir(home) == []


def test_a_store_that_is_a_pipe_is_refused_and_no_folder_is_made(home: Path) -> None:
    os.mkfifo(home / "pipe")
    outcome = sweep(*SMALL, "--store", home / "pipe", "--out", home / "out")
    sentence = f"The --store file '{home / 'pipe'}' cannot be written: it is a pipe; give another path.\n"
    assert (outcome.status, outcome.err) == (2, sentence)
    assert os.listdir(home) == ["pipe"]


@pytest.mark.parametrize("seeds", ["5:9", None])
@pytest.mark.parametrize("name", ["sweep.csv", "summary.csv", "manifest.json"])
def test_a_table_that_is_a_pipe_is_refused_before_any_cell(home: Path, name: str, seeds: str | None) -> None:
    """Also where the rest of the folder is a finished sweep of this very grid."""
    sweep(*SMALL, "--out", home / "out")
    (home / "out" / name).unlink()
    os.mkfifo(home / "out" / name)
    before = {path.name: path.stat().st_mtime_ns for path in (home / "out").iterdir()}
    outcome = sweep(*SMALL, *(() if seeds is None else ("--seeds", seeds)), "--out", home / "out")
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert {path.name: path.stat().st_mtime_ns for path in (home / "out").iterdir()} == before


@pytest.mark.parametrize("text", [None, "", "{"])
def test_a_folder_without_a_whole_manifest_has_a_way_out(home: Path, text: str | None) -> None:
    sweep(*SMALL, "--out", home / "out")
    (home / "out" / "manifest.json").unlink()
    if text is not None:
        (home / "out" / "manifest.json").write_text(text)
    before = files(home / "out")
    outcome = sweep(*SMALL, "--out", home / "out")
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert "manifest" in outcome.err
    assert "or give another folder as --out." in outcome.err
    assert files(home / "out") == before


def test_more_workers_than_cores_are_told_of(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.decoder.threads.cores", lambda: 1)
    outcome = sweep(*SMALL, "--workers", "2", "--out", home / "out")
    assert outcome.status == 0
    told = [line for line in outcome.err.splitlines() if "--workers" in line]
    assert told == ["--workers is 2 where this process has cores for 1, so workers wait for one another."]


def test_a_recipe_that_refuses_everywhere_is_told_of(home: Path) -> None:
    for _ in range(2):
        outcome = sweep(*SMALL, "--recipe", "t-fixup,deepscalelm", "--out", home / "out")
        assert outcome.status == 0
        told = "Refused in every cell, for the reason that sweep.csv gives: t-fixup."
        assert outcome.err.splitlines()[-1] == told


def test_an_edited_manifest_is_not_believed_but_written_again(home: Path) -> None:
    told = sweep(*SMALL, "--out", home / "out", "--json")
    whole = files(home / "out")
    for name, value in (("cells", {"total": 12, "observed": 99, "refused": 0}), ("growth", []), ("versions", {})):
        manifest = json.loads(whole["manifest.json"])
        (home / "out" / "manifest.json").write_text(json.dumps({**manifest, name: value}, indent=1) + "\n")
        assert sweep(*SMALL, "--out", home / "out", "--json").out == told.out
        assert files(home / "out") == whole
