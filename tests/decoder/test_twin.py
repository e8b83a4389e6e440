"""The reduced twin: what it keeps, for any decoder, and that its ratios are those of the wide one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from core.decoder.base_draw import BaseDraw, Distribution
from core.decoder.batch import Batch
from core.decoder.config import DecoderConfig
from core.decoder.parameters import layout
from core.decoder.twin import reduced_twin, suggested_width, twin_document, twin_for_rows
from core.errors import BatchError, ConfigError
from core.plan.presets import PRESETS
from core.recipes.catalogue import RECIPES, recipe
from tests.support import run_cli

LLAMA_7B = PRESETS["llama-2-7b"].request.config
EMBEDDINGS = ("token_embedding", "position_embedding")
DISTRIBUTIONS = (Distribution(), Distribution(0.02), Distribution(0.02, embedding_std=1.0), Distribution(0.02, cut=2.0))


@st.composite
def decoders(draw: st.DrawFn) -> DecoderConfig:
    """Decoders of many shapes, of which those with 2 heads or more may have a head_dim that is no quotient."""
    grouping, kv_heads = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    heads, head_dim = grouping * kv_heads, 2 * draw(st.integers(1, 64))
    norm, mlp = draw(st.sampled_from([("rmsnorm", "swiglu"), ("layernorm", "gelu")]))
    own = draw(st.booleans())
    return DecoderConfig(
        blocks=draw(st.integers(1, 40)),
        width=8 * draw(st.integers(1, 300)) if own else heads * head_dim,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        ff_width=draw(st.integers(1, 9000)),
        vocabulary=draw(st.integers(2, 200_000)),
        positions=draw(st.integers(1, 8192)),
        norm=norm,
        mlp=mlp,
        position_encoding=draw(st.sampled_from(["rope", "learned"])),
        tied=draw(st.booleans()),
        bias=draw(st.booleans()),
        query_key_norm=draw(st.booleans()),
    )


@st.composite
def twins(draw: st.DrawFn) -> tuple[DecoderConfig, DecoderConfig]:
    """A decoder and a twin of it, at the next width that has one; its own width always has."""
    config = draw(decoders())
    return config, possible_twin(config, draw(st.integers(1, config.width)))


def possible_twin(config: DecoderConfig, width: int) -> DecoderConfig:
    for wider in range(width, config.width + 1):
        try:
            return reduced_twin(config, wider)
        except ConfigError:
            assert wider < config.width
    raise AssertionError


class TestSizes:
    @given(twins())
    @settings(max_examples=50)
    def test_what_stays(self, pair: tuple[DecoderConfig, DecoderConfig]) -> None:
        config, twin = pair
        width = twin.width
        for field in ("blocks", "norm", "mlp", "position_encoding", "tied", "bias", "query_key_norm", "rope_base"):
            assert getattr(twin, field) == getattr(config, field)
        assert (twin.vocabulary, twin.positions) == (config.vocabulary, config.positions)
        assert twin.true_config == config
        assert twin.head_width % 2 == 0
        assert twin.head_width >= min(16, config.head_width)
        assert twin.heads <= config.heads
        assert abs(twin.ff_width - config.ff_width * width / config.width) <= 0.5 or twin.ff_width == 1
        inner, true_inner = twin.heads * twin.head_width, config.heads * config.head_width
        asked = true_inner * width / config.width
        assert abs(inner - asked) <= (0.0 if true_inner == config.width else 0.1 * asked + 1)
        grouping = config.heads // config.key_value_heads
        if twin.heads % grouping == 0:
            assert twin.heads // twin.key_value_heads == grouping

    @given(decoders())
    def test_at_the_true_sizes_it_is_the_decoder_itself(self, config: DecoderConfig) -> None:
        assert reduced_twin(config, config.width) == config
        assert twin_document(config) is None

    @given(twins(), st.data())
    @settings(max_examples=50)
    def test_a_twin_of_a_twin_is_one_of_the_true_decoder(
        self, pair: tuple[DecoderConfig, DecoderConfig], data: st.DataObject
    ) -> None:
        config, between = pair
        narrow = possible_twin(config, data.draw(st.integers(1, between.width))).width
        if narrow <= between.width:
            assert reduced_twin(between, narrow) == reduced_twin(config, narrow)

    @given(decoders())
    @settings(max_examples=20)
    def test_an_even_width_of_a_multiple_of_the_least_head_always_has_one(self, config: DecoderConfig) -> None:
        assume(config.width == config.heads * config.head_width)
        for width in range(16, config.width, 64):
            assert reduced_twin(config, width).width == width

    def test_vocabulary_and_positions_shrink_so_far_and_no_further(self) -> None:
        twin = reduced_twin(LLAMA_7B, 256, vocabulary=1000, positions=3)
        assert (twin.vocabulary, twin.positions) == (1000, 64)
        assert reduced_twin(LLAMA_7B, 256, vocabulary=10**6, positions=10**6).vocabulary == 32000
        small = reduced_twin(DecoderConfig(width=64, vocabulary=300, positions=8), 16, vocabulary=300, positions=3)
        assert (small.vocabulary, small.positions) == (300, 8)
        with pytest.raises(ConfigError, match="vocabulary is 999; it must be a whole number of at least 1,000"):
            reduced_twin(LLAMA_7B, 256, vocabulary=999)

    @pytest.mark.parametrize(
        ("true", "width"),
        [(4096, 256), (2304, 288), (768, 192), (1600, 200), (7168, 224), (5120, 320), (64, 64), (4544, 320)],
    )
    def test_the_suggested_width_is_a_halving(self, true: int, width: int) -> None:
        assert suggested_width(true) == width

    def test_rows_decide_how_much_room_it_has(self) -> None:
        rows = Batch.from_rows([[1500] * 70], [[20_000] * 70])
        twin = twin_for_rows(LLAMA_7B, 256, rows)
        assert (twin.vocabulary, twin.positions) == (20_001, 70)
        rows.check(twin)
        with pytest.raises(BatchError, match="The target id 20000 in row 0"):
            twin_for_rows(PRESETS["laptop"].request.config, 256, rows)

    @pytest.mark.parametrize("width", [0, -1, 4097, True, 2.0, "256"])
    def test_other_widths_are_refused(self, width: int) -> None:
        with pytest.raises(ConfigError, match=r"The twin's width is .* from 1 to the decoder's own 4096"):
            reduced_twin(LLAMA_7B, width)

    @pytest.mark.parametrize("width", [1, 15, 17, 255])
    def test_a_width_without_an_even_head_is_refused(self, width: int) -> None:
        with pytest.raises(ConfigError, match=f"A twin of width {width} has no head with an even head_dim of at least"):
            reduced_twin(LLAMA_7B, width)


class TestSpreads:
    @pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=lambda law: law.name)
    @given(pair=twins())
    @settings(max_examples=20)
    def test_each_matrix_keeps_its_product_and_embeddings_their_rms(
        self, distribution: Distribution, pair: tuple[DecoderConfig, DecoderConfig]
    ) -> None:
        config, twin = pair
        for spec, true in zip(layout(twin).block_template, layout(config).block_template, strict=True):
            if spec.draws:
                own = distribution.base_std(spec) * math.sqrt(spec.shape[0])
                assert own == pytest.approx(distribution.base_std(true) * math.sqrt(true.shape[0]), rel=1e-12)
        for spec, true in zip(layout(twin).stem, layout(config).stem, strict=True):
            assert distribution.base_std(spec) == distribution.base_std(true)

    @pytest.mark.parametrize("chosen", RECIPES, ids=lambda entry: entry.name)
    def test_recipes_are_read_at_the_true_sizes(self, chosen: object) -> None:
        """Laws of the width, such as Wang's absolute ones, would give the twin's embeddings another RMS."""
        law = recipe(chosen.name)  # type: ignore[attr-defined]
        config = DecoderConfig(blocks=3, width=96, heads=4, kv_heads=2, ff_width=200, vocabulary=1200, tied=False)
        twin, base = reduced_twin(config, 32), Distribution(0.02)
        for spec, true in zip(layout(twin), layout(config), strict=True):
            if spec.draws:
                block = spec.block or 0
                own = law.coefficient(spec, block, twin, base.base_std(spec))
                assert own == pytest.approx(law.coefficient(true, block, config, base.base_std(true)), rel=1e-12)

    @pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=lambda law: law.name)
    def test_what_is_drawn_has_that_spread(self, distribution: Distribution) -> None:
        """Sampling error of a standard deviation is at most std / sqrt(2 n), less for a uniform."""
        config = DecoderConfig(blocks=1, width=512, heads=8, kv_heads=2, ff_width=700, vocabulary=3000, positions=256,
                               position_encoding="learned", tied=False)  # fmt: skip
        twin = reduced_twin(config, 128)
        draw = BaseDraw(twin, [7], distribution)
        drawn = {**draw.stem(), **draw.block(0), **draw.tail()}
        narrowed = 1.0 if distribution.cut is None else 0.8796256610342398
        for spec, true in zip(layout(twin), layout(config), strict=True):
            if spec.draws:
                std = distribution.base_std(true)
                std *= 1.0 if spec.role in EMBEDDINGS else math.sqrt(true.shape[0] / spec.shape[0])
                found = float(np.sqrt(np.square(drawn[spec.key]).mean()))
                assert found == pytest.approx(narrowed * std, rel=5 / math.sqrt(2 * spec.draws)), spec.name

    def test_multipliers_stay(self) -> None:
        config = DecoderConfig(blocks=2, width=256, heads=4)
        twin = reduced_twin(config, 64)
        for name in ("dyt", "mup"):
            graph, true = recipe(name).graph(twin), recipe(name).graph(config)
            assert (graph.embedding_factor, graph.logit_factor) == (true.embedding_factor, true.logit_factor)

    def test_scores_keep_their_rms(self) -> None:
        """A sum of head_dim independent products; with muP's exponent too, which would not by itself."""
        config = DecoderConfig(blocks=1, width=256, heads=1)
        twin = reduced_twin(config, 64)
        for name in ("unscaled", "mup"):
            factors = [recipe(name).graph(one).blocks[0][0].branches[0].score_factor for one in (config, twin)]
            assert factors[0] * math.sqrt(256) == pytest.approx(factors[1] * math.sqrt(64), rel=1e-12)


