"""The chain engine against autograd, its prediction against many draws, and activations against their definitions."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from core.errors import LabError
from core.lab.experiments import experiment
from core.lab.moments import covariance, rms, slope
from core.lab.norm.law import RowNorm
from core.lab.signal.activations import ACTIVATIONS
from core.lab.signal.chain import SPREADS, ChainOptions, chain, drawn_weights
from core.lab.signal.chain_engine import Chain

TORCH = {
    "linear": lambda z: z,
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "silu": torch.nn.functional.silu,
    "gelu": torch.nn.functional.gelu,
}
D, LAYERS = 24, 6


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_and_slopes_are_torchs(name: str) -> None:
    z = torch.linspace(-30, 30, 401, dtype=torch.float64, requires_grad=True)
    value = TORCH[name](z)
    (gradient,) = torch.autograd.grad(value.sum(), z)
    points = z.detach().numpy()
    np.testing.assert_allclose(ACTIVATIONS[name].value(points), value.detach().numpy(), rtol=1e-13, atol=1e-15)
    ours, theirs = ACTIVATIONS[name].slope(points), gradient.numpy()
    # torch gives ReLU the slope 0 at 0, and so do we.
    np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("variance", [0.01, 1.0, 50.0])
def test_moments_are_those_of_a_normal(name: str, variance: float) -> None:
    # An independent rule: a fine midpoint sum over the distribution's own quantiles.
    levels = (torch.arange(2_000_000, dtype=torch.float64) + 0.5) / 2_000_000
    z = (math.sqrt(variance) * torch.special.ndtri(levels)).requires_grad_()
    value = TORCH[name](z)
    (gradient,) = torch.autograd.grad(value.sum(), z)
    value = value.detach()
    expected = [float(value.mean()), float(value.square().mean()), float(gradient.square().mean())]
    # The midpoint sum cuts the tails beyond five sigma, which is what the tolerance is for.
    np.testing.assert_allclose(ACTIVATIONS[name].moments(variance), expected, rtol=3e-5, atol=3e-5 * variance)


def autograd_chain(
    matrices: np.ndarray, x: np.ndarray, upstream: np.ndarray, name: str, shortcut: float, c: float, norm: str | None
) -> tuple[list[float], list[float]]:
    """The same stack in torch, sizes of states and of autograd's gradients."""
    state = torch.from_numpy(x).requires_grad_()
    states = [state]
    for matrix in matrices:
        state = shortcut * state + c * TORCH[name](torch.from_numpy(matrix) @ state)
        if norm == "layernorm":
            state = torch.nn.functional.layer_norm(state, (D,), eps=1e-6)
        elif norm == "rmsnorm":
            state = torch.nn.functional.rms_norm(state, (D,), eps=1e-6)
        states.append(state)
    gradients = torch.autograd.grad(states[-1] @ torch.from_numpy(upstream), states)
    sizes = [[float(value.detach().square().mean().sqrt()) for value in values] for values in (states, gradients)]
    return sizes[0], sizes[1]


@pytest.mark.parametrize("norm", [None, "layernorm", "rmsnorm"])
@pytest.mark.parametrize(("shortcut", "c"), [(0.0, 1.0), (1.0, 1.0), (1.0, LAYERS**-0.5), (0.7, 0.3)])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_both_passes_are_autograds(name: str, shortcut: float, c: float, norm: str | None) -> None:
    generator = np.random.default_rng(5)
    matrices = generator.standard_normal((LAYERS, D, D)) * 1.3 / math.sqrt(D)
    x, upstream = generator.standard_normal((2, D))
    built = Chain(
        activation=ACTIVATIONS[name],
        layers=LAYERS,
        weights=matrices.__getitem__,
        shortcut=shortcut,
        coefficient=c,
        norm=None if norm is None else RowNorm(kind=norm, epsilon=1e-6),  # type: ignore[arg-type]
    )
    sizes = built.run(x, upstream)
    forward, backward = autograd_chain(matrices, x, upstream, name, shortcut, c, norm)
    np.testing.assert_allclose(sizes.forward, forward, rtol=1e-12)
    np.testing.assert_allclose(sizes.backward, backward, rtol=1e-10)


