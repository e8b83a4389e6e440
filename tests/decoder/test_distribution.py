"""The base draw's law: its exact name, embeddings of a separate spread, and where both are recorded."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.decoder.base_draw import BaseDraw, Distribution
from core.decoder.config import DecoderConfig
from core.errors import ConfigError
from tests.support import run_cli

POSITIVE = st.floats(5e-324, 1e300)
CONFIG = DecoderConfig(blocks=2, position_encoding="learned", tied=False)


@pytest.mark.parametrize(
    ("distribution", "name"),
    [
        (Distribution(), "xavier-uniform-splitmix64"),
        (Distribution(0.02), "normal-0.02-splitmix64"),
        (Distribution(1.0, 3.0), "normal-1-truncated-3-splitmix64"),
        (Distribution(embedding_std=0.02), "xavier-uniform-embedding-0.02-splitmix64"),
        (Distribution(0.02, 2.0, 1.0), "normal-0.02-truncated-2-embedding-1-splitmix64"),
        (Distribution(0.1 + 0.2), "normal-0.30000000000000004-splitmix64"),
    ],
)
def test_names(distribution: Distribution, name: str) -> None:
    assert distribution.name == name


@given(POSITIVE, POSITIVE)
def test_two_spreads_have_one_name_only_where_they_are_equal(a: float, b: float) -> None:
    for other in (b, float(np.nextafter(a, 2 * a))):
        assert (Distribution(a).name == Distribution(other).name) == (a == other)
        assert (Distribution(embedding_std=a).name == Distribution(embedding_std=other).name) == (a == other)


@pytest.mark.parametrize("std", [0.0, -1.0, float("nan"), float("inf")])
def test_a_spread_that_is_none(std: float) -> None:
    with pytest.raises(ConfigError, match="embeddings' deviation"):
        Distribution(embedding_std=std)


@pytest.mark.parametrize("std", [None, 0.3])
def test_only_embeddings_change_and_the_stream_stays(std: float | None) -> None:
    plain, own = (BaseDraw(CONFIG, [7], Distribution(std, embedding_std=spread)) for spread in (None, 0.5))
    for part in ("stem", "block", "tail"):
        arguments = (1,) if part == "block" else ()
        before, after = getattr(plain, part)(*arguments), getattr(own, part)(*arguments)
        for key, values in before.items():
            assert np.array_equal(values, after[key]) == ("embedding" not in key), key
    assert plain.final_states() == own.final_states()
    if std is not None:
        same = BaseDraw(CONFIG, [7], Distribution(std, embedding_std=std)).stem()
        assert all(np.array_equal(values, same[key]) for key, values in plain.stem().items())


def test_a_saved_run_keeps_the_law_that_drew_it(tmp_path: Path) -> None:
    options = ["--blocks", 2, "--base-std", 0.02, "--embedding-std", 1, "--rope-base", 500, "--rms-epsilon", 1e-5]
    saved = run_cli("observe", *options, "--save", tmp_path / "run", "--json").document()
    assert saved["base_initializer_id"] == "normal-0.02-embedding-1-splitmix64"
    assert (saved["config"]["rope_base"], saved["config"]["rms_epsilon"]) == (500.0, 1e-5)
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    assert record["base_initializer_id"] == saved["base_initializer_id"]
    restored = run_cli("observe", "--restore", tmp_path / "run", "--json").document()
    assert {**restored, "construction": "initialized"} == saved


def test_a_sweep_has_the_cells_of_the_observation(tmp_path: Path) -> None:
    options = ["--embedding-std", 0.25, "--rope-base", 500, "--rms-epsilon", 1e-4]
    sweep = ["sweep", "--blocks", 2, "--seed", 7, "--store", tmp_path / "store", "--json"]
    found = run_cli(*sweep, *options, "--out", tmp_path / "own").document()
    assert found["grid"]["base_draw"] == {"std": None, "truncated_at_sigma": None, "embedding_std": 0.25}
    run_cli(*sweep, "--out", tmp_path / "plain")
    document = run_cli("observe", "--blocks", 2, "--seed", 7, *options, "--json").document()
    with open(tmp_path / "own" / "sweep.csv", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["arm"] == "initialized"]
    sites = document["initialized"]["sites"]
    assert [float(row["activation_rms"]) for row in rows] == [site["activation_rms"] for site in sites]
    assert (tmp_path / "plain" / "sweep.csv").read_text() != (tmp_path / "own" / "sweep.csv").read_text()
