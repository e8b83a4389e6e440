"""The long table, its summary and its exponents beside independent arithmetic."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from core.decoder.base_draw import Distribution
from core.decoder.config import DecoderConfig
from core.health.band import Band
from core.health.columns import SITE_COLUMNS
from core.health.report import observe_document
from core.health.request import ObserveRequest
from core.sweep.grid import SweepGrid
from core.sweep.results import QUANTITIES, RATIOS
from core.sweep.run import SweepRun
from core.sweep.store import Store
from core.sweep.summary import growth_rows
from core.sweep.tables import write_table
from tests.sweep.support import TWO_ROWS, finish, small_grid

SEEDS = (3, 0, 2**64 - 1, 1, 9)
GRID = small_grid(blocks=(4, 1, 2), seeds=SEEDS, recipes=("depth-scaled", "parallel", "t-fixup"), band=Band(0.5, 12.0))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SweepRun]:
    with Store.open(tmp_path_factory.mktemp("tables") / "cells.sqlite") as store:
        yield finish(SweepRun(GRID, store))


def test_rows_are_those_of_the_single_observation_in_the_grids_order(run: SweepRun) -> None:
    rows = run.rows()
    assert tuple(rows.columns) == SITE_COLUMNS
    start = 0
    for arm in GRID.arms:
        for blocks in GRID.blocks:
            for seed in SEEDS:
                head = (arm.arm, arm.recipe, str(seed), blocks)
                if arm.recipe == "t-fixup":
                    row = rows.iloc[start]
                    assert tuple(row.iloc[:4]) == head
                    assert (row["status"], row["label"], row["activation_band"]) == ("refused", "", "")
                    assert "encoder-decoder" in row["reason"]
                    assert row[["site", "activation_rms", "adjoint_ratio", "loss_nats"]].isna().all()
                    start += 1
                    continue
                request = ObserveRequest(
                    config=DecoderConfig(blocks=blocks), seed=seed, recipe=arm.recipe, band=GRID.band
                )
                expected = observe_document(request, contributions=False)["initialized"]
                part = rows.iloc[start : start + len(expected["sites"])]
                assert set(part[["arm", "recipe", "seed", "blocks"]].itertuples(index=False, name=None)) == {head}
                for name in SITE_COLUMNS[4:12]:
                    ours, theirs = part[name].tolist(), [site[name] for site in expected["sites"]]
                    assert ours == theirs or ours == pytest.approx(theirs, rel=1e-12)
                assert part["loss_nats"].tolist() == pytest.approx([expected["loss_nats"]] * len(part), rel=1e-12)
                start += len(part)
    assert start == len(rows)


def test_the_csv_holds_the_same_rows_with_floats_in_full(run: SweepRun) -> None:
    stream = io.BytesIO()
    write_table(stream, "sweep.csv", run.results)
    read = list(csv.DictReader(io.StringIO(stream.getvalue().decode(), newline="")))
    rows = run.rows()
    assert len(read) == len(rows)
    for name in rows.columns:
        ours = ["" if pd.isna(value) else str(value) for value in rows[name].tolist()]
        assert [row[name] for row in read] == ours


def test_rows_can_be_asked_for_by_recipe_and_depth(run: SweepRun) -> None:
    rows = run.rows(recipe="parallel", blocks=2)
    assert set(zip(rows["arm"], rows["recipe"], rows["blocks"], strict=True)) == {("initialized", "parallel", 2)}
    assert len(rows) == len(SEEDS) * 3


def test_cells_hold_the_extremes_of_their_rows(run: SweepRun) -> None:
    rows, cells = run.rows(), run.cells()
    assert len(cells) == 4 * 3 * len(SEEDS)
    observed = cells[cells["status"] == "observed"]
    groups = rows[rows["status"] == "observed"].groupby(["arm", "recipe", "seed", "blocks"], sort=False)
    for cell, (_, part) in zip(observed.to_dict("records"), groups, strict=True):
        assert cell["largest_activation_ratio"] == part["activation_ratio"].max()
        assert cell["smallest_activation_ratio"] == part["activation_ratio"].min()
        assert cell["last_activation_ratio"] == part["activation_ratio"].iloc[-1]
        assert cell["largest_adjoint_ratio"] == part["adjoint_ratio"].max()
        assert cell["smallest_adjoint_ratio"] == part["adjoint_ratio"].min()
        assert cell["input_adjoint_ratio"] == part["adjoint_ratio"].iloc[0]
        assert cell["loss_nats"] == part["loss_nats"].iloc[0]
        assert cell["within_band"] == bool((part[["activation_band", "adjoint_band"]] == "within").to_numpy().all())
    refused = cells[cells["status"] == "refused"]
    assert set(refused["recipe"]) == {"t-fixup"}
    assert refused["loss_nats"].isna().all()


def test_the_summary_is_that_of_the_cells(run: SweepRun) -> None:
    cells, summary = run.cells(), run.summary()
    assert tuple(summary.columns) == (
        "arm", "recipe", "blocks", "quantity", "median", "q05", "q25", "q75", "q95", "share_within", "seeds", "refused",
    )  # fmt: skip
    for row in summary.to_dict("records"):
        part = cells[(cells["arm"] == row["arm"]) & (cells["recipe"] == row["recipe"])]
        part = part[part["blocks"] == row["blocks"]]
        values = part[part["status"] == "observed"]
        assert row["refused"] == int((part["status"] == "refused").sum())
        assert row["seeds"] == len(values)
        if row["recipe"] == "t-fixup":
            assert np.isnan(row["median"])
            assert np.isnan(row["share_within"])
            continue
        if row["quantity"] == "all_ratios":
            assert row["share_within"] == values["within_band"].mean()
            assert np.isnan(row["median"])
            continue
        name = row["quantity"].removesuffix("_minus_control")
        found = values[name].to_numpy()
        if name != row["quantity"]:
            control = cells[(cells["arm"] == "control") & (cells["blocks"] == row["blocks"])]
            found = found - control[name].to_numpy()
        assert row["median"] == pytest.approx(statistics.median(found.tolist()), rel=1e-15)
        # Linear interpolation between order statistics.
        ordered = sorted(found.tolist())
        for column, level in (("q05", 0.05), ("q25", 0.25), ("q75", 0.75), ("q95", 0.95)):
            place = level * (len(ordered) - 1)
            low = ordered[int(place)]
            high = ordered[min(int(place) + 1, len(ordered) - 1)]
            assert row[column] == pytest.approx(low + (high - low) * (place - int(place)), rel=1e-12, abs=1e-15)
        if row["quantity"] in RATIOS:
            inside = [GRID.band.lower <= value <= GRID.band.upper for value in found.tolist()]
            assert row["share_within"] == sum(inside) / len(inside)
        else:
            assert np.isnan(row["share_within"])


def test_a_pair_of_equal_arms_differs_by_nothing(tmp_path: Path) -> None:
    with Store.open(tmp_path / "cells.sqlite") as store:
        summary = finish(SweepRun(small_grid(recipes=("unscaled",)), store)).summary()
    differences = summary[summary["quantity"].str.endswith("_minus_control")]
    assert len(differences) == 2 * len(QUANTITIES)
    assert (differences[["median", "q05", "q95"]] == 0).to_numpy().all()


def test_unfinished_cells_are_absent_from_every_table(tmp_path: Path) -> None:
    with Store.open(tmp_path / "cells.sqlite") as store:
        run = SweepRun(small_grid(), store)
        assert len(run.rows()) == len(run.cells()) == len(run.summary()) == 0
        assert run.growth()["depths"].dropna().tolist() == [0.0] * 4
        run.step(0.0)
        assert set(run.rows()["blocks"]) == set(run.cells()["blocks"]) == set(run.summary()["blocks"]) == {3}
        assert run.growth()["exponent"].notna().sum() == 2


def test_axes_that_vary_stand_in_columns_of_their_own(tmp_path: Path) -> None:
    grid = small_grid(
        sizes=(DecoderConfig(positions=5), DecoderConfig(width=8, heads=2, positions=5)),
        batches=(TWO_ROWS, small_grid().batches[0]),
        seeds=(0,),
    )
    with Store.open(tmp_path / "cells.sqlite") as store:
        run = finish(SweepRun(grid, store))
        for table in (run.rows(), run.cells(), run.summary(), run.growth()):
            assert set(zip(table["width"], table["heads"], table["batch"], strict=True)) == {
                (4, 1, "2x5"), (4, 1, "1x4"), (8, 2, "2x5"), (8, 2, "1x4"),
            }  # fmt: skip
        assert tuple(run.rows().columns) == (*SITE_COLUMNS, "width", "heads", "kv_heads", "batch")


def synthetic(run: SweepRun, exponents: dict[str, float], noise: float = 0.0) -> None:
    """Replace the results by exact powers of the depth, with noise that differs from seed to seed."""
    results, generator = run.results, np.random.default_rng(5)
    results.observed[:] = True
    for index, setting in enumerate(run.grid.settings):
        for name, exponent in exponents.items():
            spread = np.exp(noise * generator.standard_normal(len(run.grid.seeds)))
            results.values[index, results.recipe(name)] = (3.0 * setting.config.blocks**exponent * spread)[:, None]


def fits(run: SweepRun) -> dict[tuple[str, str], dict[str, object]]:
    return {(row["recipe"], row["quantity"]): row for row in growth_rows(run.results) if row["kind"] == "fit"}


def test_exact_powers_give_their_exponents(tmp_path: Path) -> None:
    with Store.open(tmp_path / "cells.sqlite") as store:
        run = SweepRun(SweepGrid(seeds=tuple(range(12))), store)
        synthetic(run, {"depth-scaled": -0.25, "unscaled": 0.5})
        for (name, _), row in fits(run).items():
            expected = -0.25 if name == "depth-scaled" else 0.5
            for column in ("exponent", "lower95", "upper95"):
                assert row[column] == pytest.approx(expected, abs=1e-13)
            assert (row["depths"], row["seeds"]) == (7, 12)


def test_the_interval_is_about_as_wide_as_the_noise_makes_it_and_is_seeded(tmp_path: Path) -> None:
    with Store.open(tmp_path / "cells.sqlite") as store:
        run = SweepRun(SweepGrid(seeds=tuple(range(400))), store)
        synthetic(run, {"depth-scaled": 0.0, "unscaled": 0.5}, noise=0.3)
        row = fits(run)["unscaled", "largest_activation_ratio"]
        x = np.log(np.array(run.grid.blocks, dtype=float))
        error = 0.3 / np.sqrt(400 * ((x - x.mean()) ** 2).sum())
        assert abs(row["exponent"] - 0.5) < 4 * error
        assert row["lower95"] < row["exponent"] < row["upper95"]
        # 1.96 standard errors on each side; the bootstrap's own error is a few percent.
        assert row["upper95"] - row["lower95"] == pytest.approx(2 * 1.96 * error, rel=0.2)
        assert list(growth_rows(run.results)) == list(growth_rows(run.results))


def test_missing_and_refused_cells_leave_the_fit_to_the_others(tmp_path: Path) -> None:
    with Store.open(tmp_path / "cells.sqlite") as store:
        run = SweepRun(SweepGrid(blocks=(1, 4, 16), seeds=tuple(range(6))), store)
        synthetic(run, {"depth-scaled": 0.5, "unscaled": 0.5})
        run.results.values[1, :, 2] = 1e9
        run.results.observed[1, :, 2], run.results.refused[1, :, 2] = False, True
        run.results.values[0, :, 3] = 1e9
        run.results.observed[0, :, 3] = False
        row = fits(run)["unscaled", "input_adjoint_ratio"]
        assert row["exponent"] == pytest.approx(0.5, abs=1e-13)
        assert (row["depths"], row["seeds"]) == (3, 6)


def test_one_depth_has_no_exponent_and_one_seed_no_interval(tmp_path: Path) -> None:
    with Store.open(tmp_path / "cells.sqlite") as store:
        single = fits(finish(SweepRun(small_grid(blocks=(2,)), store)))
        assert {row["exponent"] for row in single.values()} == {None}
        alone = fits(finish(SweepRun(small_grid(seeds=(0,)), store)))
        assert all(row["exponent"] is not None and row["lower95"] is None for row in alone.values())


def test_derived_laws_are_labelled_and_hold_where_they_are_exact(tmp_path: Path) -> None:
    grid = small_grid(recipes=("zero-writer", "depth-scaled", "wang"), distribution=Distribution(0.5))
    with Store.open(tmp_path / "cells.sqlite") as store:
        growth = finish(SweepRun(grid, store)).growth()
    assert set(growth["kind"]) == {"fit", "derived"}
    derived = growth[growth["kind"] == "derived"].set_index(["recipe", "quantity"])
    assert derived.loc[("unscaled", "largest_activation_ratio"), "exponent"] == 0.5
    assert derived.loc[("depth-scaled", "largest_activation_ratio"), "exponent"] == 0.0
    assert "wang" not in set(derived.reset_index()["recipe"])
    assert (derived["note"].str.len() > 10).all()
    # Where every addition is zero, the fit is the law itself.
    silent = growth[growth["recipe"] == "zero-writer"]
    assert len(silent) == 4
    assert silent["exponent"].tolist() == [0.0] * 4
