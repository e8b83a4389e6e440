"""Observing over seeds: rows are those of one seed alone, however the range is cut; growth is a plain fit."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from core.decoder.base_draw import BaseDraw, Distribution
from core.decoder.config import Budget, DecoderConfig
from core.errors import BudgetError, ConfigError, RecipeError
from core.health import chunks
from core.health.arms import observe_arms
from core.health.growth import growth_depths, with_growth
from core.health.request import ObserveRequest
from core.health.seeds import observe_seeds
from core.health.seeds_report import seeds_document, shown_seed
from core.recipes.catalogue import RECIPES, recipe
from tests.support import ROW, observe_one

SEEDS = (4701, 3, 2**64 - 1, 0, 17)
NAMES = ("gpt2", "post-norm", "admin", "unscaled")
# A spread of weights at which some seeds have finite ratios and some have not.
STEEP = 1e51
ABSENT = next(known.name for known in RECIPES if known.refusal is not None)
REQUEST = ObserveRequest(config=DecoderConfig(blocks=3))


@pytest.mark.parametrize("members", [1024, 8, 1])
def test_a_row_is_the_observation_of_its_seed_alone(members: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "MAX_MEMBERS", members)
    told: list[tuple[str, int, int]] = []
    arms = observe_seeds(REQUEST, SEEDS, NAMES, told=lambda *what: told.append(what))
    assert [arm.recipe.name for arm in arms] == list(NAMES)
    assert told[-1] == ("seeds", len(SEEDS), len(SEEDS))
    assert len(told) == (1 if members == 1024 else len(SEEDS) if members == 1 else 3)
    for arm in arms:
        assert arm.seeds == SEEDS
        for row, seed in enumerate(SEEDS):
            alone = observe_one(REQUEST.config, arm.recipe.name, seed, ROW)
            assert arm.labels == alone.labels
            np.testing.assert_allclose(arm.activation_rms[row], alone.activation_rms[0], rtol=1e-12)
            np.testing.assert_allclose(arm.adjoint_rms[row], alone.adjoint_rms[0], rtol=1e-12)
            np.testing.assert_allclose(arm.loss_nats[row], alone.loss_nats[0], rtol=1e-12)


def test_ribbons_are_quantiles_of_the_rows() -> None:
    (arm,) = observe_seeds(REQUEST, SEEDS, ["gpt2"])
    low, middle, high = arm.ribbon("adjoint", (0.0, 0.5, 1.0))
    assert low.tolist() == arm.adjoint_ratio.min(axis=0).tolist()
    assert middle.tolist() == np.median(arm.adjoint_ratio, axis=0).tolist()
    assert high.tolist() == arm.adjoint_ratio.max(axis=0).tolist()


def test_a_seed_that_overflows_is_refused_by_itself_with_its_reason() -> None:
    """At this spread some seeds overflow on the way back, and their neighbours do not notice."""
    request = replace(REQUEST, distribution=Distribution(STEEP), recipe="post-norm")
    (arm,) = observe_seeds(request, range(12), ["post-norm"])
    assert 0 < len(arm.reasons) < 12
    for row, seed in enumerate(arm.seeds):
        draw = BaseDraw(request.config, [seed], request.distribution)
        (alone,) = observe_arms(draw, [recipe("post-norm")], request.batch, contributions=False)
        refusal = alone.observation.refusal(0)
        assert arm.reasons.get(row) == (None if refusal is None else str(refusal))
        assert np.isfinite(arm.activation_ratio[row]).all() == (refusal is None)
    assert arm.verdict.refused == len(arm.reasons)
    assert np.isfinite(arm.ribbon("activation")).all()


def test_what_cannot_be_observed_over_seeds_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one seed"):
        observe_seeds(REQUEST, [])
    with pytest.raises(ConfigError, match="stands twice"):
        observe_seeds(REQUEST, [1, 2, 1])
    with pytest.raises(ConfigError, match="outside 0 to"):
        observe_seeds(REQUEST, [2**64])
    with pytest.raises(RecipeError):
        observe_seeds(REQUEST, [1], ["unscaled", ABSENT])


@pytest.mark.parametrize(("blocks", "depths"), [(1, (1, 2)), (2, (1, 2, 4)), (7, (3, 7, 14))])
def test_growth_is_the_slope_over_half_once_and_twice_the_blocks(blocks: int, depths: tuple[int, ...]) -> None:
    assert growth_depths(blocks) == depths
    request = ObserveRequest(config=DecoderConfig(blocks=blocks), recipe="unscaled")
    (arm,) = with_growth(request, observe_seeds(request, range(3), ["unscaled"]))
    growth = arm.verdict.growth
    assert growth is not None
    assert growth.blocks == depths
    points: dict[str, list[tuple[float, float]]] = {"activation": [], "adjoint": []}
    for depth in depths:
        for seed in range(3):
            alone = observe_one(DecoderConfig(blocks=depth), "unscaled", seed, ROW)
            points["activation"].append((math.log(depth), math.log(alone.activation_ratio[0, -1])))
            points["adjoint"].append((math.log(depth), math.log(alone.adjoint_ratio[0, 0])))
    for name, found in points.items():
        slope, _ = np.polyfit(*zip(*found, strict=True), 1)
        assert getattr(growth, name) == pytest.approx(slope, rel=1e-9)


def test_growth_refuses_a_deeper_decoder_beyond_the_budget_before_drawing() -> None:
    request = replace(REQUEST, budget=Budget(max_blocks=5))
    with pytest.raises(BudgetError):
        with_growth(request, observe_seeds(request, [1]))


def test_the_document_shows_the_first_seed_that_no_arm_refuses() -> None:
    arms = observe_seeds(REQUEST, SEEDS)
    assert shown_seed(arms) == SEEDS[0]
    partly = [replace(arms[0], reasons={0: "a", 2: "b"}), replace(arms[1], reasons={1: "c"})]
    assert shown_seed(partly) == SEEDS[3]
    control_lost = [replace(arms[0], reasons={0: "a"}), replace(arms[1], reasons=dict.fromkeys(range(5), "c"))]
    assert shown_seed(control_lost) == SEEDS[1]
    lost = [replace(arm, reasons=dict.fromkeys(range(5), "c")) for arm in arms]
    assert shown_seed(lost) == SEEDS[0]


def test_verdicts_stand_beside_the_document_of_the_seed_shown() -> None:
    document = seeds_document(REQUEST, SEEDS, growth=True)
    arms = observe_seeds(REQUEST, SEEDS)
    assert [arm.recipe for arm in arms] == [recipe("depth-scaled"), recipe("unscaled")]
    assert document["seeds"] == [str(seed) for seed in SEEDS]
    for key, arm in zip(("initialized", "same_base_unscaled_control"), arms, strict=True):
        found = document["verdicts"][key]
        assert {**found, "growth": None} == arm.verdict.document()
        assert found["growth"]["blocks"] == [1, 3, 6]
        assert document["refusals"][key] == []
