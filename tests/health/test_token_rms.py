"""Quantiles of single tokens' RMS: one outsized token of 36, plain definitions, padding, and who does not pay."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
import torch

from core.construction.drawn_weights import DrawnWeights
from core.decoder.base_draw import BaseDraw
from core.decoder.batch import Batch, chapter_batch
from core.decoder.config import DecoderConfig
from core.decoder.forward_pass import forward
from core.decoder.tape import Tape, recording
from core.health.arms import observe_arms
from core.health.columns import TOKEN_LEVELS, TOKEN_STATISTICS
from core.health.document import arm_document
from core.health.observation import measure
from core.health.report import observe_document
from core.health.request import ObserveRequest
from core.health.token_rms import token_statistics
from core.recipes.catalogue import recipe
from core.tables.observe import token_table
from core.tables.observe_words import outsized_sentence


def statistics_of(rows: torch.Tensor) -> dict[str, float]:
    """The statistics of one member's tokens `[n, D]`."""
    found = token_statistics(rows.reshape(1, -1), rows.shape[1])
    return dict(zip(TOKEN_STATISTICS, found[0].tolist(), strict=True))


def test_one_of_36_tokens_300_times_the_rest() -> None:
    rows = torch.ones(36, 8, dtype=torch.float64)
    rows[0] = 300.0
    found = statistics_of(rows)
    assert round(math.sqrt(rows.square().mean().item())) == 50
    assert found["without_largest"] == found["median"] == found["q95"] == 1.0
    assert found["largest"] == 300.0


def test_quantiles_are_those_of_plain_python() -> None:
    rows = torch.from_numpy(np.random.default_rng(5).lognormal(0, 2, (41, 6)))
    tokens = [math.sqrt(statistics.fmean(value * value for value in row)) for row in rows.tolist()]
    cuts = statistics.quantiles(tokens, n=20, method="inclusive")
    found = statistics_of(rows)
    for name, level in TOKEN_LEVELS.items():
        wanted = max(tokens) if level == 1.0 else cuts[round(level * 20) - 1]
        assert found[name] == pytest.approx(wanted, rel=1e-13)
    rest = sorted(tokens)[:-1]
    assert found["without_largest"] == pytest.approx(math.sqrt(statistics.fmean(t * t for t in rest)), rel=1e-13)


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_squares_neither_overflow_nor_vanish(scale: float) -> None:
    rows = torch.tensor([[3.0, 4.0], [3.0, 4.0], [30.0, 40.0]], dtype=torch.float64) * scale
    found = statistics_of(rows)
    assert found["median"] == pytest.approx(math.sqrt(12.5) * scale, rel=1e-14)
    assert found["without_largest"] == pytest.approx(math.sqrt(12.5) * scale, rel=1e-14)


def test_a_single_token_has_no_rest_and_the_document_says_null() -> None:
    assert math.isnan(statistics_of(torch.ones(1, 4, dtype=torch.float64))["without_largest"])
    document = observe_document(ObserveRequest(batch=Batch.from_rows([[5]], [[6]])))
    site = document["initialized"]["sites"][3]
    assert site["activation_tokens"]["without_largest"] is None
    assert site["activation_tokens"]["median"] == pytest.approx(site["activation_rms"], rel=1e-14)
    assert outsized_sentence(token_table(document)) is None


def test_a_nonfinite_token_is_left_to_the_refusal_of_its_site() -> None:
    rows = torch.ones(3, 2, dtype=torch.float64)
    rows[1, 0] = math.inf
    assert not math.isfinite(statistics_of(rows)["largest"])


def drawn_tape(batch: Batch) -> Tape:
    """Both arms of the narrow decoder on a batch."""
    config = DecoderConfig(blocks=3)
    recipes = [recipe("depth-scaled"), recipe("unscaled")]
    weights = DrawnWeights(BaseDraw(config, [4701]), recipes, torch.float64, "cpu")
    return forward(recipes[0].graph(config), weights, batch)


def test_every_site_and_member_has_the_tokens_of_its_own_state() -> None:
    batch = Batch.from_rows([[0, 99, 100, 101], [7, 8]], [[99, 100, 101, 1], [8, 1]])
    with recording("cpu"):
        tape = drawn_tape(batch)
        states = [state.detach().numpy().copy() for state in tape.states]
        observation = measure(tape, tokens=True)
    assert observation.activation_tokens is not None
    assert observation.activation_tokens.shape == (2, 7, len(TOKEN_STATISTICS))
    for site, state in enumerate(states):
        for member in range(2):
            tokens = np.sqrt((state[member][np.asarray(tape.valid)] ** 2).mean(axis=-1))
            assert len(tokens) == 6
            found = observation.activation_tokens[member, site]
            np.testing.assert_allclose(found[TOKEN_STATISTICS.index("median")], np.median(tokens), rtol=1e-13)
            # The tokens' mean square is the site's.
            np.testing.assert_allclose(
                observation.activation_rms[member, site], math.sqrt(float((tokens**2).mean())), rtol=1e-13
            )


def test_a_sweep_does_not_pay_for_quantiles() -> None:
    (arm,) = observe_arms(BaseDraw(DecoderConfig(blocks=2), [1]), [recipe("gpt2")], chapter_batch())
    assert arm.observation.activation_tokens is None
    assert arm.observation.adjoint_tokens is None
    assert "activation_tokens" not in arm_document(arm.observation, 0)["sites"][0]


def test_an_outsized_token_is_told_in_one_sentence() -> None:
    table = token_table(observe_document(ObserveRequest()))
    assert outsized_sentence(table) is None
    table.loc[5, ["rms", "without_largest"]] = [50.0, 1.0]
    sentence = outsized_sentence(table)
    assert sentence is not None
    assert "at 1 of 34 states" in sentence
    assert "site 5 (block.2.after_attention, initialized) the RMS is 50 with it and 1 without." in sentence
