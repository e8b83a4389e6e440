"""The tours: every stop is a setting that exists, and every sentence is true of the numbers there."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from core.decoder.base_draw import BaseDraw
from core.decoder.batch import chapter_batch
from core.decoder.config import DecoderConfig
from core.errors import LabError
from core.health.arms import observe_arms
from core.health.observation import Observation
from core.health.request import CHAPTER_SEED
from core.lab.experiment import Result
from core.lab.experiments import experiment
from core.lab.tours import TOURS, Step, tour
from core.recipes.catalogue import recipe

STEPS = [(name, index) for name, walk in TOURS.items() for index in range(len(walk.steps))]


def options_of(step: Step) -> dict[str, str]:
    return {name: value for name, value in step.parameters.items() if name != "experiment"}


def result_of(step: Step) -> Result:
    entry = experiment(step.parameters["experiment"])
    return entry.run(entry.options(options_of(step)))


def health_of(step: Step) -> Observation:
    config = DecoderConfig(blocks=int(step.parameters["blocks"]))
    chosen = recipe(step.parameters["recipe"])
    return observe_arms(BaseDraw(config, [CHAPTER_SEED]), [chosen], chapter_batch())[0].observation


@pytest.mark.parametrize(("name", "index"), STEPS)
def test_every_stop_exists_and_has_two_sentences(name: str, index: int) -> None:
    step = tour(name).step(index)
    assert len(step.sentences) == 2
    for sentence in step.sentences:
        assert sentence.endswith(".")
        assert ". " not in sentence
        assert len(sentence) < 140
    if step.page == "residual_health":
        assert set(step.parameters) == {"recipe", "blocks"}
        recipe(step.parameters["recipe"]).graph(DecoderConfig(blocks=int(step.parameters["blocks"])))
    else:
        entry = experiment(step.parameters["experiment"])
        assert entry.page == step.page
        entry.options(options_of(step))


def test_walks() -> None:
    assert [walk.title for walk in TOURS.values()] == [
        "Why one over root L", "What the norm hides", "When the rule fails",
    ]  # fmt: skip
    with pytest.raises(LabError, match="The tour 'x' is unknown"):
        tour("x")
    for position in (-1, 99, True, "0"):
        with pytest.raises(LabError, match="not on this tour"):
            TOURS["root-l"].step(position)  # type: ignore[arg-type]


def added(low: float, high: float) -> Callable[[Step], None]:
    def check(step: Step) -> None:
        assert low <= result_of(step).summary["added_variance"] <= high

    return check


def grows_by_the_root(step: Step) -> None:
    summary = result_of(step).summary
    assert summary["growth_exponent"] == pytest.approx(0.5, abs=0.02)
    assert summary["final_rms"] == pytest.approx(summary["final_rms_expected"], rel=0.03)


def adds_what_one_branch_added(step: Step) -> None:
    unscaled = result_of(TOURS["root-l"].step(3)).summary["first_rms"]
    assert result_of(step).summary["final_rms"] == pytest.approx(unscaled, rel=0.05)


def climbs(step: Step) -> None:
    observation = health_of(step)
    assert observation.activation_ratio[0].max() > 20
    assert observation.adjoint_ratio[0].max() > 20


def flattens(step: Step) -> None:
    scaled, unscaled = health_of(step), health_of(TOURS["root-l"].step(5))
    assert scaled.activation_ratio[0].max() < 0.5 * unscaled.activation_ratio[0].max()
    assert scaled.adjoint_ratio[0].max() < 0.5 * unscaled.adjoint_ratio[0].max()


def same_output(step: Step) -> None:
    table = result_of(step).tables["changes"].set_index(["norm", "change"])["relative_distance"]
    assert max(table["layernorm", "factor"], table["rmsnorm", "factor"]) < 1e-5


def forward_at_one(step: Step) -> None:
    result = result_of(step)
    assert math.sqrt(result.summary["gain"]) == pytest.approx(20.0)
    sizes = result.tables["sizes"]
    forward = sizes[(sizes["pass"] == "forward") & (sizes["layer"] > 0)]["rms"]
    assert (forward - 1).abs().max() < 1e-6


def two_directions_lost(step: Step) -> None:
    result = result_of(step)
    assert result.summary["width"] - result.summary["rank"] == 2
    assert (result.tables["directions"]["share_of_largest"] < 1e-12).all()
    assert result.summary["largest_singular_value"] == pytest.approx(result.summary["one_over_denominator"])


def last_gradient_falls(step: Step) -> None:
    summary = result_of(step).summary
    assert summary["slope[pre-norm]"] < -0.3
    assert abs(summary["slope[post-norm]"]) < 0.03


def thirteen_percent(step: Step) -> None:
    assert round(result_of(step).summary["share_of_full_size"], 2) == 0.13


def settles_at_once(step: Step) -> None:
    observation = health_of(step)
    inner = observation.activation_ratio[0][1:]
    assert inner.max() / inner.min() < 1.001
    assert observation.adjoint_ratio[0].max() / observation.adjoint_ratio[0].min() > 2


def rule_agrees(step: Step) -> None:
    assert result_of(step).summary["measured_over_rule"] == pytest.approx(1.0, abs=0.02)


def misread_is_five_times_too_small(step: Step) -> None:
    result = result_of(step)
    table = result.tables["variance"].set_index("kind")["variance"]
    assert result.summary["measured_over_rule"] == pytest.approx(1.0, abs=0.05)
    assert result.summary["rule_variance"] / table["misread d sigma^2 Var(x)"] == pytest.approx(5.0)


def rule_fails_by_far(step: Step) -> None:
    assert result_of(step).summary["measured_over_rule"] > 10


def halves(step: Step) -> None:
    summary = result_of(step).summary
    assert summary["activation_mean_square"] == 0.5
    assert summary["output_rms_predicted"] == pytest.approx(2.0**-25)
    assert summary["output_rms"] == pytest.approx(2.0**-25, rel=0.9)


def covariance_is_not_zero(step: Step) -> None:
    summary = result_of(step).summary
    assert summary["largest_correlation"] > 0.3
    assert abs(summary["measured_over_independence"] - 1) > 0.1


def bound_is_far_above(step: Step) -> None:
    assert result_of(step).summary["bound_over_norm"] > 10


CLAIMS: dict[str, list[Callable[[Step], None]]] = {
    "root-l": [
        added(48 - 1e-9, 48 + 1e-9), added(1 - 1e-9, 1 + 1e-9), added(1 / 48 - 1e-9, 1 / 48 + 1e-9), grows_by_the_root,
        adds_what_one_branch_added, climbs, flattens,
    ],
    "norm-hides": [
        same_output, forward_at_one, two_directions_lost, last_gradient_falls, thirteen_percent, settles_at_once,
    ],
    "rule-fails": [
        rule_agrees, misread_is_five_times_too_small, rule_fails_by_far, halves, added(20, 28), covariance_is_not_zero,
        bound_is_far_above,
    ],
}  # fmt: skip


@pytest.mark.parametrize(("name", "index"), STEPS)
def test_every_claim_is_true_of_the_numbers(name: str, index: int) -> None:
    assert len(CLAIMS[name]) == len(TOURS[name].steps)
    CLAIMS[name][index](TOURS[name].step(index))
