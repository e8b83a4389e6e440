"""The observer on tapes made by hand: what it measures, what it refuses, and at which site."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from core.construction.states import Fresh, FreshInitialization
from core.decoder.config import DecoderConfig
from core.decoder.forward_pass import forward
from core.decoder.splitmix64 import SplitMix64
from core.decoder.tape import Contribution, Tape
from core.decoder.weights import StoredWeights
from core.errors import (
    ObservationError,
)
from core.health.observation import Observation, measure, observe
from core.recipes.catalogue import recipe
from tests.support import PACKED, ROW, batch_of

LABELS = ["input", "block.0.after_attention", "block.0.after_feed_forward"]
CONFIG = DecoderConfig(blocks=2, width=8, heads=2, kv_heads=1, ff_width=6, vocabulary=110, positions=6, tied=False)
GRAPH = recipe("unscaled").graph(CONFIG)


def tape_of(
    states: list[float | torch.Tensor], slopes: list[float], valid: Any = None, members: int = 1, **fields: Any
) -> Tape:
    """States of constant value (or given), each multiplying the loss by its own slope: adjoints are the slopes."""
    shape = (members, 2, 3, 4)
    leaves = [
        (state if isinstance(state, torch.Tensor) else torch.full(shape, state, dtype=torch.float64)).requires_grad_()
        for state in states
    ]
    mask = np.ones((2, 3), dtype=bool) if valid is None else valid
    kept = torch.from_numpy(mask)
    loss = sum(slope * leaf[:, kept].flatten(1).sum(dim=1) for slope, leaf in zip(slopes, leaves, strict=True))
    return Tape(**{"labels": LABELS[: len(states)], "states": leaves, "loss": loss, "valid": mask, **fields})


def test_ratios_are_to_the_first_activation_and_the_last_adjoint() -> None:
    observation = observe(tape_of([2.0, -6.0, 1.0], [0.5, 0.125, 0.25]))
    assert observation.activation_rms.tolist() == [[2.0, 6.0, 1.0]]
    assert observation.adjoint_rms.tolist() == [[0.5, 0.125, 0.25]]
    assert observation.activation_ratio.tolist() == [[1.0, 3.0, 0.5]]
    assert observation.adjoint_ratio.tolist() == [[2.0, 0.5, 1.0]]
    assert observation.valid_positions == 6
    assert (observation.members, observation.width) == (1, 4)


def test_all_paths_are_summed() -> None:
    """A state that reaches the loss directly and through the next one gets both gradients."""
    first = torch.full((1, 1, 2, 2), 1.0, dtype=torch.float64, requires_grad=True)
    second = 3.0 * first
    loss = (first.sum() + 2.0 * second.sum()).view(1)
    observation = observe(Tape(LABELS[:2], [first, second], loss, np.ones((1, 2), dtype=bool)))
    assert observation.adjoint_rms.tolist() == [[7.0, 2.0]]


class TestRefusals:
    """Each names the first site at fault."""

    @pytest.mark.parametrize("value", [math.nan, math.inf])
    @pytest.mark.parametrize("site", [0, 1, 2])
    def test_nonfinite_activation(self, site: int, value: float) -> None:
        states: list[float | torch.Tensor] = [1.0, 1.0, 1.0]
        states[site] = torch.ones(1, 2, 3, 4, dtype=torch.float64)
        states[site][0, 1, 2, 3] = value  # type: ignore[index]
        with pytest.raises(ObservationError, match=rf"activation at site {site} \({LABELS[site]}\) is not finite"):
            observe(tape_of(states, [1.0, 1.0, 1.0]))

    @pytest.mark.parametrize("site", [0, 1, 2])
    def test_nonfinite_adjoint(self, site: int) -> None:
        slopes = [1.0, 1.0, 1.0]
        slopes[site] = math.inf
        with pytest.raises(ObservationError, match=rf"adjoint at site {site} \({LABELS[site]}\) is not finite"):
            observe(tape_of([1.0, 1.0, 1.0], slopes))

    def test_nonfinite_loss(self) -> None:
        tape = tape_of([1.0, 1.0], [1.0, 1.0])
        with pytest.raises(ObservationError, match="mean loss is not finite"):
            observe(replace(tape, loss=tape.loss + math.inf))

    def test_zero_input(self) -> None:
        with pytest.raises(ObservationError, match=r"input activation RMS at site 0 \(input\) is 0"):
            observe(tape_of([0.0, 1.0, 1.0], [1.0, 1.0, 1.0]))

    def test_zero_terminal_adjoint(self) -> None:
        with pytest.raises(
            ObservationError, match=r"terminal adjoint RMS at site 2 \(block.0.after_feed_forward\) is 0"
        ):
            observe(tape_of([1.0, 1.0, 1.0], [1.0, 1.0, 0.0]))

    def test_zero_readout(self) -> None:
        """A decoder whose head is all zeros: uniform loss, and a terminal adjoint of exactly 0."""
        weights = stored()
        weights["head.weight"] = np.zeros_like(weights["head.weight"])
        tape = forward(GRAPH, StoredWeights(CONFIG, [weights]), batch_of(PACKED))
        assert tape.loss.item() == pytest.approx(math.log(110), rel=1e-15)
        with pytest.raises(
            ObservationError, match=r"terminal adjoint RMS at site 4 \(block.1.after_feed_forward\) is 0"
        ):
            observe(tape)

    def test_a_ratio_that_overflows(self) -> None:
        with pytest.raises(ObservationError, match=r"activation ratio at site 1 .* overflows"):
            observe(tape_of([1e-300, 1e300], [1.0, 1.0]))
        with pytest.raises(ObservationError, match=r"adjoint ratio at site 0 .* overflows"):
            observe(tape_of([1.0, 1.0], [1e300, 1e-300]))

    @pytest.mark.parametrize("site", [0, 1])
    def test_a_site_the_loss_does_not_depend_on(self, site: int) -> None:
        tape = tape_of([1.0, 1.0, 1.0], [1.0, 1.0, 1.0])
        states = list(tape.states)
        states[site] = torch.ones(1, 2, 3, 4, dtype=torch.float64, requires_grad=True)
        with pytest.raises(ObservationError, match=rf"does not depend on site {site} \({LABELS[site]}\)"):
            observe(replace(tape, states=states))

    def test_a_detached_site(self) -> None:
        tape = tape_of([1.0, 1.0], [1.0, 1.0])
        with pytest.raises(
            ObservationError, match=r"Site 1 \(block.0.after_attention\) was recorded without gradients"
        ):
            observe(replace(tape, states=[tape.states[0], tape.states[1].detach()]))

    def test_a_forward_without_gradients(self) -> None:
        with torch.no_grad():
            tape = forward(GRAPH, StoredWeights(CONFIG, [stored()]), batch_of(ROW))
        with pytest.raises(ObservationError, match="without gradients"):
            observe(tape)

    def test_a_loss_of_no_state(self) -> None:
        tape = tape_of([1.0, 1.0], [1.0, 1.0])
        with pytest.raises(ObservationError, match=r"not even site 0 \(input\)"):
            observe(replace(tape, loss=torch.zeros(1, dtype=torch.float64)))

    def test_nothing_valid(self) -> None:
        tape = tape_of([1.0, 1.0], [1.0, 1.0])
        with pytest.raises(ObservationError):
            observe(replace(tape, valid=np.zeros((2, 3), dtype=bool)))

    @pytest.mark.parametrize(
        "change",
        [
            {"valid": np.ones((2, 4), dtype=bool)},
            {"valid": np.ones((3, 2), dtype=bool)},
            {"labels": LABELS},
            {"labels": LABELS[:1]},
            {"labels": [], "states": []},
        ],
        ids=["longer mask", "transposed mask", "labels too many", "labels too few", "no states"],
    )
    def test_geometry_of_the_tape(self, change: dict[str, Any]) -> None:
        with pytest.raises(ObservationError):
            observe(replace(tape_of([1.0, 1.0], [1.0, 1.0]), **change))

    @pytest.mark.parametrize("shape", [(1, 2, 3, 5), (1, 3, 2, 4), (2, 2, 3, 4), (2, 3, 4), (1, 2, 3, 4, 1)])
    def test_geometry_of_a_site(self, shape: tuple[int, ...]) -> None:
        tape = tape_of([1.0, 1.0], [1.0, 1.0])
        other = torch.ones(shape, dtype=torch.float64, requires_grad=True)
        with pytest.raises(ObservationError, match=r"site 1 \(block.0.after_attention\)"):
            observe(replace(tape, states=[tape.states[0], other]))

    def test_geometry_of_the_loss(self) -> None:
        tape = tape_of([1.0, 1.0], [1.0, 1.0], members=2)
        with pytest.raises(ObservationError, match="one loss per member"):
            observe(replace(tape, loss=tape.loss.mean()))

    def test_geometry_of_a_contribution(self) -> None:
        tape = tape_of([1.0, 1.0], [1.0, 1.0])
        state, narrow = tape.states[0], torch.ones(1, 2, 3, 3, dtype=torch.float64)
        part = Contribution(1, 0, "attention", raw=narrow, contribution=state, stream=state)
        with pytest.raises(ObservationError, match="attention contribution at site 1"):
            observe(replace(tape, contributions=[part]))

    def test_a_refused_member_leaves_the_others(self) -> None:
        """`measure` keeps going, a member's refusal is its own; `observe` refuses them all."""

        def tape() -> Tape:
            state = torch.ones(3, 2, 3, 4, dtype=torch.float64)
            state[1, 0, 0, 0] = math.nan
            return tape_of([torch.ones(3, 2, 3, 4, dtype=torch.float64), state], [1.0, 1.0], members=3)

        observation = measure(tape())
        assert [type(observation.refusal(member)) for member in range(3)] == [
            type(None),
            ObservationError,
            type(None),
        ]
        with pytest.raises(ObservationError):
            observe(tape())


