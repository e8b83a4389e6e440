"""The verb `sweep`: its files, its refusals, and what it does when a folder is already there."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path

import pandas as pd
import pytest

from core.health.columns import SITE_COLUMNS
from core.sweep.engine import Engine
from core.sweep.store import Store, default_store
from core.sweep.summary import SUMMARY_COLUMNS
from tests.support import Outcome, run_cli
from tests.sweep.support import columns_of, csv_rows, files
from tests.sweep.test_store import unprivileged

SMALL = ("--blocks", "1,2", "--seeds", "0:3")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A separate place for the store and the folder."""
    monkeypatch.delenv("DEPTHSCOPE_STORE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def sweep(*arguments: object) -> Outcome:
    return run_cli("sweep", *arguments)


def test_the_files_are_those_of_the_contract(home: Path) -> None:
    outcome = sweep(*SMALL, "--out", home / "out")
    assert outcome.status == 0
    assert sorted(os.listdir(home / "out")) == ["manifest.json", "summary.csv", "sweep.csv"]
    rows = csv_rows(home / "out" / "sweep.csv")
    assert tuple(rows[0]) == SITE_COLUMNS
    assert columns_of(rows, "arm", "recipe", "seed", "blocks", "site", "status") == [
        (arm, recipe, str(seed), str(blocks), str(site), "observed")
        for arm, recipe in (("initialized", "depth-scaled"), ("control", "unscaled"))
        for blocks in (1, 2)
        for seed in range(3)
        for site in range(2 * blocks + 1)
    ]
    summary = csv_rows(home / "out" / "summary.csv")
    assert tuple(summary[0]) == SUMMARY_COLUMNS
    manifest = json.loads((home / "out" / "manifest.json").read_text())
    assert (manifest["schema"], manifest["state"]) == ("depthscope.sweep/1", "complete")
    assert manifest["grid"]["seeds"] == "0:3"
    assert manifest["cells"] == {"total": 12, "observed": 12, "refused": 0}
    assert {"torch", "numpy", "depthscope"} <= set(manifest["versions"])
    for name, digest in manifest["digests"].items():
        assert hashlib.sha256((home / "out" / name).read_bytes()).hexdigest() == digest
    assert "12 cells, 12 observed, 0 refused" in outcome.out
    assert "12 of 12 cells" in outcome.err


def test_json_is_one_document_and_progress_goes_to_standard_error(home: Path) -> None:
    outcome = sweep(*SMALL, "--out", home / "out", "--json")
    document = outcome.document()
    assert document["cells"]["observed"] == 12
    assert {row["kind"] for row in document["growth"]} == {"fit", "derived"}
    assert "cells/s" in outcome.err


def test_the_same_sweep_again_and_from_another_folder_computes_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = sweep(*SMALL, "--out", home / "out")
    monkeypatch.setattr(Engine, "run", None)
    again = sweep(*SMALL, "--out", home / "out")
    assert (again.status, again.out, again.err) == (0, first.out, "")
    assert sweep(*SMALL, "--out", home / "other").status == 0
    assert files(home / "other") == files(home / "out")


def test_a_damaged_or_lost_file_is_written_again_from_the_store(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep(*SMALL, "--out", home / "out")
    whole = files(home / "out")
    monkeypatch.setattr(Engine, "run", None)
    (home / "out" / "sweep.csv").write_bytes(whole["sweep.csv"][:-1])
    (home / "out" / "summary.csv").unlink()
    assert sweep(*SMALL, "--out", home / "out").status == 0
    assert files(home / "out") == whole


def test_another_grid_replaces_the_files_of_an_earlier_sweep(home: Path) -> None:
    sweep(*SMALL, "--out", home / "out", "--parquet")
    sweep("--blocks", "1", "--seeds", "0:2", "--out", home / "out")
    assert sorted(os.listdir(home / "out")) == ["manifest.json", "summary.csv", "sweep.csv"]
    assert len(csv_rows(home / "out" / "sweep.csv")) == 2 * 2 * 3


@pytest.mark.parametrize("foreign", ["notes.txt", "sweep.csv", "manifest.json", "sub"])
def test_a_folder_of_something_else_is_refused_and_left_alone(home: Path, foreign: str) -> None:
    folder = home / "out"
    folder.mkdir()
    if foreign == "sub":
        (folder / foreign).mkdir()
    else:
        (folder / foreign).write_text('{"schema": "something"}')
    outcome = sweep(*SMALL, "--out", folder)
    assert (outcome.status, outcome.out) == (2, "")
    assert len(outcome.err.splitlines()) == 1
    assert os.listdir(folder) == [foreign]
    assert not (home / "cache").exists()


def test_what_is_no_folder_is_refused_with_a_way_out_and_left_alone(home: Path) -> None:
    (home / "file").write_text("mine")
    (home / "loop").symlink_to("loop")
    for name in ("file", "file/below", "loop", "n" * 300):
        outcome = sweep(*SMALL, "--out", home / name)
        assert (outcome.status, outcome.out) == (2, "")
        assert len(outcome.err.splitlines()) == 1
        assert outcome.err.strip().endswith("; give another folder as --out.")
    assert sorted(os.listdir(home)) == ["file", "loop"]
    assert (home / "file").read_text() == "mine"


def test_a_folder_that_an_interrupted_sweep_left_is_gone_on_with(home: Path) -> None:
    sweep(*SMALL, "--out", home / "whole")
    folder = home / "out"
    folder.mkdir()
    # Killed before the first manifest, then killed while a table was written.
    (folder / "manifest.json.partial").write_text("{")
    assert sweep(*SMALL, "--out", folder).status == 0
    (folder / "sweep.csv.partial").write_text("arm,")
    (folder / "sweep.csv").unlink()
    assert sweep(*SMALL, "--out", folder).status == 0
    assert files(folder) == files(home / "whole")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--seeds", "3:1"], "empty"),
        (["--seeds", "0:3,1"], "twice"),
        (["--blocks", "1,two"], "'two'"),
        (["--blocks", "0"], "blocks is 0"),
        (["--blocks", "5000"], "4096"),
        (["--recipe", "depth"], "'depth'"),
        (["--dtype", "float16"], "'float16'"),
        (["--device", "tpu"], "'tpu'"),
        (["--width", "5"], "odd"),
        (["--width", "4,8", "--ff-width", "4,8,12"], "side by side"),
        (["--inputs", "1,2"], "--targets"),
        (["--text", "a", "--lengths", "4"], "exclude each other"),
        (["--rows", "2"], "--lengths"),
        (["--lengths", "65536", "--rows", "512"], "33,554,432 positions together"),
        (["--width", "4,8", "--kv-heads", "1,1,1"], "--width has 2 entries beside a size list of 3"),
        (["--kv-heads", ""], "--kv-heads is empty"),
        (["--positions", " "], "--positions is empty"),
        (["--head-dim", "1,x"], "--head-dim holds 'x'"),
        (["--inputs", "300", "--targets", "1"], "vocabulary"),
        (["--band", "1"], "band"),
        (["--workers", "0"], "--workers is 0; it must lie between 1 and 1,024."),
        (["--workers", "99999999999999999999"], "between 1 and 1,024"),
        (["--store-limit", "0"], "--store-limit is 0; it must lie between"),
        (["--store-limit", "-1"], "--store-limit is -1; it must lie between"),
        (["--seeds", "0:4194304"], "16,777,216 cells"),
        (["--max-parameters", "10"], "--max-parameters"),
        (["--batch", "nowhere.json"], "nowhere.json"),
    ],
)
def test_refused_input_ends_in_one_sentence(home: Path, arguments: list[str], words: str) -> None:
    outcome = sweep(*SMALL, *arguments, "--out", home / "out")
    assert (outcome.status, outcome.out) == (2, "")
    assert words in outcome.err
    assert len(outcome.err.splitlines()) == 1
    assert not (home / "out").exists()


