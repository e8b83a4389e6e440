"""Chunks: a pure function of the grid that covers every runnable cell once, and refusals found without drawing."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.decoder.config import Budget, DecoderConfig
from core.decoder.parameters import layout
from core.errors import SweepError
from core.health.chunks import MAX_MEMBERS
from core.sweep.grid import SweepGrid
from core.sweep.plan import SweepPlan
from core.sweep.run import SweepRun
from core.sweep.store import Store
from tests.sweep.support import TWO_ROWS, small_grid

NAMES = ["depth-scaled", "gpt2", "unscaled", "peri-norm", "admin", "deepscalelm", "t-fixup", "parallel"]


def cells_of(plan: SweepPlan) -> Counter[tuple[int, str, int]]:
    return Counter(
        (chunk.setting, name, seed)
        for group in plan.groups
        for chunk in group.chunks
        for name in chunk.recipes
        for seed in chunk.seeds
    )


@given(
    blocks=st.lists(st.integers(1, 70), min_size=1, max_size=4, unique=True),
    seeds=st.lists(st.integers(0, 3000), min_size=1, max_size=300, unique=True),
    recipes=st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True),
    width=st.sampled_from([4, 64]),
)
def test_chunks_cover_every_runnable_cell_once(
    blocks: list[int], seeds: list[int], recipes: list[str], width: int
) -> None:
    grid = SweepGrid(
        blocks=tuple(blocks), seeds=tuple(seeds), recipes=tuple(recipes), sizes=(DecoderConfig(width=width, heads=1),)
    )
    plan = SweepPlan(grid)
    expected = Counter(
        (index, name, seed)
        for index in range(len(grid.settings))
        for name in grid.computed
        if (index, name) not in plan.refusals
        for seed in seeds
    )
    assert cells_of(plan) == expected
    for group in plan.groups:
        assert len({chunk.seeds for chunk in group.chunks}) == 1
        assert {chunk.deepest for chunk in group.chunks} == {max(chunk.config.blocks for chunk in group.chunks)}


def test_a_grid_is_always_cut_in_the_same_places() -> None:
    def cut(seeds: range) -> list[tuple[int, ...]]:
        return [group.chunks[0].seeds for group in SweepPlan(SweepGrid(seeds=tuple(seeds))).groups]

    longer = cut(range(1000))
    assert cut(range(1000)) == longer
    # A longer grid of the same settings begins with the same chunks.
    size = len(longer[0])
    assert size & (size - 1) == 0
    assert cut(range(2 * size)) == longer[:2]


def test_a_chunk_keeps_to_the_limit_of_members_and_large_decoders_go_one_by_one() -> None:
    few = SweepPlan(SweepGrid(blocks=(1,), seeds=tuple(range(5000)))).groups
    assert {len(group.chunks[0].seeds) * 2 for group in few[:-1]} == {MAX_MEMBERS}
    wide = DecoderConfig(width=256, heads=8, ff_width=688)
    many = SweepPlan(SweepGrid(blocks=(12,), seeds=tuple(range(5)), sizes=(wide,))).groups
    assert max(len(group.chunks[0].seeds) for group in many) <= 2


def test_recipes_of_one_topology_share_a_pass_and_a_profile_runs_by_itself() -> None:
    plan = SweepPlan(small_grid(recipes=("gpt2", "post-norm", "admin", "lns")))
    deepest = [chunk.recipes for chunk in plan.groups[0].chunks if chunk.setting == 1]
    assert deepest == [("gpt2", "unscaled"), ("post-norm",), ("admin",), ("lns",)]


@pytest.mark.parametrize(
    ("axes", "refused", "words"),
    [
        ({"recipes": ("t-fixup",)}, {(0, "t-fixup"), (1, "t-fixup")}, "encoder-decoder"),
        ({"recipes": ("deepscalelm",)}, {(0, "deepscalelm")}, "at least 2 blocks"),
        ({"blocks": (1, 5000)}, {(1, "depth-scaled"), (1, "unscaled")}, "4096"),
        (
            {"budget": Budget(max_parameters=layout(DecoderConfig(blocks=2)).parameters)},
            {(1, "depth-scaled"), (1, "unscaled")},
            "raise the budget of parameters",
        ),
        (
            {"sizes": (DecoderConfig(), DecoderConfig(positions=8)), "batches": (TWO_ROWS,)},
            {(index, name) for index in (0, 1) for name in ("depth-scaled", "unscaled")},
            "needs 5 positions",
        ),
    ],
)
def test_cells_that_cannot_run_are_refused_by_arithmetic(
    axes: dict[str, object], refused: set[tuple[int, str]], words: str
) -> None:
    plan = SweepPlan(small_grid(**axes))
    assert set(plan.refusals) == refused
    assert all(words in reason and reason.endswith(".") for reason in plan.refusals.values())


def test_a_plan_costs_what_a_run_on_an_empty_store_does() -> None:
    grid = small_grid(recipes=("gpt2", "post-norm", "t-fixup"), dtypes=("float64", "float32"))
    with Store.open(":memory:") as store:
        assert SweepPlan(grid).seconds == pytest.approx(SweepRun(grid, store).seconds_left, rel=1e-12)


def test_a_grid_of_which_no_cell_can_run_is_itself_refused() -> None:
    with pytest.raises(SweepError, match="4096"):
        SweepPlan(small_grid(blocks=(5000,)))
