"""The band: both ends inclusive on unrounded values, and what is not a band."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from core.errors import ConfigError
from core.health.band import DEFAULT_BAND, Band, classify, parse_band

POSITIVE = st.floats(min_value=5e-324, allow_nan=False, allow_infinity=False)


def test_the_default_is_the_published_band() -> None:
    assert (DEFAULT_BAND.lower, DEFAULT_BAND.upper) == (0.01, 100.0)


@given(lower=POSITIVE, upper=POSITIVE)
def test_both_ends_are_inside_and_their_neighbours_are_not(lower: float, upper: float) -> None:
    assume(lower <= upper)
    band = Band(lower, upper)
    assert classify(lower, band) == classify(upper, band) == "within"
    assert classify(math.nextafter(lower, 0.0), band) == "below"
    above = math.nextafter(upper, math.inf)
    if math.isfinite(above):
        assert classify(above, band) == "above"


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [(0.01, "within"), (100.0, "within"), (0.00999999999999, "below"), (100.00000000001, "above"), (0.0, "below")],
)
def test_unrounded_values_decide(ratio: float, verdict: str) -> None:
    """Values that print as the limit at six decimals are still outside."""
    assert classify(ratio) == verdict


@given(ratios=st.lists(st.floats(allow_nan=False, allow_infinity=False)), lower=POSITIVE, upper=POSITIVE)
def test_an_array_is_judged_as_its_ratios_are(ratios: list[float], lower: float, upper: float) -> None:
    assume(lower <= upper)
    sides = ["below" if ratio < lower else "above" if ratio > upper else "within" for ratio in ratios]
    assert Band(lower, upper).judge([ratios]).tolist() == [sides]
    assert [classify(ratio, Band(lower, upper)) for ratio in ratios] == sides


def test_an_undefined_ratio_of_an_array_has_no_side() -> None:
    assert DEFAULT_BAND.judge([math.nan, math.inf, -math.inf]).tolist() == ["", "above", "below"]


@pytest.mark.parametrize("ratio", [math.nan, math.inf, -math.inf])
def test_a_nonfinite_ratio_has_no_place(ratio: float) -> None:
    with pytest.raises(ConfigError, match="not finite"):
        classify(ratio)


@pytest.mark.parametrize(
    ("lower", "upper"),
    [(0.0, 1.0), (-1.0, 1.0), (1.0, math.inf), (math.nan, 1.0), (1.0, math.nan), (True, 2.0), ("1", 2.0), (None, 1.0)],
)
def test_limits_are_positive_and_finite(lower: float, upper: float) -> None:
    with pytest.raises(ConfigError, match="not a positive finite number"):
        Band(lower, upper)


def test_limits_are_in_order() -> None:
    with pytest.raises(ConfigError, match="lower limit 2 is above its upper limit 1"):
        Band(2.0, 1.0)
    assert classify(1.0, Band(1.0, 1.0)) == "within"


@pytest.mark.parametrize(("text", "band"), [("0.01,100", (0.01, 100)), (" 1e-3 , 2 ", (0.001, 2)), ("5,5", (5, 5))])
def test_a_band_from_text(text: str, band: tuple[float, float]) -> None:
    assert (parse_band(text).lower, parse_band(text).upper) == band


@pytest.mark.parametrize("text", ["", "1", "1,2,3", "a,b", "1;2", "nan,1", "1,inf", "2,1", "0,1", "-1,1", "1,", ",1"])
def test_text_that_is_no_band(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_band(text)