@pytest.mark.parametrize("topology", ["plain", "residual", "scaled-residual"])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_prediction_is_the_mean_over_draws(name: str, topology: str) -> None:
    options = ChainOptions(activation=name, topology=topology, spread="xavier", layers=4, width=256, seeds=16)
    table = chain(options).tables["sizes"]
    squares = table.assign(square=table["rms"] ** 2).groupby(["kind", "pass", "layer"])["square"]
    mean, count = squares.mean(), squares.count()
    assert count["measured", "forward", 4] == 16
    for direction, layer in itertools.product(("forward", "backward"), range(5)):
        # 16 draws of 256 entries over four layers: one standard error is about 3%, and a finite width shifts a little.
        expected = mean["predicted", direction, layer]
        assert mean["measured", direction, layer] == pytest.approx(expected, rel=0.15), (direction, layer)


@pytest.mark.parametrize("norm", ["rmsnorm", "layernorm"])
def test_the_prediction_under_a_norm(norm: str) -> None:
    options = ChainOptions(activation="gelu", spread="custom", factor=3.0, norm=norm, layers=6, width=256, seeds=16)
    summary = chain(options).summary
    assert summary["output_rms"] == pytest.approx(1.0, abs=1e-3)
    assert summary["output_rms_predicted"] == pytest.approx(1.0, abs=1e-5)
    assert summary["input_gradient_rms"] == pytest.approx(summary["input_gradient_rms_predicted"], rel=0.15)


@pytest.mark.parametrize("spread", SPREADS)
def test_weights_have_the_variance_and_shape_of_their_law(spread: str) -> None:
    options = ChainOptions(spread=spread, width=512, layers=1, factor=0.7)
    weights = drawn_weights(options, 3)(0)
    expected = {"xavier": 2 / 1024, "he": 2 / 512, "default-linear": 1 / (3 * 512), "custom": 0.49 / 512}[spread]
    # The sample variance of n normal numbers has the relative standard error sqrt(2/n); five of them.
    assert weights.var() == pytest.approx(expected, rel=5 * math.sqrt(2) / 512)
    uniform = spread in ("xavier", "default-linear")
    assert (np.abs(weights).max() <= math.sqrt(3 * expected)) == uniform


def test_a_chain_drawn_twice_is_the_chain_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    options = ChainOptions(width=64, layers=10)
    kept = chain(options).tables["sizes"]
    monkeypatch.setattr("core.lab.signal.chain.KEPT", 0)
    assert chain(options).tables["sizes"].equals(kept)


def test_sizes_past_binary64_are_null_and_counted() -> None:
    entry = experiment("chain")
    options = entry.options({"activation": "linear", "spread": "custom", "factor": 100.0, "layers": 200})
    document = entry.document(options)
    assert document["summary"]["output_rms"] is None
    assert document["undefined"] > 0
    assert all(row["rms"] is None or math.isfinite(row["rms"]) for row in document["tables"]["sizes"])


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"layers": 0}, "layers is 0"),
        ({"layers": 201}, "from 1 to 200"),
        ({"width": 1024, "layers": 100}, "exceed the limit"),
        ({"activation": "swish"}, "choose one of linear"),
        ({"factor": math.nan}, "factor holds nan"),
        ({"seed": -1}, "outside 0 to 2"),
        ({"seed": 2**64}, "outside 0 to 2"),
    ],
)
def test_refusals(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text) as caught:
        experiment("chain").options(given)
    assert str(caught.value).endswith(".")


def test_a_lab_refusal_is_typed() -> None:
    with pytest.raises(LabError):
        ChainOptions(layers=0)


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=40), st.integers(-900, 900))
def test_rms_is_safe_from_overflow(values: list[float], power: int) -> None:
    exact = math.sqrt(math.fsum(value * value for value in values) / len(values))
    assume(exact > 1e-3)
    # A power of two scales exactly, and every square here leaves binary64 at the ends of the range.
    assert rms(np.ldexp(np.array(values), power)) == pytest.approx(math.ldexp(exact, power), rel=1e-12)


def test_covariance_and_slope() -> None:
    first, second = np.random.default_rng(0).standard_normal((2, 50))
    assert covariance(first, second) == pytest.approx(np.cov(first, second, bias=True)[0, 1], rel=1e-12)
    x = np.array([1.0, 2.0, 4.0, 8.0])
    assert slope(x, 3 * x**-0.5) == pytest.approx(-0.5, abs=1e-12)
