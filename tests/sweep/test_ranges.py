"""Ranges as people type them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ConfigError, SweepError
from core.sweep.ranges import parse_names, parse_seeds, parse_sizes, seed_text


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("0:3", (0, 1, 2)),
        ("7", (7,)),
        (" 5 , 1:3", (5, 1, 2)),
        ("18446744073709551614:18446744073709551616", (2**64 - 2, 2**64 - 1)),
        ("9007199254740993", (2**53 + 1,)),
    ],
)
def test_a_range_leaves_its_end_out(text: str, seeds: tuple[int, ...]) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", SweepError),
        ("1,,2", SweepError),
        ("3:", SweepError),
        ("3:3", SweepError),
        ("5:2", SweepError),
        ("0:0", SweepError),
        ("0:99999999", SweepError),
        ("0:1:2", SweepError),
        ("-1", ConfigError),
        ("1.5", ConfigError),
        ("a:3", ConfigError),
        ("18446744073709551616", ConfigError),
        ("0:18446744073709551617", ConfigError),
        ("9" * 5000, ConfigError),
    ],
)
def test_what_is_no_range_is_refused_in_one_sentence(text: str, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        parse_seeds(text)
    assert len(str(caught.value)) < 250


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 20), min_size=1, max_size=30))
def test_seeds_survive_the_way_through_text(seeds: list[int]) -> None:
    assert parse_seeds(seed_text(seeds)) == tuple(seeds)


def test_consecutive_seeds_are_written_as_one_range() -> None:
    assert seed_text([0, 1, 2, 9, 4, 5]) == "0:3,9,4:6"


def test_sizes_and_names_are_lists() -> None:
    assert parse_sizes("--blocks", "1, 2,64") == (1, 2, 64)
    assert parse_names("--recipe", "gpt2, lns") == ("gpt2", "lns")
    for text in ("1,x", "1.0", "-2", "1,", "2" * 50):
        with pytest.raises(SweepError, match="--blocks"):
            parse_sizes("--blocks", text)
