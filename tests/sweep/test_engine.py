"""The engine: every cell is the single observation, to the bit whatever stands beside it."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core.decoder import base_draw
from core.decoder.base_draw import BaseDraw, Distribution
from core.decoder.batch import Batch, chapter_batch
from core.decoder.config import DecoderConfig
from core.decoder.splitmix64 import FloatArray
from core.errors import SweepError
from core.health.report import observe_document
from core.health.request import ObserveRequest
from core.recipes.catalogue import RECIPES, recipe
from core.sweep.engine import Engine
from core.sweep.grid import SweepGrid
from core.sweep.plan import Chunk, SweepPlan
from core.sweep.results import split_numbers
from tests.sweep.support import TWO_ROWS, small_grid

RUNNABLE = [known.name for known in RECIPES if known.refusal is None]
SIZES = {
    "narrow": DecoderConfig(),
    "grouped": DecoderConfig(width=12, heads=4, kv_heads=2, head_dim=2, ff_width=20, positions=6),
    "odd": DecoderConfig(width=6, heads=3, ff_width=5, vocabulary=11, positions=6),
    "untied": DecoderConfig(width=8, heads=2, ff_width=8, tied=False, position_encoding="learned", positions=6),
    "wide": DecoderConfig(width=64, heads=4, ff_width=172, positions=6),
}


def chunks_of(grid: SweepGrid) -> list[Chunk]:
    return [chunk for group in SweepPlan(grid).groups for chunk in group.chunks]


def single(config: DecoderConfig, name: str, seed: int, dtype: str, batch: Batch) -> tuple[FloatArray, FloatArray]:
    """Both arms of the observe document, in the order of stored numbers."""
    document = observe_document(
        ObserveRequest(config=config, seed=seed, recipe=name, dtype=dtype, batch=batch), contributions=False
    )
    scaled, control = (
        np.array(
            [
                document[key]["loss_nats"],
                *(site["activation_rms"] for site in document[key]["sites"]),
                *(site["adjoint_rms"] for site in document[key]["sites"]),
            ]
        )
        for key in ("initialized", "same_base_unscaled_control")
    )
    return scaled, control


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("size", ["narrow", "grouped"])
def test_every_cell_equals_the_single_observation(size: str, dtype: str) -> None:
    seeds = (0, 1, 2**64 - 1)
    everything = (size, dtype) == ("narrow", "float64")
    names = tuple(RUNNABLE) if everything else ("depth-scaled", "gpt2", "deepnorm", "admin")
    batches = (chapter_batch(),) if size == "narrow" else (TWO_ROWS, chapter_batch())
    sizes = (replace(SIZES[size], vocabulary=266),)
    grid = SweepGrid(blocks=(2, 5), seeds=seeds, recipes=names, sizes=sizes, batches=batches, dtypes=(dtype,))
    engine = Engine()
    compared = 0
    for chunk in chunks_of(grid):
        result = engine.run(chunk)
        for name in chunk.recipes:
            for position, seed in enumerate(chunk.seeds):
                expected, control = single(chunk.config, name, seed, dtype, chunk.batch)
                np.testing.assert_allclose(result.values[name][position], expected, rtol=1e-12, atol=0)
                if "unscaled" in chunk.recipes:
                    np.testing.assert_allclose(result.values["unscaled"][position], control, rtol=1e-12, atol=0)
                compared += 1
    assert compared == grid.cells


def observed(config: DecoderConfig, seeds: Sequence[int], names: Sequence[str], batch: Batch, dtype: str) -> FloatArray:
    """Stored numbers of the first recipe, from one pass of all `names`."""
    chunk = Chunk(
        setting=0,
        config=config,
        dtype=dtype,
        batch=batch,
        device="cpu",
        distribution=Distribution(),
        recipes=tuple(names),
        seeds=tuple(seeds),
        deepest=config.blocks,
        engine=chunks_of(small_grid())[0].engine,
    )
    return Engine().run(chunk).values[names[0]]


@settings(max_examples=20)
@given(
    size=st.sampled_from(["narrow", "grouped", "odd", "untied", "wide"]),
    dtype=st.sampled_from(["float64", "float32"]),
    others=st.sets(st.sampled_from(["unscaled", "gpt2", "zero-writer", "lingua-global"])),
    count=st.integers(1, 40),
    first=st.integers(0, 5),
)
def test_a_members_bits_do_not_depend_on_the_members_beside_it(
    size: str, dtype: str, others: set[str], count: int, first: int
) -> None:
    config = replace(SIZES[size], blocks=3, vocabulary=266)
    batch = chapter_batch() if size == "narrow" else TWO_ROWS
    alone = observed(config, range(first, first + count), ["depth-scaled"], batch, dtype)
    beside = observed(config, range(48), ["depth-scaled", *sorted(others)], batch, dtype)
    assert alone.tobytes() == beside[first : first + count].tobytes()


def test_each_base_draw_is_made_once_for_all_arms_and_depths(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    original = base_draw.scaled_units

    def counted(seeds: Sequence[int], offset: int, count: int, *rest: object, **more: object) -> FloatArray:
        drawn.append(len(seeds) * count)
        return original(seeds, offset, count, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(base_draw, "scaled_units", counted)
    grid = small_grid(
        blocks=(1, 2, 7), recipes=("gpt2", "peri-norm"), dtypes=("float64", "float32"), seeds=tuple(range(5))
    )
    engine = Engine()
    for chunk in chunks_of(grid):
        engine.run(chunk)
    assert sum(drawn) == 5 * base_draw.layout(DecoderConfig(blocks=7)).draws


def test_a_shallower_draw_shares_the_deeper_ones_and_equals_its_own() -> None:
    for size in ("narrow", "untied"):
        config = replace(SIZES[size], blocks=6)
        deep = BaseDraw(config, [3, 2**63], Distribution())
        shallow, own = deep.at_depth(2), BaseDraw(replace(config, blocks=2), [3, 2**63])
        for ours, theirs in (
            (shallow.stem(), own.stem()),
            (shallow.block(1), own.block(1)),
            (shallow.tail(), own.tail()),
        ):
            assert {key: values.tobytes() for key, values in ours.items()} == {
                key: values.tobytes() for key, values in theirs.items()
            }
        assert shallow.final_states() == own.final_states()
        assert np.shares_memory(shallow.block(0)["attention.query.weight"], deep.block(0)["attention.query.weight"])
        # A deeper one than was drawn is drawn anew.
        assert deep.at_depth(9).block(8).keys() == deep.block(0).keys()


def test_a_draw_too_large_to_keep_gives_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = BaseDraw(DecoderConfig(blocks=4), range(3)).block(3)
    monkeypatch.setattr(base_draw, "KEPT_DRAW", 10)
    anew = BaseDraw(DecoderConfig(blocks=9), range(3)).at_depth(4)
    assert {k: v.tobytes() for k, v in anew.block(3).items()} == {k: v.tobytes() for k, v in kept.items()}


def test_a_member_without_finite_ratios_is_refused_beside_sound_ones() -> None:
    # In float32 a standard deviation of 1e19 overflows the squares of some networks' scores and not of the control's.
    grid = small_grid(recipes=("zero-writer",), distribution=Distribution(1e30), dtypes=("float32",), blocks=(2,))
    result = Engine().run(chunks_of(grid)[0])
    assert set(result.reasons["unscaled"]) == set(range(4))
    for name in ("zero-writer", "unscaled"):
        for position in range(4):
            values = result.values[name][position]
            loss, activation, adjoint = split_numbers(values[None])
            sound = bool(np.isfinite(values).all()) and activation[0, 0] > 0 and adjoint[0, -1] > 0
            assert sound == (position not in result.reasons[name])
            assert np.isfinite(loss[0]) or position in result.reasons[name]
    assert all(reason.endswith(".") for reason in result.reasons["unscaled"].values())


def test_a_process_on_two_threads_or_with_other_code_is_refused() -> None:
    chunk = chunks_of(small_grid())[0]
    with pytest.raises(SweepError, match="wants other"):
        Engine().run(replace(chunk, engine="other"))
    torch.set_num_threads(2)
    with pytest.raises(SweepError, match="use_one_thread"):
        Engine().run(chunk)


def test_the_engine_leaves_global_state_alone() -> None:
    def state() -> tuple[bytes, torch.dtype, int, bytes]:
        torch_state = torch.get_rng_state().numpy().tobytes()
        numpy_state = pickle.dumps(np.random.get_state())  # noqa: NPY002
        return torch_state, torch.get_default_dtype(), torch.get_num_threads(), numpy_state

    before = state()
    Engine().run(chunks_of(small_grid())[0])
    assert state() == before


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device is present")
def test_the_same_grid_runs_on_cuda() -> None:
    grid = small_grid(device="cuda")
    host = {id(c): Engine().run(c) for c in chunks_of(small_grid())}
    for ours, theirs in zip(map(Engine().run, chunks_of(grid)), host.values(), strict=True):
        for name in ours.values:
            np.testing.assert_allclose(ours.values[name], theirs.values[name], rtol=1e-9)


def test_recipes_of_the_plan_are_those_of_the_core() -> None:
    assert {name for chunk in chunks_of(small_grid(recipes=tuple(RUNNABLE))) for name in chunk.recipes} == {
        recipe(name).name for name in RUNNABLE
    }
