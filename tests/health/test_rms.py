"""Root mean square over valid positions: exact fractions beside it, selection to the bit, both ends of the range."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ObservationError
from core.health.rms import cosine_of_rows, valid_rms

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def exact_rms(values: list[float]) -> float:
    """The correctly rounded RMS, by fractions and forty digits."""
    mean = sum(Fraction(value) ** 2 for value in values) / len(values)
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = 60, -(10**6), 10**6
        return float((Decimal(mean.numerator) / Decimal(mean.denominator)).sqrt())


def rms(values: list[float], dtype: torch.dtype = torch.float64) -> float:
    state = torch.tensor(values, dtype=dtype).view(1, 1, -1, 1)
    return valid_rms(state, np.ones((1, len(values)), dtype=bool)).item()


@given(st.lists(FINITE, min_size=1, max_size=40))
def test_any_finite_values(values: list[float]) -> None:
    """Within rounding; at the very bottom of the range within one step of the subnormal grid."""
    assert rms(values) == pytest.approx(exact_rms(values), rel=1e-14, abs=5e-324)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1e200, 1e200, -1e200], torch.float64),
        ([1e-200, 2e-200], torch.float64),
        ([1e200, 1e-200], torch.float64),
        ([1.7e308, 1.7e308], torch.float64),
        ([5e-324, 5e-324], torch.float64),
        ([1e-30, 1e-30, 3e-30], torch.float32),
        ([3e38, 3e38], torch.float32),
        ([3e4, 1e-4], torch.float16),
        ([3e4, 3e4], torch.float16),
        ([3e38, 1e-38], torch.bfloat16),
    ],
)
def test_squares_neither_overflow_nor_vanish(values: list[float], dtype: torch.dtype) -> None:
    stored = torch.tensor(values, dtype=dtype).to(torch.float64).tolist()
    found = rms(values, dtype)
    assert 0 < found < math.inf
    assert found == pytest.approx(exact_rms(stored), rel=4e-16, abs=0)


@pytest.mark.parametrize("values", [[0.0], [0.0, -0.0, 0.0]])
def test_zeros_have_rms_zero(values: list[float]) -> None:
    assert rms(values) == 0.0


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_valid_nonfinite_value_is_seen(value: float) -> None:
    assert not math.isfinite(rms([1.0, value, 2.0]))


def test_members_do_not_scale_each_other() -> None:
    """Each member has a distinct power of two."""
    state = torch.tensor([1e200, 1e-200, 1.0, 0.0], dtype=torch.float64).view(4, 1, 1, 1).repeat(1, 2, 3, 5)
    assert valid_rms(state, np.ones((2, 3), dtype=bool)).tolist() == [1e200, 1e-200, 1.0, 0.0]


class TestSelection:
    """The published kind of mistake: padding that enters a mean, or is multiplied by zero."""

    STATE = torch.from_numpy(np.random.default_rng(1).normal(0, 3, (2, 3, 5, 4)))
    LENGTHS = (5, 2, 3)

    def kept(self) -> torch.Tensor:
        """RMS of the valid rows alone, without any padding."""
        rows = torch.cat([self.STATE[:, row, :length] for row, length in enumerate(self.LENGTHS)], dim=1)
        return valid_rms(rows[:, None], np.ones((1, sum(self.LENGTHS)), dtype=bool))

    @pytest.mark.parametrize("side", ["right", "left"])
    @pytest.mark.parametrize("filler", [0.0, 7.0, 1e300, math.nan, math.inf])
    def test_padding_is_left_out_to_the_bit(self, side: str, filler: float) -> None:
        state = torch.full((2, 3, 8, 4), filler, dtype=torch.float64)
        valid = np.zeros((3, 8), dtype=bool)
        for row, length in enumerate(self.LENGTHS):
            place = slice(0, length) if side == "right" else slice(8 - length, 8)
            state[:, row, place] = self.STATE[:, row, :length]
            valid[row, place] = True
        assert torch.equal(valid_rms(state, valid), self.kept())

    def test_a_reused_buffer_is_left_out(self) -> None:
        valid = np.array([[position < length for position in range(5)] for length in self.LENGTHS])
        assert torch.equal(valid_rms(self.STATE, valid), self.kept())

    def test_the_divisor_counts_valid_features(self) -> None:
        state = torch.tensor([[[[3.0, 4.0], [100.0, 100.0]]]], dtype=torch.float64)
        assert valid_rms(state, np.array([[True, False]])).item() == math.sqrt(12.5)


@pytest.mark.parametrize("shape", [(1, 2, 4, 3), (1, 3, 3, 3), (2, 3), (1, 6, 3)])
def test_geometry_that_does_not_fit_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ObservationError, match=r"\[2, 3\]"):
        valid_rms(torch.ones(shape), np.ones((2, 3), dtype=bool))


def test_nothing_valid_is_refused() -> None:
    with pytest.raises(ObservationError, match="No position is valid"):
        valid_rms(torch.ones(1, 2, 3, 4), np.zeros((2, 3), dtype=bool))


class TestOutsizedFirstToken:
    """One of 36 token rows 300 times the rest (a report on a GPT-2 residual stream)."""

    @pytest.fixture
    def state(self) -> torch.Tensor:
        rows = torch.ones(1, 1, 36, 8, dtype=torch.float64)
        rows[0, 0, 0] = 300.0
        return rows

    def test_with_and_without_it(self, state: torch.Tensor) -> None:
        valid = np.ones((1, 36), dtype=bool)
        assert valid_rms(state, valid).item() == pytest.approx(math.sqrt((300**2 + 35) / 36), rel=1e-15)
        assert round(valid_rms(state, valid).item()) == 50
        valid[0, 0] = False
        assert valid_rms(state, valid).item() == 1.0


class TestCosine:
    """Pooled cosine of rows, undefined beside a zero row."""

    @given(st.lists(st.tuples(FINITE, FINITE), min_size=1, max_size=20))
    def test_any_finite_values(self, pairs: list[tuple[float, float]]) -> None:
        first, second = (torch.tensor([list(column)], dtype=torch.float64) for column in zip(*pairs, strict=True))
        found = cosine_of_rows(first, second).item()
        if not first.any() or not second.any():
            assert math.isnan(found)
            return
        product = sum(Fraction(a) * Fraction(b) for a, b in pairs)
        squares = [sum(Fraction(pair[side]) ** 2 for pair in pairs) for side in (0, 1)]
        with localcontext() as context:
            context.prec, context.Emin, context.Emax = 60, -(10**6), 10**6
            lengths = [(Decimal(s.numerator) / Decimal(s.denominator)).sqrt() for s in squares]
            exact = float(Decimal(product.numerator) / Decimal(product.denominator) / lengths[0] / lengths[1])
        assert found == pytest.approx(exact, abs=1e-13)

    def test_far_from_one(self) -> None:
        large = torch.tensor([[3e200, 4e200], [1.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
        small = torch.tensor([[3e-200, 4e-200], [0.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
        assert cosine_of_rows(large, small).tolist()[:2] == [pytest.approx(1.0, rel=1e-15), 0.0]
        assert math.isnan(cosine_of_rows(large, small)[2])
