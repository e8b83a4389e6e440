"""Worked values against the published figures and against fractions worked out apart; synthetic arrays too."""

from __future__ import annotations

import json
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ConfigError, ConstructionError, DepthscopeError, InitializationError
from core.health.band import Band
from core.lab.synthetic import synthetic_classifiers
from core.plan.worked_values import (
    base_derivative,
    ideal_distribution,
    scaled_vector,
    stored_derivative,
    toy_variance,
    worked_values,
)

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "worked_values.json").read_text())
DEPTHS = st.integers(1, 2**53)
FANS = st.integers(1, 2**31)


def root(value: Fraction) -> float:
    """Square root of a fraction, correctly rounded by forty digits in between."""
    with localcontext() as context:
        context.prec = 40
        return float((Decimal(value.numerator) / Decimal(value.denominator)).sqrt())


def test_the_published_vector() -> None:
    values = worked_values()
    published = GOLDEN["worked_vector"]
    assert values["base"] == values["unselected"] == published["base"]
    assert set(values["blocks"]) == set(published["blocks"])
    for blocks, vector in published["blocks"].items():
        assert [round(value, 6) for value in values["blocks"][blocks]] == vector
    assert values["blocks"]["1"] == values["base"]


def test_the_published_distributions() -> None:
    ideal = worked_values()["ideal"]
    for blocks, published in GOLDEN["ideal_xavier_4x4"].items():
        assert ideal[blocks]["variance"] == float(Fraction(published["variance"]))
        inside = Fraction(published["half_bound"].removeprefix("sqrt(").removesuffix(")"))
        assert ideal[blocks]["half_bound"] == root(inside)


def test_the_published_derivatives_and_toy_sum() -> None:
    values = worked_values()
    assert values["derivatives"]["stored"] == GOLDEN["derivatives_of_2w"]["stored"]
    for blocks, derivative in values["derivatives"]["base"].items():
        assert derivative == pytest.approx(2 * root(Fraction(1, int(blocks))), rel=1e-15)
    for variance in values["toy_variance"].values():
        assert variance == GOLDEN["toy_variance_in_increment_variances"]


def test_other_arguments_reach_every_number() -> None:
    values = worked_values([3], base=[1.0], fans=(5, 7), scalar_input=-3.0, increment_variance=0.25)
    assert values["blocks"] == {"3": [pytest.approx(root(Fraction(1, 3)), rel=1e-15)]}
    assert values["ideal"]["3"]["variance"] == 1 / 18
    assert values["derivatives"]["stored"] == -3.0
    assert values["toy_variance"] == {"3": 0.5}
    assert json.loads(json.dumps(values, allow_nan=False)) == values


@given(blocks=DEPTHS, fan_in=FANS, fan_out=FANS)
def test_ideal_distribution_of_any_fans_and_depth(blocks: int, fan_in: int, fan_out: int) -> None:
    ideal = ideal_distribution(fan_in, fan_out, blocks)
    variance = Fraction(2, (fan_in + fan_out) * blocks)
    assert ideal["variance"] == float(variance)
    # Two roundings, the quotient's halved by the root.
    assert ideal["half_bound"] == pytest.approx(root(3 * variance), rel=2.0**-52)


@given(blocks=DEPTHS, weight=st.floats(-1e300, 1e300), variance=st.floats(0, 1e300))
def test_laws_of_any_depth(blocks: int, weight: float, variance: float) -> None:
    factor = root(Fraction(1, blocks))
    assert scaled_vector([weight], blocks)[0] == pytest.approx(factor * weight, rel=4 * 2.0**-52)
    assert base_derivative(2.0, blocks) == pytest.approx(factor * stored_derivative(2.0), rel=4 * 2.0**-52)
    assert toy_variance(blocks, variance) == 2 * variance


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: worked_values([0]), ConstructionError),
        (lambda: worked_values([-1]), ConstructionError),
        (lambda: worked_values([True]), ConfigError),
        (lambda: worked_values([1.0]), ConfigError),  # type: ignore[list-item]
        (lambda: worked_values([10**5000]), ConfigError),
        (lambda: worked_values(base=[float("nan")]), ConfigError),
        (lambda: worked_values(base=[10**400]), ConfigError),
        (lambda: worked_values(fans=(0, 4)), InitializationError),
        (lambda: worked_values(scalar_input=float("inf")), ConfigError),
        (lambda: toy_variance(2, -1.0), ConfigError),
        (lambda: toy_variance(2, 1.7e308), ConfigError),
    ],
)
def test_refusals(call: Any, error: type[DepthscopeError]) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).endswith(".")


def test_synthetic_arrays_have_the_published_verdicts() -> None:
    assert synthetic_classifiers() == GOLDEN["synthetic"]


def test_synthetic_arrays_follow_the_band_and_the_supplied_ratios() -> None:
    own = synthetic_classifiers({"mine": [0.5, 2.0, 2.0000000000000004]}, Band(0.5, 2.0))
    assert own == {"mine": {"ratios": [0.5, 2.0, 2.0000000000000004], "bands": ["within", "within", "above"]}}
    with pytest.raises(ConfigError):
        synthetic_classifiers({"mine": [float("nan")]})
