"""The engine beside `transformers` LLaMA holding the same weights: every site and coordinate, to 1e-9 in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from core.construction.drawn_weights import DrawnWeights
from core.construction.states import Fresh, FreshInitialization
from core.decoder.base_draw import BaseDraw
from core.decoder.batch import Batch
from core.decoder.config import DecoderConfig
from core.decoder.forward_pass import forward
from core.decoder.splitmix64 import SplitMix64
from core.decoder.tape import Tape
from core.decoder.weights import StoredWeights
from core.health.observation import Observation, observe
from core.recipes.catalogue import recipe
from tests.oracles.llama import observe_llama
from tests.support import BATCHES, PACKED, Rows, batch_of

SHAPES: dict[str, dict[str, Any]] = {
    "narrow-8": {"blocks": 8},
    "cpu-bridge": {"blocks": 2, "width": 16, "heads": 2, "ff_width": 20},
    "grouped": {"blocks": 4, "width": 16, "heads": 4, "kv_heads": 2, "ff_width": 20},
    "one key/value head": {"blocks": 3, "width": 24, "heads": 4, "kv_heads": 1, "ff_width": 20},
    "wide heads": {"blocks": 2, "width": 6, "heads": 3, "head_dim": 8, "ff_width": 5},
    "untied": {"blocks": 2, "width": 12, "heads": 3, "ff_width": 8, "tied": False, "rope_base": 500.0},
    "deep": {"blocks": 64, "width": 8, "heads": 2, "kv_heads": 1, "ff_width": 12},
}


def weights_of(config: DecoderConfig, name: str, seed: int) -> dict[str, np.ndarray]:
    """What construction stores, by our names."""
    fresh = FreshInitialization.prepare(Fresh(config), SplitMix64(seed))
    return {key: value.copy() for key, value in fresh.complete(name).arrays().items()}


def assert_is_llama(tape: Tape, observation: Observation, member: int, batch: Batch, llama: dict[str, Any]) -> None:
    """Loss, RMS at every site, and every coordinate of every present state."""
    assert observation.loss_nats[member] == pytest.approx(llama["loss"], rel=1e-9)
    assert observation.labels == [site[0] for site in llama["sites"]]
    np.testing.assert_allclose(observation.activation_rms[member], [site[1] for site in llama["sites"]], rtol=1e-9)
    np.testing.assert_allclose(observation.adjoint_rms[member], [site[2] for site in llama["sites"]], rtol=1e-9)
    for site, state in enumerate(tape.states):
        theirs = llama["states"][site][batch.present]
        np.testing.assert_allclose(
            state[member].detach().numpy()[batch.present], theirs, rtol=1e-9, atol=1e-9 * np.abs(theirs).max()
        )


@pytest.mark.parametrize("rows", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("shape", SHAPES)
def test_both_arms_are_llama(shape: str, rows: Rows) -> None:
    config = DecoderConfig(vocabulary=110, positions=6, **SHAPES[shape])
    arms = [recipe("depth-scaled"), recipe("unscaled")]
    batch = batch_of(rows)
    tape = forward(arms[0].graph(config), DrawnWeights(BaseDraw(config, [4701]), arms), batch)
    observation = observe(tape)
    for member, arm in enumerate(arms):
        assert_is_llama(
            tape, observation, member, batch, observe_llama(weights_of(config, arm.name, 4701), config, rows)
        )


def test_stored_gains_are_read_as_llama_reads_them() -> None:
    """Gains off their ones, in two members of one pass that share every matrix."""
    config = DecoderConfig(vocabulary=110, positions=6, **SHAPES["grouped"])
    noise, batch = np.random.default_rng(0), batch_of(PACKED)
    models = []
    for _ in range(2):
        weights = weights_of(config, "unscaled", 1)
        models.append({key: v + noise.normal(0, 0.3, v.shape) if v.ndim == 1 else v for key, v in weights.items()})
    tape = forward(recipe("unscaled").graph(config), StoredWeights(config, models), batch)
    observation = observe(tape)
    for member, model in enumerate(models):
        assert_is_llama(tape, observation, member, batch, observe_llama(model, config, PACKED))


def test_adjoints_agree_by_coordinate() -> None:
    config = DecoderConfig(vocabulary=110, positions=6, **SHAPES["grouped"])
    batch = batch_of(PACKED)
    tape = forward(recipe("unscaled").graph(config), DrawnWeights(BaseDraw(config, [3]), [recipe("unscaled")]), batch)
    adjoints = torch.autograd.grad(tape.loss.sum(), tape.states)
    theirs = observe_llama(weights_of(config, "unscaled", 3), config, PACKED)["adjoints"]
    for ours, other in zip(adjoints, theirs, strict=True):
        np.testing.assert_allclose(ours[0].numpy(), other, rtol=1e-9, atol=1e-9 * np.abs(other).max())
