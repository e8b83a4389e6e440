"""The grid as data: its order, its identity, and what is refused before anything is computed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.decoder.base_draw import Distribution
from core.decoder.batch import Batch, chapter_batch
from core.decoder.config import DecoderConfig
from core.errors import BudgetError, ConfigError, DepthscopeError, RecipeError, SweepError
from core.health.band import Band
from core.recipes.catalogue import recipe
from core.sweep.cells import cell_keys
from core.sweep.grid import GridArm, SweepGrid
from core.sweep.ranges import seeds_or_range
from tests.sweep.support import TWO_ROWS, small_grid

WIDE = DecoderConfig(width=8, heads=2, ff_width=12)


def test_each_recipe_stands_beside_one_control() -> None:
    grid = small_grid(recipes=("gpt2", "unscaled"))
    assert grid.arms == (
        GridArm("initialized", "gpt2"),
        GridArm("initialized", "unscaled"),
        GridArm("control", "unscaled"),
    )
    assert grid.computed == ("gpt2", "unscaled")
    assert grid.cells == 2 * 2 * 4


@pytest.mark.parametrize("written", ["lns+gpt2", "gpt2+lns", "gpt2 lns", "unscaled+gpt2+lns"])
def test_a_combination_is_the_same_cells_however_it_is_written(written: str) -> None:
    grid, plain = small_grid(recipes=(written,)), small_grid(recipes=(recipe("lns+gpt2").name,))
    assert grid.digest == plain.digest
    assert grid.arms == plain.arms
    keys, expected = (cell_keys(one, one.settings[0], one.computed[0], one.seeds) for one in (grid, plain))
    assert keys == expected


def test_the_control_written_as_a_combination_is_computed_once() -> None:
    assert small_grid(recipes=("unscaled+unscaled",)).computed == ("unscaled",)


def test_the_depth_is_the_innermost_axis() -> None:
    grid = small_grid(sizes=(DecoderConfig(), WIDE), dtypes=("float32", "float64"))
    assert [(s.config.width, s.dtype, s.config.blocks) for s in grid.settings] == [
        (width, dtype, blocks) for width in (4, 8) for dtype in ("float32", "float64") for blocks in (1, 3)
    ]
    assert dict(grid.settings[0].columns) == {"width": 4, "heads": 1, "kv_heads": 1, "ff_width": 4, "dtype": "float32"}
    assert grid.extra_columns == ("width", "heads", "kv_heads", "ff_width", "dtype")


def test_an_axis_with_one_value_adds_no_column() -> None:
    assert small_grid().extra_columns == ()


def test_batches_are_labelled_by_shape_and_counted_where_shapes_repeat() -> None:
    other = Batch.from_rows([[5, 6, 7, 8]], [[6, 7, 8, 9]])
    grid = small_grid(batches=(chapter_batch(), other, TWO_ROWS), sizes=(DecoderConfig(positions=5),))
    assert [dict(s.columns)["batch"] for s in grid.settings[::2]] == ["1x4#1", "1x4#2", "2x5"]


@pytest.mark.parametrize(
    ("axes", "error"),
    [
        ({"blocks": ()}, SweepError),
        ({"seeds": ()}, SweepError),
        ({"batches": ()}, SweepError),
        ({"blocks": (1, 1)}, SweepError),
        ({"seeds": (3, 4, 3)}, SweepError),
        ({"recipes": ("gpt2", "gpt2")}, SweepError),
        ({"recipes": ("lns+gpt2", "gpt2+lns")}, SweepError),
        ({"sizes": (DecoderConfig(blocks=2), DecoderConfig(blocks=3))}, SweepError),
        ({"batches": (chapter_batch(), chapter_batch())}, SweepError),
        ({"blocks": tuple(range(1, 3000)), "seeds": tuple(range(3000))}, SweepError),
        ({"blocks": (0,)}, ConfigError),
        ({"seeds": (-1,)}, ConfigError),
        ({"seeds": (2**64,)}, ConfigError),
        ({"recipes": ("depth",)}, RecipeError),
        ({"dtypes": ("float16",)}, ConfigError),
        ({"device": "tpu"}, ConfigError),
    ],
)
def test_what_makes_no_grid_is_refused(axes: dict[str, object], error: type[DepthscopeError]) -> None:
    with pytest.raises(error):
        small_grid(**axes)


def test_every_axis_is_part_of_the_grids_identity_and_equal_grids_are_equal() -> None:
    variants = [
        small_grid(),
        small_grid(blocks=(1, 2)),
        small_grid(seeds=(0, 1, 2)),
        small_grid(recipes=("gpt2",)),
        small_grid(sizes=(WIDE,)),
        small_grid(dtypes=("float32",)),
        small_grid(batches=(TWO_ROWS,)),
        small_grid(device="cuda"),
        small_grid(distribution=Distribution(0.02)),
        small_grid(distribution=Distribution(0.02, 2.0)),
        small_grid(band=Band(0.1, 10.0)),
        small_grid(budget=replace(SweepGrid().budget, max_parameters=5000)),
    ]
    assert len({grid.digest for grid in variants}) == len(variants)
    assert small_grid().digest == small_grid().digest


def test_a_depth_past_the_budget_is_no_fault_of_the_grid() -> None:
    # It is refused cell by cell, so that the other depths run.
    assert small_grid(blocks=(1, 5000)).settings[1].config.blocks == 5000
    with pytest.raises(BudgetError):
        SweepGrid().budget.check(DecoderConfig(blocks=5000), 1)


def test_too_many_cells_are_refused_by_the_lengths_of_the_axes_before_seeds_are_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("core.sweep.grid.checked_seed", None)
    assert seeds_or_range("0:4194304") == range(4194304)
    with pytest.raises(SweepError, match="25,165,824 cells"):
        SweepGrid(blocks=(1, 2, 4), seeds=range(4194304))
