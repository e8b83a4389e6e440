"""Published figures at initialization that need only the decoder and its recipes, within their stated tolerances.

Common to all rows: no bias, uniform random tokens, seeds 0, 1, ... The published parameter counts are met in
`tests/plan/test_plan.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from core.construction.drawn_weights import DrawnWeights
from core.decoder.base_draw import BaseDraw, Distribution
from core.decoder.batch import Batch
from core.decoder.config import DecoderConfig
from core.decoder.forward_pass import forward
from core.decoder.graph import DepthLaw, Topology
from core.decoder.parameters import BLOCK_MATRICES
from core.decoder.tape import Tape
from core.health.arms import observe_arms
from core.recipes.catalogue import recipe
from core.recipes.law import HALF, absolute, constant, fan_in
from core.recipes.recipe import Recipe

pytestmark = pytest.mark.heavy


def tokens(config: DecoderConfig, rows: int, length: int) -> Batch:
    """Uniform random ids; the targets are the next ones."""
    ids = np.random.default_rng(0).integers(0, config.vocabulary, (rows, length + 1))
    return Batch.from_rows(ids[:, :-1].tolist(), ids[:, 1:].tolist())


def tapes(config: DecoderConfig, chosen: Recipe, draws: list[BaseDraw], batch: Batch) -> Iterator[Tape]:
    """Forwards only, one a draw."""
    for draw in draws:
        with torch.no_grad():
            yield forward(chosen.graph(config), DrawnWeights(draw, [chosen]), batch, contributions=False)


class TestPeriNorm:
    """r_L^2 = 1 + 2L for unit embeddings and branches of unit variance: 25 and 65, mean of 32 seeds, 3%."""

    @pytest.mark.parametrize(("blocks", "expected"), [(12, 25), (32, 65)])
    def test_mean_square_of_the_last_state(self, blocks: int, expected: float) -> None:
        config = DecoderConfig(
            blocks=blocks, width=256, heads=4, ff_width=1024, vocabulary=500, positions=32, mlp="gelu"
        )  # fmt: skip
        chosen = Recipe(
            name="peri-norm-fan-in", title="Peri-norm", source="this test", evidence="derived here",
            laws={**dict.fromkeys(BLOCK_MATRICES, absolute(fan_in**-HALF)), "token_embedding": absolute(constant(1.0))},
            topology=recipe("peri-norm").topology,
        )  # fmt: skip
        draws = [BaseDraw(config, range(start, start + 4), Distribution(1.0)) for start in range(0, 32, 4)]
        squares = [
            float(tape.states[-1].square().mean(dim=(1, 2, 3)).sum())
            for tape in tapes(config, chosen, draws, tokens(config, 2, 32))
        ]
        assert sum(squares) / 32 == pytest.approx(expected, rel=0.03)


class TestCompleteP:
    """Figure 7 of the paper, first step: mean absolute residual before the final norm, multiplier (L/2)^(-a), 5%."""

    @pytest.mark.parametrize(
        ("exponent", "shallow", "deep"), [(0, 0.1315, 0.8915), (0.5, 0.1315, 0.1437), (1, 0.1315, 0.0318)]
    )
    def test_two_and_sixty_four_blocks(self, exponent: float, shallow: float, deep: float) -> None:
        law = DepthLaw("(L/2)^(-a)", lambda _, blocks: (blocks / 2) ** -exponent)
        chosen = Recipe(
            name="multiplier", title="Multiplier", source="this test", evidence="derived here",
            topology=Topology(branch=law),
        )  # fmt: skip
        measured = {}
        for blocks in (2, 64):
            config = DecoderConfig(
                blocks=blocks, width=256, heads=4, ff_width=1024, vocabulary=65, positions=512, norm="layernorm",
                mlp="gelu", position_encoding="learned",
            )  # fmt: skip
            draws = [BaseDraw(config, [seed], Distribution(0.02)) for seed in range(3)]
            sizes = [float(t.states[-1].abs().mean()) for t in tapes(config, chosen, draws, tokens(config, 2, 512))]
            measured[blocks] = sum(sizes) / 3
        assert measured[2] == pytest.approx(shallow, rel=0.05)
        assert measured[64] == pytest.approx(deep, rel=0.05)

    def test_exponent_one_is_the_recipe(self) -> None:
        law = recipe("completep").topology.branch
        assert law is not None
        assert [law(0, blocks) for blocks in (2, 8, 64)] == [1.0, 0.25, 1 / 32]


class TestZeroWriter:
    """Every ratio is exactly 1 at any depth."""

    @pytest.mark.parametrize("blocks", [1, 3, 16, 64, 256, 1024])
    def test_exactly_one(self, blocks: int) -> None:
        for config in (DecoderConfig(blocks=blocks), DecoderConfig(blocks=blocks, width=12, heads=2, ff_width=20)):
            (arm,) = observe_arms(BaseDraw(config, [0, 1, 2]), [recipe("zero-writer")], tokens(config, 2, 4))
            assert (arm.observation.activation_ratio == 1.0).all()
            assert (arm.observation.adjoint_ratio == 1.0).all()


class TestLossAtTheStart:
    """ln V + d 0.0004 / 2 with an untied head of std 0.02 on a normalized state, within 0.05 nats."""

    @pytest.mark.parametrize("width", [128, 256, 512, 768])
    @pytest.mark.parametrize("norm", ["layernorm", "rmsnorm"])
    def test_loss(self, width: int, norm: str) -> None:
        config = DecoderConfig(
            blocks=2, width=width, heads=4, ff_width=4 * width, vocabulary=1000, positions=64, norm=norm, mlp="gelu",
            position_encoding="learned", tied=False,
        )  # fmt: skip
        draw = BaseDraw(config, range(4), Distribution(0.02))
        (tape,) = tapes(config, recipe("gpt2"), [draw], tokens(config, 8, 64))
        assert float(tape.loss.mean()) == pytest.approx(math.log(1000) + width * 0.0004 / 2, abs=0.05)