def test_refused_cells_are_rows_and_stop_nothing(home: Path) -> None:
    outcome = sweep(*SMALL, "--recipe", "t-fixup,deepscalelm", "--out", home / "out")
    assert outcome.status == 0
    rows = csv_rows(home / "out" / "sweep.csv")
    refused = [row for row in rows if row["status"] == "refused"]
    assert columns_of(refused, "recipe", "seed", "blocks", "site", "activation_rms") == [
        *(("t-fixup", str(seed), str(blocks), "", "") for blocks in (1, 2) for seed in range(3)),
        *(("deepscalelm", str(seed), "1", "", "") for seed in range(3)),
    ]
    assert all(row["reason"].endswith(".") for row in refused)
    assert {row["reason"] for row in rows if row["status"] == "observed"} == {""}
    summary = csv_rows(home / "out" / "summary.csv")
    assert {row["refused"] for row in summary if row["recipe"] == "t-fixup"} == {"3"}
    assert "9 refused" in outcome.out


def test_sizes_go_side_by_side_and_lengths_with_rows(home: Path) -> None:
    outcome = sweep(
        "--blocks", "1", "--seeds", "7", "--width", "4,8", "--heads", "1,2", "--vocabulary", "50",
        "--lengths", "3,6", "--rows", "1,2", "--dtype", "float32,float64", "--out", home / "out",
    )  # fmt: skip
    assert outcome.status == 0, outcome.err
    rows = csv_rows(home / "out" / "sweep.csv")
    assert tuple(rows[0]) == (*SITE_COLUMNS, "width", "heads", "kv_heads", "dtype", "batch")
    combinations = {(row["width"], row["heads"], row["dtype"], row["batch"]) for row in rows}
    assert combinations == {
        (width, heads, dtype, batch)
        for width, heads in (("4", "1"), ("8", "2"))
        for dtype in ("float32", "float64")
        for batch in ("1x3", "2x3", "1x6", "2x6")
    }


