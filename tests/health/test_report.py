"""The observe document: sites alone, both arms of one draw, and refusals before anything is drawn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core.construction.drawn_weights import DrawnWeights
from core.decoder.base_draw import BaseDraw, Distribution
from core.decoder.batch import Batch
from core.decoder.config import Budget, DecoderConfig
from core.errors import BatchError, BudgetError, ConfigError, RecipeError
from core.health.estimate import MEMORY_SHARE, estimate
from core.health.report import built_run, observe_document, restored_document
from core.health.request import ObserveRequest
from core.recipes.catalogue import RECIPES
from tests.support import PACKED, batch_of

CONFIG = DecoderConfig(blocks=3, width=8, heads=4, kv_heads=2, ff_width=6, vocabulary=110, positions=6)
REQUEST = ObserveRequest(config=CONFIG, batch=batch_of(PACKED))
RUNNABLE = [recipe for recipe in RECIPES if recipe.refusal is None]


def test_sites_alone_are_the_same_sites() -> None:
    whole, sites = observe_document(REQUEST), observe_document(REQUEST, contributions=False)
    for arm in ("initialized", "same_base_unscaled_control"):
        assert sites[arm]["sites"] == whole[arm]["sites"]
        assert sites[arm]["loss_nats"] == whole[arm]["loss_nats"]
        assert sites[arm]["contributions"] == []


@pytest.mark.parametrize("recipe", RUNNABLE, ids=lambda recipe: recipe.name)
def test_what_is_built_is_what_is_observed(recipe: Any) -> None:
    """Construction and the engine's own provider give the same bits, for every recipe and both arms."""
    run = built_run(replace(REQUEST, recipe=recipe.name))
    draw = BaseDraw(CONFIG, [REQUEST.seed])
    for decoder, arm in ((run.initialized, recipe), (run.control, RECIPES[0])):
        provider = DrawnWeights(draw, [arm])
        drawn = {**provider.stem(), **provider.tail()}
        for block in range(CONFIG.blocks):
            drawn |= {f"blocks.{block}.{key}": values for key, values in provider.block(block).items()}
        for name, values in decoder.arrays().items():
            expected = np.ones(values.shape) if drawn[name] is None else drawn[name][0].numpy()
            assert values.tobytes() == expected.tobytes()


@pytest.mark.parametrize("recipe", RUNNABLE, ids=lambda recipe: recipe.name)
def test_every_recipe_is_observed_beside_one_control(recipe: Any) -> None:
    document = observe_document(replace(REQUEST, recipe=recipe.name))
    control = observe_document(REQUEST)["same_base_unscaled_control"]
    assert document["same_base_unscaled_control"]["loss_nats"] == pytest.approx(control["loss_nats"], rel=1e-12)
    restored = restored_document(built_run(replace(REQUEST, recipe=recipe.name)), batch_of(PACKED))
    for arm in ("initialized", "same_base_unscaled_control"):
        for ours, theirs in zip(document[arm]["sites"], restored[arm]["sites"], strict=True):
            assert ours["adjoint_rms"] == pytest.approx(theirs["adjoint_rms"], rel=1e-12)
            assert ours["activation_rms"] == pytest.approx(theirs["activation_rms"], rel=1e-12)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"budget": Budget(max_parameters=10)}, BudgetError),
        ({"seed": -1}, ConfigError),
        ({"recipe": "none"}, RecipeError),
        ({"recipe": "deepscalelm", "config": DecoderConfig(blocks=1, vocabulary=110, positions=6)}, RecipeError),
        ({"batch": Batch.from_rows([[110]], [[0]])}, BatchError),
        ({"batch": Batch.from_rows([[0] * 7], [[0] * 7])}, BatchError),
        ({"dtype": "float16"}, ConfigError),
        ({"device": "tpu"}, ConfigError),
    ],
)  # fmt: skip
def test_a_refusal_comes_before_any_draw(
    change: dict[str, Any], error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def drawn(*_: Any) -> None:
        raise AssertionError("something was drawn")

    monkeypatch.setattr("core.decoder.splitmix64._slabs", drawn)
    with pytest.raises(error):
        observe_document(replace(REQUEST, **change))


def test_a_run_too_large_for_this_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    run = built_run(REQUEST)
    monkeypatch.setattr("core.health.estimate.available_memory", lambda: 1000)
    for observed in (lambda: observe_document(REQUEST), lambda: restored_document(run, REQUEST.batch)):
        with pytest.raises(BudgetError, match="GiB may be used"):
            observed()


def test_shorter_rows_are_advised_only_where_they_would_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside weights that exceed the memory by themselves no row is short enough."""
    weights = estimate(REQUEST).weight_bytes
    for available, advised in ((weights / MEMORY_SHARE + 2, True), (weights / MEMORY_SHARE - 2, False)):
        monkeypatch.setattr("core.health.estimate.available_memory", lambda available=available: available)
        with pytest.raises(BudgetError) as refused:
            observe_document(REQUEST)
        assert ("shorten the rows" in str(refused.value)) is advised
        assert "make the decoder smaller" in str(refused.value)


def test_the_base_draw_is_the_requests() -> None:
    """Normal draws of another std scale the input state exactly by a power of two."""
    small, large = (
        observe_document(replace(REQUEST, distribution=Distribution(std)))["initialized"] for std in (0.125, 0.5)
    )
    assert large["input_activation_rms"] == 4 * small["input_activation_rms"]