class TestValidity:
    """Only valid positions are read."""

    VALID = np.array([[True, True, False], [True, False, False]])

    @pytest.mark.parametrize("filler", [0.0, 1e300, math.nan, math.inf])
    def test_whatever_stands_in_padding(self, filler: float) -> None:
        state = torch.full((1, 2, 3, 4), 2.0, dtype=torch.float64)
        state[:, ~torch.from_numpy(self.VALID)] = filler
        observation = observe(tape_of([state, 4.0], [1.0, 0.5], self.VALID))
        assert observation.activation_rms.tolist() == [[2.0, 4.0]]
        assert observation.adjoint_rms.tolist() == [[1.0, 0.5]]
        assert observation.valid_positions == 3

    def test_the_engine_selects_too(self) -> None:
        """Masked positions of a real batch: recomputed from the states by hand."""
        batch = batch_of(PACKED)
        tape = forward(GRAPH, StoredWeights(CONFIG, [stored()]), batch)
        states = [state[0].detach().numpy()[batch.valid] for state in tape.states]
        expected = [math.sqrt(np.mean(state**2)) for state in states]
        np.testing.assert_allclose(observe(tape).activation_rms[0], expected, rtol=1e-14)


class TestLossReduction:
    """Mean and sum, 128 and 2048 tokens, loss scale 2^16: absolute adjoints move, ratios do not."""

    def observed(self, copies: int, scale: float = 1.0, reduction: str = "mean") -> Observation:
        """Four rows of 32 ids, `copies` times, with the loss that a training script would differentiate."""
        noise = np.random.default_rng(0)
        rows = [(noise.integers(0, 110, 32).tolist(), noise.integers(0, 110, 32).tolist()) for _ in range(4)]
        config = replace(CONFIG, positions=32)
        tape = forward(GRAPH, StoredWeights(config, [stored()]), batch_of(rows * copies))
        factor = scale * (len(rows) * copies * 32 if reduction == "sum" else 1)
        return observe(replace(tape, loss=tape.loss * factor))

    def test_absolute_adjoints_differ_by_a_million_and_ratios_agree(self) -> None:
        plain, scaled = self.observed(1, reduction="sum"), self.observed(16, scale=2.0**16)
        absolute = scaled.adjoint_rms / plain.adjoint_rms
        np.testing.assert_allclose(absolute, 2.0**16 / 2048, rtol=1e-12)
        summed = self.observed(16, scale=2.0**16, reduction="sum")
        np.testing.assert_allclose(summed.adjoint_rms / self.observed(16).adjoint_rms, 2.0**16 * 2048, rtol=1e-12)
        mean = self.observed(16)
        np.testing.assert_allclose(plain.adjoint_rms / mean.adjoint_rms, 2048, rtol=1e-12)
        for other in (scaled, summed, mean):
            np.testing.assert_allclose(other.adjoint_ratio, plain.adjoint_ratio, rtol=1e-12)
            np.testing.assert_allclose(other.activation_ratio, plain.activation_ratio, rtol=1e-13)

    def test_a_power_of_two_scales_exactly(self) -> None:
        plain, scaled = self.observed(1), self.observed(1, scale=2.0**16)
        assert np.array_equal(scaled.adjoint_rms, plain.adjoint_rms * 2.0**16)
        assert np.array_equal(scaled.adjoint_ratio, plain.adjoint_ratio)


