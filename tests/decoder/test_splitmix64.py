"""SplitMix64 against a scalar generator in Python integers and against vectors published elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.decoder import compiled_draws
from core.decoder.compiled_draws import kernel, kernel_for
from core.decoder.splitmix64 import (
    INCREMENT,
    SLAB,
    SplitMix64,
    advanced,
    affine,
    bits,
    checked_seed,
    scaled_units,
    units,
)
from core.errors import ConfigError

MASK = 2**64 - 1
SEEDS = st.sampled_from([0, 1, 17, 4701, 2**63, MASK]) | st.integers(0, MASK)


def oracle(seed: int, count: int) -> list[int]:
    """The published algorithm, one draw after another."""
    draws = []
    for _ in range(count):
        seed = (seed + 0x9E3779B97F4A7C15) & MASK
        value = seed
        value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
        draws.append(value ^ (value >> 31))
    return draws


# The widely reproduced test vectors of the reference implementation.
PUBLISHED = {
    0: [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC],
    1234567: [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ],
}


@pytest.mark.parametrize("seed", PUBLISHED)
def test_published_vectors(seed: int) -> None:
    expected = PUBLISHED[seed]
    assert bits([seed], 0, len(expected))[0].tolist() == expected == oracle(seed, len(expected))


@pytest.mark.parametrize("seed", [0, 1, 17, 4701, MASK - 1, MASK])
@pytest.mark.parametrize("count", [0, 1, 1000, SLAB, SLAB + 1, 2 * SLAB + 3])
def test_every_draw_equals_the_scalar_oracle(seed: int, count: int) -> None:
    expected = oracle(seed, count)
    assert bits([seed], 0, count)[0].tolist() == expected
    assert units([seed], 0, count)[0].tolist() == [(draw >> 11) / 2**53 for draw in expected]


@given(seeds=st.lists(SEEDS, min_size=1, max_size=5), offset=st.integers(0, 500), count=st.integers(0, 80))
@settings(deadline=None)
def test_any_offset_of_several_seeds(seeds: list[int], offset: int, count: int) -> None:
    drawn = bits(seeds, offset, count)
    assert drawn.shape == (len(seeds), count)
    assert drawn.dtype == np.uint64
    assert drawn.tolist() == [oracle(seed, offset + count)[offset:] for seed in seeds]


@pytest.mark.parametrize("members", [3, SLAB // 7 + 1])
def test_many_seeds_share_tiles_without_mixing(members: int) -> None:
    seeds = [(MASK - member) & MASK for member in range(members)]
    drawn = bits(seeds, 2, 7)
    for member in {0, 1, members // 2, members - 1}:
        assert drawn[member].tolist() == oracle(seeds[member], 9)[2:]


@given(seed=SEEDS, offset=st.integers(0, 2**70), count=st.integers(1, 20))
def test_a_far_offset_is_an_advanced_state(seed: int, offset: int, count: int) -> None:
    start = (seed + offset * 0x9E3779B97F4A7C15) % 2**64
    assert advanced(seed, offset) == start
    assert bits([seed], offset, count)[0].tolist() == oracle(start, count)


@given(seed=SEEDS, parts=st.lists(st.integers(0, 40), max_size=5))
def test_resuming_in_any_parts_gives_one_stream(seed: int, parts: list[int]) -> None:
    generator, drawn = SplitMix64(seed), []
    for part in parts:
        drawn += generator.next_bits(part).tolist()
        generator = SplitMix64.from_state(generator.state)
    assert drawn == oracle(seed, sum(parts))
    assert generator.state == advanced(seed, sum(parts))


@given(seed=SEEDS, skipped=st.integers(0, 60))
def test_skipping_is_drawing_unseen(seed: int, skipped: int) -> None:
    generator = SplitMix64(seed)
    generator.skip(skipped)
    assert int(generator.next_bits()[0]) == oracle(seed, skipped + 1)[-1]


def test_units_lie_in_the_half_open_interval_on_the_53_bit_grid() -> None:
    drawn = units([17], 0, 10_000)[0]
    assert drawn.min() >= 0.0
    assert drawn.max() < 1.0
    assert (drawn * 2**53 == np.floor(drawn * 2**53)).all()
    # Mean of n uniforms: standard error sqrt(1/12n); five of them.
    assert abs(drawn.mean() - 0.5) < 5 * (1 / 120_000) ** 0.5


@pytest.mark.parametrize("count", [5, SLAB + 9])
def test_finish_rewrites_each_tile_once(count: int) -> None:
    seen: list[int] = []

    def finish(tile: np.ndarray[Any, np.dtype[np.float64]], columns: slice) -> None:
        seen.extend(range(columns.start, columns.stop))
        tile *= 2.0
        tile -= 1.0

    assert (scaled_units([3, 4], 1, count, finish) == 2.0 * units([3, 4], 1, count) - 1.0).all()
    assert sorted(set(seen)) == list(range(count))


def test_a_clone_and_a_commit_leave_the_other_generator_alone() -> None:
    caller = SplitMix64(17)
    trial = caller.clone()
    trial.next_units(5)
    assert caller.state == 17
    caller.commit(trial)
    assert caller.state == trial.state == (17 + 5 * INCREMENT) & MASK
    trial.skip(1)
    assert caller.state != trial.state


@pytest.mark.parametrize("seed", [0, MASK, "0", "18446744073709551615", " 17 ", np.uint64(MASK), np.int8(3)])
def test_seeds_that_are_accepted(seed: Any) -> None:
    assert checked_seed(seed) == int(seed)
    assert type(SplitMix64(seed).state) is int


REJECTED: dict[str, Any] = {
    "negative": -1,
    "past the range": MASK + 1,
    "text past the range": str(MASK + 1),
    "negative text": "-1",
    "empty": "",
    "word": "seed",
    "long digits": "9" * 5000,
    "other digits": "１７",
    "superscript": "²",
    "float": 1.0,
    "boolean": True,
    "none": None,
    "bytes": b"17",
    "list": [17],
    "huge": 10**5000,
    "hugely negative": -(10**5000),
}


@pytest.mark.parametrize("name", REJECTED)
@pytest.mark.parametrize("construct", [checked_seed, SplitMix64, SplitMix64.from_state])
def test_seeds_that_are_rejected(name: str, construct: Callable[[Any], object]) -> None:
    with pytest.raises(ConfigError) as caught:
        construct(REJECTED[name])
    assert str(caught.value).endswith(".")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shift", [0.0, 2.0**52])
@pytest.mark.parametrize("shape", [(1, 1), (3, 1000), (40, 7), (2, SLAB + 5)])
def test_compiled_draws_have_the_bits_of_the_scalar_oracle(shape: tuple[int, int], shift: float, dtype: Any) -> None:
    """NumPy's too: both are held to whole numbers of Python, rounded to binary64, then to the type."""
    states = [(MASK - 5 + row * 0xD1342543DE82EF95) & MASK for row in range(shape[0])]
    factor = 0.0123 * 2.0**-52
    exact = [[((draw >> 11) - int(shift)) * factor for draw in oracle(state, shape[1])] for state in states]
    wanted = np.array(exact).astype(dtype)
    kernels = [None, kernel()] if find_spec("numba") else [None]
    for compiled in kernels:
        found = np.empty(shape, dtype)
        affine(found, np.array(states, dtype=np.uint64), shift, factor, compiled)
        assert found.tobytes() == wanted.tobytes()
    if len(kernels) == 1:
        pytest.skip("numba is not installed; NumPy was compared")
    assert kernel() is not None


def test_numba_is_loaded_only_where_many_numbers_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """And from then on by every draw; its absence is no error."""
    loaded: list[str] = []
    monkeypatch.setattr(compiled_draws, "kernel", lambda: loaded.append("asked"))
    monkeypatch.setattr(compiled_draws, "_seen", 0)
    half = compiled_draws.WORTH_LOADING // 2
    assert [kernel_for(half - 1) is None, len(loaded), kernel_for(half) is None, len(loaded)] == [True, 0, True, 0]
    kernel_for(1)
    kernel_for(1)
    assert loaded == ["asked", "asked"]
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "numba", None)
    assert kernel.__wrapped__() is None
    assert (units([3], 0, 5) == units([3], 0, 9)[:, :5]).all()
