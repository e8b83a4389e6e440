"""The initialization document against a plain-Python oracle."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.decoder.xavier import xavier_scale
from core.errors import BudgetError, ConfigError, DepthscopeError, InitializationError
from core.lab.initializer import bin_edges, expected_propagation, init_document, population

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "chapter17.json").read_text())
MASK = 2**64 - 1


def oracle_weights(fan_in: int, fan_out: int, seed: int) -> list[float]:
    """Xavier weights one scalar draw after another, in Python integers."""
    limit, state, weights = math.sqrt(6 / (fan_in + fan_out)), seed, []
    for _ in range(fan_in * fan_out):
        state = (state + 0x9E3779B97F4A7C15) & MASK
        value = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & MASK
        value = ((value ^ value >> 27) * 0x94D049BB133111EB) & MASK
        weights.append(limit * (2.0 * ((value ^ value >> 31) >> 11) / 2**53 - 1.0))
    return weights


def oracle_counts(values: list[float], edges: list[float]) -> list[int]:
    """Counts by comparing each value with each bin."""
    counts = [sum(low <= value < high for value in values) for low, high in itertools.pairwise(edges)]
    counts[-1] += sum(value == edges[-1] for value in values)
    return counts


def oracle_moments(values: list[float]) -> tuple[float, float]:
    """Population mean and variance with exactly rounded sums."""
    mean = math.fsum(values) / len(values)
    return mean, math.fsum((value - mean) ** 2 for value in values) / len(values)


def test_the_published_edges_and_projection() -> None:
    histograms = GOLDEN["histograms"]
    assert histograms["shape"] == [64, 64]
    document = init_document(64, 64, histograms["seed"])
    assert document["edges"] == histograms["bin_edges"]
    published = GOLDEN["projection"]
    small = init_document(published["fan_in"], published["fan_out"], published["seed"], include_weights=True)
    assert [round(weight, 12) for weight in small["weights"]] == published["weights_12_decimals"]
    assert small["target_variance"] == 0.5
    assert round(small["standard_deviation"], 12) == published["standard_deviation_12_decimals"]
    assert round(small["uniform_limit"], 12) == published["uniform_limit_12_decimals"]


@pytest.mark.parametrize(
    ("fan_in", "fan_out", "seed"), [(64, 64, 17), (3, 50, 0), (50, 3, MASK), (1, 1, 5), (1, 2399, 9)]
)
def test_the_document_equals_the_scalar_oracle(fan_in: int, fan_out: int, seed: int) -> None:
    document = init_document(fan_in, fan_out, seed, include_weights=True)
    weights = oracle_weights(fan_in, fan_out, seed)
    assert document["weights"] == weights
    assert document["initial_rng_state"] == document["seed"] == str(seed)
    assert document["final_rng_state"] == str((seed + fan_in * fan_out * 0x9E3779B97F4A7C15) & MASK)
    populations = {"zero": [0.0] * len(weights), "oversized": [2 * weight for weight in weights], "xavier": weights}
    for name, values in populations.items():
        measured = document["populations"][name]
        assert measured["counts"] == oracle_counts(values, document["edges"])
        assert measured["percent"] == [100 * count / len(values) for count in measured["counts"]]
        mean, variance = oracle_moments(values)
        # Pairwise sums of n numbers of size up to 2 limit: the error is far below n units of the last place.
        tolerance = len(values) * 2.0**-52 * document["uniform_limit"]
        assert measured["mean"] == pytest.approx(mean, abs=tolerance)
        assert measured["variance"] == pytest.approx(variance, rel=1e-12)


def test_populations_share_one_draw() -> None:
    document = init_document(64, 64, 17)
    zero, xavier, oversized = (document["populations"][name] for name in ("zero", "xavier", "oversized"))
    assert "weights" not in document
    assert zero["counts"] == [0, 0, 0, 0, 0, 4096, 0, 0, 0, 0]
    assert (zero["mean"], zero["variance"]) == (0.0, 0.0)
    # Doubling is exact in binary64, so the ratios are too.
    assert oversized["mean"] == 2 * xavier["mean"]
    assert oversized["variance"] == 4 * xavier["variance"]
    # The sample variance of n uniform numbers has the relative standard error sqrt(0.8 / n); five of them.
    assert xavier["variance"] == pytest.approx(document["target_variance"], rel=5 * math.sqrt(0.8 / 4096))
    assert xavier["counts"][:2] == xavier["counts"][-2:] == [0, 0]
    other = init_document(2, 2, 18, include_weights=True)["weights"]
    assert GOLDEN["seed_18_differs"]
    assert other != init_document(2, 2, 17, include_weights=True)["weights"]


@given(fan_in=st.integers(1, 2**40), fan_out=st.integers(1, 2**40))
def test_edges_of_any_fans(fan_in: int, fan_out: int) -> None:
    limit = xavier_scale(fan_in, fan_out).uniform_limit
    edges = bin_edges(limit)
    top = math.ceil(20 * limit) / 10
    assert len(edges) == 11
    assert edges[5] == 0.0
    assert edges[-1] == -edges[0] == top
    assert edges == [-edge for edge in reversed(edges)]
    assert edges == pytest.approx([top * (step - 5) / 5 for step in range(11)], rel=1e-15)
    assert top - 0.1 - 1e-12 <= 2 * limit <= top * (1 + 2.0**-52)


def test_bins_are_half_open_and_the_last_is_closed() -> None:
    edges = bin_edges(0.25)
    assert edges == GOLDEN["histograms"]["bin_edges"]
    measured = population(np.array(edges), edges)
    assert measured["counts"] == [1, 1, 1, 1, 1, 1, 1, 1, 1, 2]
    just_below = population(np.nextafter(np.array(edges[1:]), -1.0), edges)
    assert just_below["counts"] == [1] * 10


@given(values=st.lists(st.floats(-0.5, 0.5), min_size=1, max_size=60))
@settings(deadline=None)
def test_any_population_equals_the_oracle(values: list[float]) -> None:
    edges = bin_edges(0.25)
    measured = population(np.array(values), edges)
    assert measured["counts"] == oracle_counts(values, edges)
    assert math.fsum(measured["percent"]) == pytest.approx(100.0)
    mean, variance = oracle_moments(values)
    assert measured["mean"] == pytest.approx(mean, abs=1e-15)
    assert measured["variance"] == pytest.approx(variance, rel=1e-9, abs=1e-30)


def test_expected_propagation_is_the_published_table() -> None:
    published = GOLDEN["expected_propagation"]
    expected = expected_propagation(xavier_scale(64, 64))
    for key in ("layers", "input_variance", "zero", "xavier", "oversized"):
        assert expected[key] == published[key]
    assert expected == init_document(64, 64, 17)["expected_propagation"]


@given(fan_in=st.integers(1, 999), fan_out=st.integers(1, 999), layers=st.integers(0, 20), start=st.floats(0, 1e6))
def test_expected_propagation_of_any_fans(fan_in: int, fan_out: int, layers: int, start: float) -> None:
    scale = xavier_scale(fan_in, fan_out)
    expected = expected_propagation(scale, layers, start)
    for name, factor in {"zero": 0, "oversized": 2, "xavier": 1}.items():
        multiplier = fan_in * factor**2 * scale.target_variance
        assert expected[name] == pytest.approx([start * multiplier**layer for layer in range(layers + 1)], rel=1e-13)


@pytest.mark.parametrize("layers", [-1, 1.0, True, 5000, 600], ids=str)
def test_layers_that_cannot_be_are_refused(layers: Any) -> None:
    with pytest.raises(ConfigError):
        expected_propagation(xavier_scale(64, 64), layers)


@pytest.mark.parametrize("variance", [-1.0, math.inf, math.nan])
def test_input_variances_that_cannot_be_are_refused(variance: float) -> None:
    with pytest.raises(ConfigError, match="input_variance"):
        expected_propagation(xavier_scale(64, 64), 4, variance)


@pytest.mark.parametrize(
    ("fan_in", "fan_out", "seed", "error"),
    [
        (2, 2, -1, ConfigError),
        (2, 2, 2**64, ConfigError),
        (-1, 2, 17, "type"),
        (0, 0, 17, "zero fan_in"),
        (2, 0, 17, "zero fan_out"),
        (MASK, 1, 17, "fan sum overflow"),
        (2**32, 2**32, 17, "shape product overflow"),
        (2**31, 2**31, 17, "allocation"),
        (2**12, 2**12 + 1, 17, BudgetError),
    ],
)
def test_refusals(fan_in: Any, fan_out: Any, seed: Any, error: type[DepthscopeError] | str) -> None:
    kind = InitializationError if isinstance(error, str) else error
    with pytest.raises(kind) as caught:
        init_document(fan_in, fan_out, seed)
    assert getattr(caught.value, "fault", error) == error
    assert str(caught.value).endswith(".")
