"""Adjoints and parameter gradients beside central differences of the loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from core.construction.drawn_weights import DrawnWeights
from core.construction.states import Fresh, FreshInitialization
from core.decoder.base_draw import BaseDraw
from core.decoder.config import DecoderConfig
from core.decoder.forward_pass import forward
from core.decoder.parameters import layout
from core.decoder.splitmix64 import SplitMix64
from core.decoder.weights import StoredWeights
from core.health.observation import measure, observe
from core.recipes.catalogue import recipe
from tests.oracles.plain_decoder import observe_parameters
from tests.oracles.plain_weights import Sizes
from tests.support import PACKED, ROW, batch_of

CONFIG = DecoderConfig(blocks=3, width=8, heads=4, kv_heads=2, ff_width=6, vocabulary=110, positions=6)
FAMILY = DecoderConfig(
    **{
        **CONFIG.document(),
        "norm": "layernorm",
        "mlp": "gelu",
        "position_encoding": "learned",
        "tied": False,
        "bias": True,
    }
)
GRAPH = recipe("unscaled").graph(CONFIG)
STEP = 1e-5


def stored(config: DecoderConfig, seed: int, name: str = "unscaled") -> dict[str, np.ndarray]:
    """Parameters as construction stores them, with gains and biases moved off their start."""
    fresh = FreshInitialization.prepare(Fresh(config), SplitMix64(seed))
    noise = np.random.default_rng(seed)
    return {
        key: value.copy() + (noise.normal(0, 0.2, value.shape) if value.ndim == 1 else 0)
        for key, value in fresh.complete(name).arrays().items()
    }


def losses(config: DecoderConfig, models: list[dict[str, np.ndarray]], rows: Any) -> np.ndarray:
    graph = recipe("unscaled").graph(config)
    return forward(graph, StoredWeights(config, models), batch_of(rows)).loss.detach().numpy()


@pytest.mark.parametrize("site", range(7))
def test_adjoints_are_the_slope_of_the_loss_at_a_state(site: int) -> None:
    """A coordinate of a state is moved in the plain reference; the adjoint says by how much the loss moves."""
    model = stored(CONFIG, 4)
    tape = forward(GRAPH, StoredWeights(CONFIG, [model]), batch_of(PACKED))
    adjoint = torch.autograd.grad(tape.loss.sum(), tape.states)[site][0].numpy()
    sizes, label = Sizes(**CONFIG.document()), tape.labels[site]
    for row, position, feature in ((0, 0, 1), (0, 3, 7), (1, 0, 4)):
        ahead, behind = (
            observe_parameters("unscaled", sizes, model, PACKED, nudge=(label, row, position, feature, delta))["loss"]
            for delta in (STEP, -STEP)
        )
        slope = (ahead - behind) / (2 * STEP)
        assert adjoint[row, position, feature] == pytest.approx(slope, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("config", [CONFIG, FAMILY], ids=["chapter", "other families"])
def test_parameter_gradients_are_the_slope_of_the_loss(config: DecoderConfig) -> None:
    """Three coordinates of every tensor: the ones of largest, middle and a fixed place's gradient."""
    model = stored(config, 9)
    graph = recipe("unscaled").graph(config)
    tape = forward(graph, StoredWeights(config, [model]), batch_of(PACKED), parameter_gradients=True)
    gradients = observe(tape, parameter_gradients=True).parameter_gradients
    assert list(gradients) == [spec.name for spec in layout(config)]
    for name, gradient in gradients.items():
        assert gradient.shape == (1, *model[name].shape)
        flat = gradient[0].numpy().ravel()
        order = np.argsort(np.abs(flat))
        for place in {int(order[-1]), int(order[len(order) // 2]), len(flat) // 3}:
            moved = []
            for delta in (STEP, -STEP):
                changed = model[name].copy()
                changed.flat[place] += delta
                moved.append({**model, name: changed})
            ahead, behind = losses(config, moved, PACKED)
            assert flat[place] == pytest.approx((ahead - behind) / (2 * STEP), rel=1e-5, abs=1e-9), (name, place)


def test_gradients_of_shared_tensors_add_up() -> None:
    """Where members share a tensor, its gradient is the sum of what each member's own tensor would get."""
    arms = [recipe("depth-scaled"), recipe("unscaled")]
    together = forward(GRAPH, DrawnWeights(BaseDraw(CONFIG, [1]), arms), batch_of(ROW), parameter_gradients=True)
    shared = observe(together, parameter_gradients=True).parameter_gradients
    alone = [
        observe(
            forward(GRAPH, DrawnWeights(BaseDraw(CONFIG, [1]), [arm]), batch_of(ROW), parameter_gradients=True),
            parameter_gradients=True,
        ).parameter_gradients
        for arm in arms
    ]
    for name, gradient in shared.items():
        parts = torch.cat([each[name] for each in alone])
        expected = parts.sum(dim=0, keepdim=True) if len(gradient) == 1 else parts
        np.testing.assert_allclose(gradient, expected, rtol=1e-10, atol=1e-15)
    assert {len(gradient) for gradient in shared.values()} == {1, 2}


def test_parameter_gradients_come_on_request_only() -> None:
    provider = DrawnWeights(BaseDraw(CONFIG, [1]), [recipe("unscaled")])
    tape = forward(GRAPH, provider, batch_of(ROW))
    assert tape.parameters == {}
    assert observe(tape).parameter_gradients == {}
    asked = forward(GRAPH, provider, batch_of(ROW), parameter_gradients=True)
    assert observe(asked).parameter_gradients == {}


def test_observing_leaves_parameter_gradients_as_they_are() -> None:
    """The gradients beside an observation, and those without one, are the same numbers; no leaf gets a `.grad`."""
    model = stored(CONFIG, 2)

    def tape() -> Any:
        return forward(GRAPH, StoredWeights(CONFIG, [model]), batch_of(PACKED), parameter_gradients=True)

    plain = tape()
    expected = torch.autograd.grad(plain.loss.sum(), list(plain.parameters.values()))
    observed = tape()
    observation = observe(observed, parameter_gradients=True)
    for leaf, wanted in zip(observed.parameters.values(), expected, strict=True):
        assert leaf.grad is None
        assert wanted.shape == leaf.shape
    for name, wanted in zip(plain.parameters, expected, strict=True):
        assert torch.equal(observation.parameter_gradients[name], wanted)
    without = measure(forward(GRAPH, StoredWeights(CONFIG, [model]), batch_of(PACKED)))
    np.testing.assert_allclose(without.adjoint_rms, observation.adjoint_rms, rtol=1e-13)
    np.testing.assert_allclose(without.activation_rms, observation.activation_rms, rtol=0)


def test_observing_changes_no_stored_value() -> None:
    fresh = FreshInitialization.prepare(Fresh(CONFIG), SplitMix64(3))
    decoder = fresh.complete("depth-scaled")
    before = {name: values.tobytes() for name, values in decoder.arrays().items()}
    observe(
        forward(GRAPH, StoredWeights(CONFIG, [decoder.arrays()]), batch_of(PACKED), parameter_gradients=True),
        parameter_gradients=True,
    )
    assert {name: values.tobytes() for name, values in decoder.arrays().items()} == before
    assert all(leaf.grad is None for leaf in decoder.parameters.values())
