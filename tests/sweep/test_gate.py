"""`sweep --gate`: its verdict is that of the table, cell by cell, and says which cell is first and which is worst."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.support import Outcome, run_cli
from tests.sweep.support import csv_rows


def sweep(folder: Path, *arguments: object) -> Outcome:
    return run_cli("sweep", "--seeds", "0:3", "--store", folder / "cells.sqlite", "--out", folder / "out", *arguments)


def test_inside_the_band_the_gate_is_silent(tmp_path: Path) -> None:
    for _ in range(2):
        outcome = sweep(tmp_path, "--blocks", "1,4", "--gate", "--json")
        assert outcome.status == 0
        verdict = {"pass": True, "cells": 6, "outside": 0, "refused": 0, "first": None, "worst": None}
        assert outcome.document()["gate"] == verdict
    assert outcome.err == ""


@pytest.mark.parametrize("band", ["0.5,3", "0.9,1.1", "0.001,2", "2,100"])
def test_the_verdict_is_the_tables(tmp_path: Path, band: str) -> None:
    low, high = map(float, band.split(","))
    # Again from the folder alone, without a store.
    for _ in range(2):
        outcome = sweep(tmp_path, "--blocks", "1,6", "--recipe", "gpt2,lns", "--band", band, "--gate", "--json")
        assert outcome.status == 1
        gate = outcome.document()["gate"]
        rows = [row for row in csv_rows(tmp_path / "out" / "sweep.csv") if row["arm"] == "initialized"]
        beyond = [
            (max(low / ratio, ratio / high), row, kind, ratio)
            for row in rows
            for kind in ("activation", "adjoint")
            if not low <= (ratio := float(row[f"{kind}_ratio"])) <= high
        ]
        assert gate["outside"] == len({(row["recipe"], row["seed"], row["blocks"]) for _, row, _, _ in beyond})
        assert (gate["cells"], gate["refused"], gate["pass"]) == (12, 0, False)
        for name, (_, row, kind, ratio) in (("first", beyond[0]), ("worst", max(beyond, key=lambda one: one[0]))):
            found = gate[name]
            assert (found["recipe"], found["seed"], found["blocks"]) == (row["recipe"], row["seed"], int(row["blocks"]))
            assert (found["label"], found["kind"], found["ratio"]) == (row["label"], kind, ratio)
            assert found["limit"] == (low if ratio < low else high)
            words = f"{row['recipe']}, seed {row['seed']}, {row['blocks']} block"
            assert words in outcome.err.splitlines()[-1]
            assert f"{kind} ratio {ratio:.6g} at {row['label']}, " in outcome.err.splitlines()[-1]


def test_the_control_is_not_judged(tmp_path: Path) -> None:
    arguments = ("--blocks", "64", "--recipe", "zero-writer", "--band", "0.5,2")
    outcome = sweep(tmp_path, *arguments, "--gate")
    control = [row for row in csv_rows(tmp_path / "out" / "sweep.csv") if row["arm"] == "control"]
    assert max(float(row["activation_ratio"]) for row in control) > 2
    assert (outcome.status, outcome.err.count("initialized cells")) == (0, 0)


def test_refused_cells_fail_the_gate_with_their_reason(tmp_path: Path) -> None:
    outcome = sweep(tmp_path, "--blocks", "1,2", "--recipe", "deepscalelm", "--band", "1e-9,1e9", "--gate", "--json")
    gate = outcome.document()["gate"]
    assert (outcome.status, gate["cells"], gate["outside"], gate["refused"]) == (1, 6, 0, 3)
    assert gate["first"]["ratio"] is None
    assert gate["first"]["reason"].rstrip(".") in outcome.err
    last = outcome.err.splitlines()[-1]
    assert (
        "0 of 6 initialized cells leave the band and 3 are refused; the first is deepscalelm, seed 0, 1 block" in last
    )


def test_an_axis_beside_the_contracts_columns_is_named_and_counted(tmp_path: Path) -> None:
    outcome = sweep(tmp_path, "--blocks", "2", "--dtype", "float32,float64", "--band", "0.9,1.1", "--gate", "--json")
    gate = outcome.document()["gate"]
    assert gate["cells"] == gate["outside"] == 6
    assert ", dtype float32, " in outcome.err.splitlines()[-1]
    assert math.isfinite(gate["worst"]["ratio"])


def test_without_the_gate_nothing_is_judged(tmp_path: Path) -> None:
    outcome = sweep(tmp_path, "--blocks", "2", "--band", "0.9,1.1", "--json")
    assert outcome.status == 0
    assert "gate" not in outcome.document()