def test_batch_files_are_axes_too(home: Path) -> None:
    for name, inputs in (("a", [[1, 2]]), ("b", [[1, 2, 3]])):
        (home / f"{name}.json").write_text(json.dumps({"inputs": inputs, "targets": inputs}))
    arguments = ("--batch", home / "a.json", "--batch", home / "b.json")
    assert sweep(*SMALL, *arguments, "--out", home / "out").status == 0
    assert {row["batch"] for row in csv_rows(home / "out" / "sweep.csv")} == {"1x2", "1x3"}


def test_parquet_holds_the_table_of_the_csv(home: Path) -> None:
    sweep(*SMALL, "--recipe", "gpt2,t-fixup", "--parquet", "--out", home / "out")
    table = pd.read_parquet(home / "out" / "sweep.parquet")
    rows = csv_rows(home / "out" / "sweep.csv")
    assert len(table) == len(rows)
    for name in SITE_COLUMNS:
        values = ["" if pd.isna(value) else value for value in table[name].tolist()]
        texts = [str(int(v)) if name == "site" and v != "" else str(v) for v in values]
        assert texts == [row[name] for row in rows]
    first = files(home / "out")
    sweep(*SMALL, "--recipe", "gpt2,t-fixup", "--parquet", "--out", home / "again")
    assert files(home / "again") == first


def test_a_read_only_store_is_read_and_what_is_missing_ends_in_one_sentence() -> None:
    # Not tmp_path: its parents are closed to other users.
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    shelf = folder / "shelf"
    some = ("--blocks", "1", "--store", shelf / "cells.sqlite")
    try:
        assert sweep(*some, "--seeds", "0:5", "--out", folder / "first").status == 0
        (shelf / "cells.sqlite").chmod(0o444)
        shelf.chmod(0o555)
        with unprivileged():
            again = sweep(*some, "--seeds", "0:5", "--out", folder / "second")
            more = sweep(*some, "--seeds", "0:9", "--out", folder / "third")
        assert again.status == 0, again.err
        assert files(folder / "second") == files(folder / "first")
        assert more.status == 2
        assert "may only be read" in more.err.splitlines()[-1]
        with Store.open(shelf / "cells.sqlite") as store:
            assert store.count() == 10
    finally:
        shelf.chmod(0o755)
        shutil.rmtree(folder)


def test_two_worker_processes_give_the_same_bytes(home: Path) -> None:
    arguments = ("--blocks", "1,2,5", "--seeds", "0:700", "--recipe", "gpt2,parallel")
    assert sweep(*arguments, "--store", home / "a.sqlite", "--out", home / "one").status == 0
    two = sweep(*arguments, "--store", home / "b.sqlite", "--workers", "2", "--out", home / "two")
    assert two.status == 0
    assert files(home / "one") == files(home / "two")


def test_the_store_of_a_user_is_shared_and_kept_to_its_limit(home: Path) -> None:
    assert default_store({"XDG_CACHE_HOME": "/x"}) == Path("/x/depthscope/cells.sqlite")
    assert default_store({}).parts[-3:] == (".cache", "depthscope", "cells.sqlite")
    sweep(*SMALL, "--out", home / "out")
    with Store.open(home / "cache" / "depthscope" / "cells.sqlite") as store:
        assert store.count() == 12
    # A sweep's own cells stay; what is beyond the limit of earlier ones goes.
    sweep("--blocks", "1", "--seeds", "90:95", "--store-limit", "1", "--out", home / "next")
    with Store.open(home / "cache" / "depthscope" / "cells.sqlite") as store:
        assert store.count() == 10


@pytest.mark.parametrize("option", ["--out", "--store", "--batch"])
def test_an_empty_path_is_refused(home: Path, option: str) -> None:
    outcome = sweep(*SMALL, *(() if option == "--out" else ("--out", home / "out")), option, "")
    assert (outcome.status, outcome.out, outcome.err) == (2, "", f"{option} is empty; give a path.\n")


def test_a_device_that_is_not_there_is_refused_before_anything_is_made(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    outcome = sweep(*SMALL, "--device", "cuda", "--out", home / "out")
    assert (outcome.status, outcome.err.count("\n")) == (2, 1)
    assert "No CUDA device" in outcome.err
    assert os.listdir(home) == []
