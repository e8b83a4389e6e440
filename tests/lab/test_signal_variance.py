"""Variance through a layer and through additions: exact laws, the identity, and where independence fails."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import LabError
from core.lab.decoder_source import DecoderOptions, decoder_tape
from core.lab.experiment import Result
from core.lab.experiments import experiment
from core.lab.signal.linear_layer import LinearLayerOptions, exact_variance
from core.lab.signal.variance_identity import VarianceIdentity


def ran(name: str, **given: Any) -> Result:
    entry = experiment(name)
    return entry.run(entry.options(given))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"input_mean": 2.0},
        {"weight_mean": 0.3},
        {"weight_correlation": 0.25},
        {"input_mean": -1.0, "weight_correlation": 0.5, "weight_mean": 0.2, "input_spread": 0.5},
    ],
    ids=str,
)
def test_the_exact_variance_is_that_of_an_enumerated_layer(given: dict[str, float]) -> None:
    # Two weights and two inputs that take finitely many values: every outcome is written out.
    options = LinearLayerOptions(fan_in=2, spread=0.8, **given)  # type: ignore[arg-type]
    share = options.weight_correlation
    outputs = []
    for common, *signs in itertools.product((-1.0, 1.0), repeat=5):
        own = [options.spread * math.sqrt(1 - share) * sign for sign in signs[:2]]
        weights = [options.weight_mean + options.spread * math.sqrt(share) * common + value for value in own]
        inputs = [options.input_mean + options.input_spread * sign for sign in signs[2:]]
        outputs.append(sum(w * x for w, x in zip(weights, inputs, strict=True)))
    assert exact_variance(options) == pytest.approx(np.var(outputs), rel=1e-12)


@pytest.mark.parametrize(
    "given", [{}, {"input_mean": 1.5}, {"weight_mean": 0.05}, {"weight_correlation": 0.2}], ids=str
)
def test_the_measured_variance_scatters_about_the_exact_one(given: dict[str, float]) -> None:
    ratios = []
    for seed in range(24):
        summary = ran("linear-layer", seed=seed, fan_in=64, spread=0.125, outputs=128, inputs=32, **given).summary
        ratios.append(summary["measured_variance"] / summary["exact_variance"])
    error = np.std(ratios, ddof=1) / math.sqrt(len(ratios))
    assert abs(np.mean(ratios) - 1) < 4 * error
    assert error < 0.05


def test_the_rule_holds_and_fails_where_it_says() -> None:
    plain = ran("linear-layer").summary
    assert plain["rule_holds"]
    assert plain["measured_over_rule"] == pytest.approx(1.0, abs=0.02)
    mean = ran("linear-layer", input_mean=2.0)
    table = mean.tables["variance"].set_index("kind")["variance"]
    assert mean.summary["rule_variance"] == pytest.approx(5 * table["misread d sigma^2 Var(x)"])
    assert mean.summary["rule_variance"] == pytest.approx(mean.summary["exact_variance"], rel=1e-12)
    for broken in ({"weight_mean": 0.05}, {"input_mean": 1.0, "weight_correlation": 0.1}):
        summary = ran("linear-layer", **broken).summary
        assert not summary["rule_holds"]
        assert summary["measured_over_rule"] > 1.5
    assert ran("linear-layer", spread=0.0, weight_mean=1.0).summary["measured_over_rule"] is None


@given(st.integers(0, 2**32 - 1), st.floats(-3, 3), st.floats(0, 1e3), st.integers(2, 200))
def test_the_identity_holds_to_rounding(seed: int, mix: float, offset: float, size: int) -> None:
    stream, own = np.random.default_rng(seed).standard_normal((2, size))
    found = VarianceIdentity.of(stream + offset, mix * stream + own)
    assert found.error < 1e-12
    assert found.measured == pytest.approx(float(np.var(stream + offset + mix * stream + own)), rel=1e-12)
    assert found.correlation == pytest.approx(np.corrcoef(stream, mix * stream + own)[0, 1], abs=1e-9)


def test_a_constant_branch_has_no_correlation() -> None:
    found = VarianceIdentity.of(np.array([1.0, 2.0]), np.zeros(2))
    assert (found.correlation, found.error) == (None, 0.0)
    assert VarianceIdentity.of(np.zeros(2), np.zeros(2)).error == 0.0


@pytest.mark.parametrize("branches", [1, 2, 17, 200])
@pytest.mark.parametrize(("rho", "kappa"), [(0.0, 0.0), (0.5, 0.0), (1.0, 0.0), (0.5, -0.6), (0.3, 0.5)])
def test_constructed_branches_have_the_variance_they_are_asked_for(branches: int, rho: float, kappa: float) -> None:
    summary = ran("scaled-residual", branches=branches, branch_correlation=rho, input_correlation=kappa).summary
    c = branches**-0.5
    expected = branches * c**2 * (1 + (branches - 1) * rho) + 2 * c * branches * kappa
    assert summary["added_variance"] == pytest.approx(expected, abs=1e-11 * branches)
    assert summary["added_variance_expected"] == pytest.approx(expected, abs=1e-12 * branches)
    assert summary["largest_identity_error"] < 1e-12


def test_correlations_that_cannot_be_are_refused() -> None:
    with pytest.raises(LabError, match="below the square"):
        experiment("scaled-residual").options({"input_correlation": 0.9})


RECIPES = [
    "unscaled",
    "depth-scaled",
    "parallel",
    "deepscalelm",
    "peri-norm",
    "post-norm",
    "admin",
    "ngpt",
    "zero-writer",
]


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_identity_at_every_addition_of_a_decoder(recipe: str) -> None:
    result = ran("decoder-variance", recipe=recipe)
    table = result.tables["additions"]
    assert result.summary["largest_identity_error"] < 1e-12
    tape = decoder_tape(DecoderOptions(recipe=recipe))
    assert list(table["label"]) == tape.labels[1:]
    if recipe not in ("post-norm", "admin", "ngpt"):
        # Without a norm after the addition the sum is the next state itself.
        states = [float(np.var(state.detach().numpy())) for state in tape.states[1:]]
        np.testing.assert_allclose(table["measured_variance"], states, rtol=1e-12)
    else:
        assert table["independence_from_input"].iloc[1:].isna().all()


def test_a_real_decoder_has_covariance() -> None:
    result = ran("decoder-variance")
    table, summary = result.tables["additions"], result.summary
    assert (table["twice_covariance"].abs() > 0.05 * table["branch_variance"]).mean() > 0.8
    assert summary["largest_correlation"] > 0.5
    assert abs(summary["measured_over_independence"] - 1) > 0.2
    total = table["stream_variance"].iloc[0] + table["branch_variance"].sum()
    assert table["independence_from_input"].iloc[-1] == pytest.approx(total, rel=1e-12)
    # What independence leaves out is the sum of the covariances, exactly.
    left_out = table["measured_variance"].iloc[-1] - total
    assert left_out == pytest.approx(table["twice_covariance"].sum(), rel=1e-9)


def test_scaled_shortcuts_carry_their_square() -> None:
    table = ran("decoder-variance", recipe="deepscalelm").tables["additions"]
    expected = table["stream_variance"].iloc[0] + table["branch_variance"].iloc[0]
    for branch in table["branch_variance"].iloc[1:]:
        expected = (1 - 1 / 8) * expected + branch
    assert table["independence_from_input"].iloc[-1] == pytest.approx(expected, rel=1e-12)


def test_padding_and_text_rows_are_accepted() -> None:
    short, long = (
        ran("decoder-variance", text=text).summary["final_variance"] for text in ("a", "a longer row of text")
    )
    assert short != long


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"width": 512, "ff_width": 2048, "blocks": 256}, "parameters exceed the budget"),
        ({"heads": 3}, "not a multiple"),
        ({"recipe": "t-fixup"}, "choose one of"),
        ({"text": "x" * 600}, "positions exceed the budget"),
        ({"recipe": "deepscalelm", "blocks": 1}, "at least 2 blocks"),
    ],
)
def test_decoders_that_cannot_be_are_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text) as caught:
        experiment("decoder-variance").options(given)
    assert str(caught.value).endswith(".")


def test_soft_capping() -> None:
    for preset, cap in (("attention", 50.0), ("final logits", 30.0)):
        entry = experiment("soft-cap")
        result = entry.run(entry.options(preset=preset))
        assert result.summary["capped"] == pytest.approx(cap * math.tanh(1.0), rel=1e-14)
        curve = result.tables["curve"]
        assert curve["capped"].abs().max() < cap
        numeric = np.gradient(curve["capped"], curve["logit"], edge_order=2)
        np.testing.assert_allclose(curve["slope"], numeric, atol=2e-3)
        assert 1 - math.tanh(result.summary["half_slope_at"] / cap) ** 2 == pytest.approx(0.5, rel=1e-12)


def test_the_saturating_unit_step_by_step() -> None:
    entry = experiment("sigmoid-unit")
    result = entry.run(entry.options({"x": -2.0, "w": 0.75, "bias": 0.25}))
    z = -2.0 * 0.75 + 0.25
    output = 1 / (1 + math.exp(-z))
    values = [-2.0, -1.5, z, output, output * (1 - output), -2.0 * output * (1 - output), 0.75 * output * (1 - output)]
    assert list(result.tables["steps"]["value"]) == pytest.approx(values, rel=1e-14)
    assert list(result.tables["steps"]["step"]) == list(range(7))
    assert ran("sigmoid-unit", x=100.0, w=100.0).summary["slope"] == 0.0
    assert ran("sigmoid-unit", x=0.5, w=1.0).summary["share_of_steepest_slope"] == 1.0


@pytest.mark.parametrize(
    "given",
    [{}, {"spread": 0.0}, {"spread": 1e-24, "input_spread": 0.0, "weight_mean": 7e-9, "input_mean": 100.0}],
    ids=str,
)
def test_the_histogram_holds_every_output(given: dict[str, float]) -> None:
    outputs = ran("linear-layer", **given).tables["outputs"]
    assert outputs["count"].sum() == 512 * 64
    assert (outputs["to"] > outputs["from"]).all()
