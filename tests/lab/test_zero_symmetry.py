"""The zero-symmetry unit against the published example and central differences."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ConfigError
from core.lab.initializer import zero_symmetry
from core.lab.signal.activations import silu, silu_slope

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "chapter17.json").read_text())


def test_the_published_zero_symmetry() -> None:
    published = GOLDEN["zero_symmetry"]
    unit = zero_symmetry()
    for key in ("input", "activation", "output_weights", "output", "hidden_weight_gradient_row_major", "columns_equal"):
        assert unit[key] == published[key]
    assert unit["hidden_weights"] == [[0.0, 0.0], [0.0, 0.0]]


NUMBERS = st.floats(-4, 4)


@given(st.data())
def test_the_gradient_equals_central_differences(data: st.DataObject) -> None:
    rows, columns = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    inputs = data.draw(st.lists(NUMBERS, min_size=rows, max_size=rows))
    outputs = data.draw(st.lists(NUMBERS, min_size=columns, max_size=columns))
    hidden = data.draw(st.lists(st.lists(NUMBERS, min_size=columns, max_size=columns), min_size=rows, max_size=rows))

    def output(weights: list[list[float]]) -> float:
        before = [sum(x * row[j] for x, row in zip(inputs, weights, strict=True)) for j in range(columns)]
        return sum(v * z / (1 + math.exp(-z)) for v, z in zip(outputs, before, strict=True))

    unit = zero_symmetry(inputs, outputs, hidden)
    assert unit["output"] == pytest.approx(output(hidden), rel=1e-12, abs=1e-12)
    step, gradient = 1e-5, []
    for i in range(rows):
        for j in range(columns):
            moved = [[[*row] for row in hidden] for _ in range(2)]
            moved[0][i][j] += step
            moved[1][i][j] -= step
            gradient.append((output(moved[0]) - output(moved[1])) / (2 * step))
    # Truncation is step^2 times a third derivative below 4^4; rounding is 1e-15 * 200 / step.
    assert unit["hidden_weight_gradient_row_major"] == pytest.approx(gradient, abs=1e-6)


def test_columns_differ_when_treated_differently() -> None:
    assert not zero_symmetry(output_weights=(1.0, 2.0))["columns_equal"]
    assert not zero_symmetry(hidden_weights=[[0.1, 0.2], [0.3, 0.3]])["columns_equal"]
    assert zero_symmetry(hidden_weights=[[0.1, 0.1], [0.3, 0.3]])["columns_equal"]


def test_silu_saturates_without_overflow() -> None:
    far = np.array([-1e308, -800.0, 0.0, 800.0, 1e308])
    assert silu(far).tolist() == [0.0, 0.0, 0.0, 800.0, 1e308]
    assert silu_slope(far).tolist() == [0.0, 0.0, 0.5, 1.0, 1.0]


@pytest.mark.parametrize(
    "arguments",
    [
        {"inputs": []},
        {"inputs": [math.nan]},
        {"inputs": ["a"]},
        {"inputs": [[1.0]]},
        {"hidden_weights": [[0.0, 0.0]]},
        {"hidden_weights": [[0.0], [0.0, 1.0]]},
        {"inputs": [1e200, 1e200], "hidden_weights": [[1e200, 0.0], [1e200, 0.0]]},
    ],
)
def test_units_that_cannot_be_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        zero_symmetry(**arguments)
    assert str(caught.value).endswith(".")
