"""Random tokens beside SplitMix64 in plain integers."""

from __future__ import annotations

import pytest

from core.errors import BatchError, ConfigError
from core.sweep.request import uniform_batch

MASK = 2**64 - 1


def drawn(seed: int, index: int) -> int:
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


@pytest.mark.parametrize("seed", [0, 2**64 - 1])
def test_tokens_are_scaled_draws_and_targets_the_next_tokens(seed: int) -> None:
    batch = uniform_batch(3, 5, 266, seed)
    for row in range(3):
        tokens = [(drawn(seed, row * 6 + place) >> 32) * 266 >> 32 for place in range(6)]
        assert batch.inputs[row].tolist() == tokens[:-1]
        assert batch.targets[row].tolist() == tokens[1:]
    assert batch.valid.all()


def test_every_token_of_the_vocabulary_is_about_equally_likely() -> None:
    tokens = uniform_batch(8, 1000, 4).inputs
    # 8,000 draws on four values: a standard deviation of 39 around 2,000.
    assert all(1800 < int((tokens == value).sum()) < 2200 for value in range(4))


@pytest.mark.parametrize("sizes", [(0, 4, 10), (1, 0, 10), (1, 4, 0), (True, 4, 10), (2**11, 2**11, 10), (1, 1, 2**32)])
def test_what_makes_no_batch_is_refused(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(BatchError):
        uniform_batch(*sizes)


def test_a_seed_is_checked() -> None:
    with pytest.raises(ConfigError):
        uniform_batch(1, 4, 10, -1)
