"""Xavier matrices and named parameters: published figures, a scalar oracle, and every rejection in its order."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.decoder.splitmix64 import INCREMENT, MASK, SplitMix64
from core.decoder.xavier import NamedParameter, xavier_scale
from core.errors import InitializationError

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "chapter17.json").read_text())
NAME = "decoder.block.0.attention.query.weight"
LARGEST = 2**64 - 1


def oracle(fan_in: int, fan_out: int, state: int) -> list[float]:
    """Row-major weights, one scalar draw after another."""
    limit, weights = math.sqrt(6.0 / (fan_in + fan_out)), []
    for _ in range(fan_in * fan_out):
        state = (state + 0x9E3779B97F4A7C15) & LARGEST
        value = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & LARGEST
        value = ((value ^ value >> 27) * 0x94D049BB133111EB) & LARGEST
        unit = ((value ^ value >> 31) >> 11) / 2**53
        weights.append(limit * (2.0 * unit - 1.0))
    return weights


def draw(fan_in: Any, fan_out: Any, seed: int = 17, name: str = NAME) -> NamedParameter:
    return NamedParameter.xavier_uniform(name, fan_in, fan_out, SplitMix64(seed))


def test_the_published_projection() -> None:
    published = GOLDEN["projection"]
    parameter = draw(published["fan_in"], published["fan_out"], published["seed"])
    assert parameter.values.shape == (2, 2)
    assert parameter.values.dtype == np.float64
    assert [round(float(value), 12) for value in parameter.values.ravel()] == published["weights_12_decimals"]
    assert GOLDEN["seed_18_differs"]
    assert not np.array_equal(draw(2, 2, 18).values, parameter.values)
    assert np.array_equal(draw(2, 2, 17).values, parameter.values)


@pytest.mark.parametrize(("fans", "key"), [((2, 2), "projection"), ((4, 2), "fan_in_4_fan_out_2")])
def test_the_published_scales(fans: tuple[int, int], key: str) -> None:
    scale, published = xavier_scale(*fans), GOLDEN[key]
    assert scale.target_variance == float(Fraction(published["target_variance"]))
    assert round(scale.standard_deviation, 12) == published["standard_deviation_12_decimals"]
    assert round(scale.uniform_limit, 12) == published["uniform_limit_12_decimals"]
    assert (scale.fan_in, scale.fan_out) == fans


@given(fan_in=st.integers(1, 2**63), fan_out=st.integers(1, 2**63 - 1))
def test_scale_laws_of_any_fans(fan_in: int, fan_out: int) -> None:
    scale = xavier_scale(fan_in, fan_out)
    total = float(fan_in + fan_out)
    assert scale.target_variance == 2.0 / total
    assert scale.standard_deviation**2 == pytest.approx(scale.target_variance, rel=1e-15)
    # A uniform distribution on [-a, a) has the variance a^2 / 3.
    assert scale.uniform_limit**2 / 3 == pytest.approx(scale.target_variance, rel=1e-15)
    assert xavier_scale(fan_out, fan_in).uniform_limit == scale.uniform_limit


@given(fan_in=st.integers(1, 12), fan_out=st.integers(1, 12), seed=st.sampled_from([0, LARGEST]) | st.integers(0, MASK))
@settings(deadline=None)
def test_any_matrix_equals_the_scalar_oracle(fan_in: int, fan_out: int, seed: int) -> None:
    generator = SplitMix64(seed)
    parameter = NamedParameter.xavier_uniform("w", fan_in, fan_out, generator)
    assert parameter.values.shape == (fan_in, fan_out)
    assert parameter.values.ravel().tolist() == oracle(fan_in, fan_out, seed)
    limit = xavier_scale(fan_in, fan_out).uniform_limit
    assert (np.abs(parameter.values) <= limit).all()
    assert generator.state == (seed + fan_in * fan_out * INCREMENT) & MASK


def test_a_large_matrix_meets_its_scale() -> None:
    values = draw(300, 200).values
    scale = xavier_scale(300, 200)
    # n uniform numbers: standard errors sd/sqrt(n) and variance * sqrt(0.8/n); five of each.
    assert abs(values.mean()) < 5 * scale.standard_deviation / math.sqrt(values.size)
    assert values.var() == pytest.approx(scale.target_variance, rel=5 * math.sqrt(0.8 / values.size))


# One instance of each fault, in the order in which they are reported.
NAME_FAULT = "Decoder.weight"
FAULTS: dict[str, list[tuple[Any, Any]]] = {
    "type": [(-1, 2), (2, -1), (True, 2), (2, False), (2.0, 2), ("2", 2), (None, 2), (2**64, 2), ("2" * 9999, 2)],
    "zero fan_in": [(0, 2), (0, 0), (0, LARGEST)],
    "zero fan_out": [(2, 0), (LARGEST, 0)],
    "fan sum overflow": [(LARGEST, 1), (1, LARGEST), (LARGEST, LARGEST), (2**63, 2**63)],
    "shape product overflow": [(2**32, 2**32), (2**33, 2**31), (2**63, 2**62)],
    "allocation": [(2**32, 2**31), (2**45, 1), (1, 2**60)],
}
CASES = [(fault, fans) for fault, instances in FAULTS.items() for fans in instances]


def test_the_faults_stand_in_the_published_order() -> None:
    assert [fault for fault in FAULTS if fault != "type"] == GOLDEN["check_order"][1:]
    assert GOLDEN["check_order"][0] == "name"


@pytest.mark.parametrize(("fault", "fans"), CASES, ids=range(len(CASES)))
@pytest.mark.parametrize("name", [NAME, NAME_FAULT, ""])
def test_the_first_fault_is_reported_and_no_draw_is_taken(fault: str, fans: tuple[Any, Any], name: str) -> None:
    generator = SplitMix64(17)
    expected = fault
    if fault != "type" and name != NAME:
        expected = "invalid byte" if name else "empty name"
    with pytest.raises(InitializationError) as caught:
        NamedParameter.xavier_uniform(name, *fans, generator)
    assert caught.value.fault == expected
    assert str(caught.value).endswith(".")
    assert len(str(caught.value)) < 300
    assert GOLDEN["rejections"]["stream_state_unchanged"]
    assert generator.state == 17
    corrected = NamedParameter.xavier_uniform(NAME, 2, 2, generator)
    assert corrected.values.ravel().tolist() == oracle(2, 2, 17)


@pytest.mark.parametrize(("fault", "fans"), [case for case in CASES if case[0] not in ("allocation",)], ids=str)
def test_the_scale_alone_refuses_the_same_fans(fault: str, fans: tuple[Any, Any]) -> None:
    if fault == "shape product overflow":
        assert xavier_scale(*fans).target_variance > 0
    else:
        with pytest.raises(InitializationError) as caught:
            xavier_scale(*fans)
        assert caught.value.fault == fault


def test_memory_that_runs_out_is_an_allocation_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(self: SplitMix64, count: int = 1) -> None:
        raise MemoryError

    generator = SplitMix64(17)
    monkeypatch.setattr(SplitMix64, "next_units", exhausted)
    with pytest.raises(InitializationError) as caught:
        NamedParameter.xavier_uniform(NAME, 2, 2, generator)
    assert caught.value.fault == "allocation"
    assert generator.state == 17


@pytest.mark.parametrize("fans", list(itertools.product([np.int64(2), np.uint64(3), np.int8(2), 2], repeat=2)), ids=str)
def test_numpy_fans_count_as_whole_numbers(fans: tuple[Any, Any]) -> None:
    plain = int(fans[0]), int(fans[1])
    assert draw(*fans).values.ravel().tolist() == oracle(*plain, 17)
    assert xavier_scale(*fans) == xavier_scale(*plain)


@pytest.mark.parametrize(
    ("fans", "fault"),
    [
        ((np.uint64(LARGEST), np.uint64(1)), "fan sum overflow"),
        ((np.uint64(LARGEST), 1), "fan sum overflow"),
        ((np.int64(2**32), np.int64(2**32)), "shape product overflow"),
        ((np.int8(100), np.int8(100)), None),
    ],
)
def test_numpy_fans_do_not_wrap(fans: tuple[Any, Any], fault: str | None) -> None:
    if fault is None:
        assert draw(*fans).values.shape == (100, 100)
    else:
        with pytest.raises(InitializationError) as caught:
            draw(*fans)
        assert caught.value.fault == fault