class TestDocument:
    def test_it_says_both_sizes_and_what_was_kept(self) -> None:
        document = twin_document(reduced_twin(LLAMA_7B, 256, vocabulary=1000, positions=32))
        assert document is not None
        assert document["true"] == {
            "blocks": 32, "width": 4096, "heads": 32, "kv_heads": 32, "head_dim": 128, "ff_width": 11008,
            "vocabulary": 32000, "positions": 4096, "parameters": 6_738_415_616,
        }  # fmt: skip
        assert {key: document["twin"][key] for key in ("width", "heads", "head_dim", "ff_width")} == {
            "width": 256, "heads": 16, "head_dim": 16, "ff_width": 688,
        }  # fmt: skip
        gains = {spread["role"]: spread["std_over_true_std"] for spread in document["spreads"]}
        assert gains["token_embedding"] == 1.0
        assert all(gains[role] == pytest.approx(4.0, rel=1e-12) for role in gains if role != "token_embedding")
        assert document["kept"] == {
            "depth": 32, "ff_ratio": True, "heads": False, "head_dim": False, "grouping": True, "vocabulary": False,
            "positions": False,
        }  # fmt: skip

    def test_a_config_is_read_back(self) -> None:
        for config in (reduced_twin(LLAMA_7B, 256), LLAMA_7B, DecoderConfig(query_key_norm=True)):
            assert DecoderConfig.from_document(config.document()) == config
        assert "true_sizes" not in LLAMA_7B.document()

    def test_the_verb_observes_saves_and_restores_it(self, tmp_path: object) -> None:
        sizes = ("--width", 64, "--heads", 2, "--blocks", 2, "--vocabulary", 1200, "--ff-width", 96)
        document = run_cli("observe", *sizes, "--twin", 32, "--save", tmp_path, "--json").document()
        assert (document["twin"]["true"]["width"], document["config"]["width"]) == (64, 32)
        again = run_cli("observe", "--restore", tmp_path, "--json").document()
        assert again["twin"] == document["twin"]
        assert again["initialized"] == document["initialized"]
        told = " ".join(run_cli("observe", *sizes, "--twin", 32).out.split())
        assert "Observed on a reduced twin of width 32" in told
        refused = run_cli("observe", *sizes, "--twin", 9)
        assert (refused.status, refused.err.split(";")[0]) == (
            2, "A twin of width 9 has no head with an even head_dim of at least 16",
        )  # fmt: skip
