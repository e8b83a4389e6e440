"""`--csv` and `--html` of the verbs whose documents are tables, and `--quiet` where progress is told."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from core.command.pictures import trace_figures
from core.command.trace import trace_document
from tests.support import run_cli

TABLES = {
    "init": ["histogram", "moments"],
    "plan": ["bytes", "roles"],
    "recipes": ["recipes"],
    "trace": [
        "arrays", "bytes", "ideal", "roles", "sites-cpu-bridge", "sites-narrow-1", "sites-narrow-2", "sites-narrow-8",
        "worked-vector",
    ],
}  # fmt: skip


def rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize("verb", TABLES)
def test_tables_and_a_page_are_written_and_the_document_stays(verb: str, tmp_path: Path) -> None:
    plain = run_cli(verb, "--json")
    outcome = run_cli(verb, "--json", "--csv", tmp_path / "out", "--html", tmp_path / "page.html")
    assert (outcome.status, outcome.err, outcome.out) == (0, "", plain.out)
    assert sorted(path.stem for path in (tmp_path / "out").iterdir()) == TABLES[verb]
    assert all(rows(path) for path in (tmp_path / "out").iterdir())
    assert (tmp_path / "page.html").read_text().lower().startswith("<!doctype html>")


def test_numbers_are_those_of_the_document(tmp_path: Path) -> None:
    def written(verb: str, *options: object) -> dict[str, Any]:
        document: dict[str, Any] = run_cli(verb, *options, "--json", "--csv", tmp_path / verb).document()
        return document

    plan = written("plan")
    assert sum(int(row["coordinates"]) for row in rows(tmp_path / "plan" / "roles.csv")) == plan["parameters"]
    drawn = written("init")
    moments = {row["population"]: float(row["variance"]) for row in rows(tmp_path / "init" / "moments.csv")}
    assert moments == {name: found["variance"] for name, found in drawn["populations"].items()}
    listed = written("recipes", "--recipe", "gpt2", "--against", "deepnorm")
    assert [row["name"] for row in rows(tmp_path / "recipes" / "recipes.csv")] == ["gpt2"]
    assert len(rows(tmp_path / "recipes" / "difference.csv")) == len(listed["difference"])


@pytest.mark.parametrize("verb", TABLES)
def test_a_place_that_cannot_be_written_is_one_sentence(verb: str, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("mine")
    outcome = run_cli(verb, "--csv", taken)
    assert (outcome.status, outcome.err.count("\n")) == (2, 1)
    assert taken.read_text() == "mine"


@pytest.mark.parametrize(
    ("verb", "names"),
    [
        (("init",), ["histogram"]),
        (("recipes", "--recipe", "gpt2"), ["block-gpt2"]),
        (("lab", "soft-cap"), ["soft-cap-logit", "soft-cap-slope"]),
    ],
)
def test_figures_are_written_in_three_formats(verb: tuple[str, ...], names: list[str], tmp_path: Path) -> None:
    outcome = run_cli(*verb, "--json", "--figures", tmp_path / "out")
    assert (outcome.status, outcome.err) == (0, "")
    starts = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    written = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert sorted(written) == sorted(f"{name}.{kind}" for name in names for kind in starts)
    assert all(data.startswith(starts[name.rpartition(".")[2]]) for name, data in written.items())
    (tmp_path / "taken").write_text("mine")
    refused = run_cli(*verb, "--figures", tmp_path / "taken")
    assert (refused.status, refused.err.count("\n"), (tmp_path / "taken").read_text()) == (2, 1, "mine")


def test_figures_of_fixtures_are_those_of_their_documents() -> None:
    document = trace_document()
    found = trace_figures(document)
    for fixture in document["fixtures"]:
        expected = [site["adjoint_ratio"] for site in fixture["initialized"]["sites"]]
        assert list(found[f"{fixture['id']}-adjoint-ratio"].data[0].y) == expected
    assert sum(found["roles"].data[0].x) == document["laptop_plan"]["parameters"]
    assert sum(name.endswith("-array") for name in found) == len(document["synthetic_classifiers"])


def test_a_quiet_sweep_says_nothing_and_writes_the_same(tmp_path: Path) -> None:
    def swept(*options: str) -> Any:
        name = "quiet" if options else "loud"
        return run_cli("sweep", "--blocks", 1, "--seeds", "0:2", "--store", tmp_path / f"{name}.sqlite",
                       "--out", tmp_path / name, "--json", *options)  # fmt: skip

    loud, quiet = swept(), swept("--quiet")
    assert "cells" in loud.err
    assert (quiet.status, quiet.err) == (0, "")
    assert (tmp_path / "quiet" / "sweep.csv").read_bytes() == (tmp_path / "loud" / "sweep.csv").read_bytes()
