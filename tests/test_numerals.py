"""Numbers as people type them: one reading of whole numbers, one of finite numbers, wherever text becomes a number."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.audit.request import parsed_sigma
from core.errors import DepthscopeError
from core.health.band import parse_band
from core.lab.options import Option, checked_vector
from core.numerals import checked_seed, finite_number, whole_number
from core.sweep.ranges import parse_seeds, parse_sizes
from core.tables.studies import parsed_ratios

# Python's int and float read all of these.
READ_BY_PYTHON = ["1_0", "١", "1\xa0", "\u20091", "+1", "𝟙", "1\x0b", "1\x85"]
WHOLE: dict[str, Callable[[str], object]] = {
    "seed": checked_seed,
    "seeds": parse_seeds,
    "end of seeds": lambda text: parse_seeds(f"0:{text}"),
    "sizes": lambda text: parse_sizes("--blocks", text),
    "lab": lambda text: Option(kind="whole", label="", help="").checked("x", text),
    "lab seed": lambda text: Option(kind="seed", label="", help="").checked("x", text),
    "lab list": lambda text: Option(kind="wholes", label="", help="").checked("x", text),
}
FINITE: dict[str, Callable[[str], object]] = {
    "band": lambda text: parse_band(f"{text},100"),
    "end of band": lambda text: parse_band(f"0.01,{text}"),
    "vector": lambda text: checked_vector("x", text, 1, 9),
    "lab": lambda text: Option(kind="number", label="", help="").checked("x", text),
    "sigma": parsed_sigma,
    "ratios": parsed_ratios,
}


@given(st.integers(-(10**40) + 1, 10**40 - 1))
def test_every_integer_of_forty_digits_is_read_back(value: int) -> None:
    assert whole_number(f" {value}\t") == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_number_is_read_back(value: float) -> None:
    assert finite_number(f" {value!r}\n") == value


@pytest.mark.parametrize("text", ["1", "1.", ".5", "1e5", "1E-5", "-1.5e+3", "0"])
def test_the_usual_forms(text: str) -> None:
    assert finite_number(text) == float(text)


@pytest.mark.parametrize("text", ["", " ", "-", ".", "e5", "1e", "0x1", "1 2", "1e999", "nan", "inf", "9" * 1001])
def test_what_is_no_number(text: str) -> None:
    assert finite_number(text) is None


@pytest.mark.parametrize("text", READ_BY_PYTHON)
@pytest.mark.parametrize("reader", WHOLE)
def test_whole_numbers_are_read_alike(reader: str, text: str) -> None:
    assert int(text) in (1, 10)
    assert WHOLE[reader]("1") is not None
    with pytest.raises(DepthscopeError):
        WHOLE[reader](text)


@pytest.mark.parametrize("text", READ_BY_PYTHON)
@pytest.mark.parametrize("reader", FINITE)
def test_finite_numbers_are_read_alike(reader: str, text: str) -> None:
    assert float(text) in (1, 10)
    assert FINITE[reader]("1") is not None
    with pytest.raises(DepthscopeError):
        FINITE[reader](text)