class TestContributions:
    """Raw output, contribution and shortcut term of each branch."""

    def test_by_hand(self) -> None:
        tape = tape_of([1.0, 1.0], [1.0, 1.0])
        raw, gained, stream = (torch.full((1, 2, 3, 4), value, dtype=torch.float64) for value in (8.0, -2.0, 4.0))
        part = observe(replace(tape, contributions=[Contribution(1, 0, "attention", raw, gained, stream)]))
        statistics = part.contributions[0]
        assert (statistics.raw_rms[0], statistics.contribution_rms[0], statistics.stream_rms[0]) == (8.0, 2.0, 4.0)
        assert statistics.cosine[0] == pytest.approx(-1.0, rel=1e-15)

    def test_the_stream_and_the_contribution_make_the_next_state(self) -> None:
        """With cosine c the squares add up: S^2 = s^2 + 2 c s g + g^2, at every addition."""
        observation = observe(forward(GRAPH, StoredWeights(CONFIG, [stored()]), batch_of(PACKED)))
        for part in observation.contributions:
            stream, gained, cosine = part.stream_rms[0], part.contribution_rms[0], part.cosine[0]
            total = stream**2 + 2 * cosine * stream * gained + gained**2
            assert observation.activation_rms[0, part.site] ** 2 == pytest.approx(total, rel=1e-12)
            assert observation.activation_rms[0, part.site - 1] == pytest.approx(stream, rel=1e-14)
            assert part.raw_rms[0] == gained

    def test_they_come_on_request_only(self) -> None:
        tape = forward(GRAPH, StoredWeights(CONFIG, [stored()]), batch_of(ROW), contributions=False)
        assert tape.contributions == []
        assert observe(tape).contributions == []


def stored() -> dict[str, np.ndarray]:
    fresh = FreshInitialization.prepare(Fresh(CONFIG), SplitMix64(7))
    return {name: values.copy() for name, values in fresh.complete("unscaled").arrays().items()}
