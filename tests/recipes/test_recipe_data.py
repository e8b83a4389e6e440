"""Recipes as data: coefficients, combinations, canonical names and refusals."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from core.construction.drawn_weights import DrawnWeights
from core.construction.storage import load_run, save_run
from core.decoder.base_draw import BaseDraw, Distribution
from core.decoder.batch import chapter_batch
from core.decoder.config import DecoderConfig
from core.decoder.parameters import BLOCK_MATRICES, WRITERS, layout
from core.errors import RecipeError
from core.health.arms import observe_arms
from core.health.report import built_run, observe_document, restored_document
from core.health.request import ObserveRequest
from core.recipes.catalogue import CONTROL, RECIPES, recipe
from core.recipes.recipe import Recipe, combination
from tests.oracles.plain_decoder import observe_parameters
from tests.oracles.plain_weights import Sizes, plain_base_draw

NARROW = {"width": 4, "heads": 1, "kv_heads": 1, "ff_width": 4, "vocabulary": 266}
ROW = [([0, 99, 100, 101], [99, 100, 101, 1])]
TOPOLOGIES = [known.name for known in RECIPES if known.changes_graph and known.refusal is None]
WRITER_LAWS = ["depth-scaled", "gpt2", "block-indexed", "lingua-global", "zero-writer"]


def writer_factors(name: str, config: DecoderConfig) -> dict[str, float]:
    """Coefficient on every writer by name."""
    found = {}
    for spec in layout(config):
        if spec.role in WRITERS:
            assert spec.block is not None
            found[spec.name] = recipe(name).coefficient(spec, spec.block, config, 1.0)
    return found


class TestNames:
    """Lookup and what it refuses."""

    def test_names_are_unique_and_plain(self) -> None:
        names = [known.name for known in RECIPES]
        assert len(set(names)) == len(names)
        assert all(name == name.lower() and not set(name) & set(" +,&?#/") for name in names)

    @pytest.mark.parametrize(
        ("name", "sentence"),
        [
            ("", "'' is unknown; all are listed by the catalogue"),
            ("GPT2", "'GPT2' is unknown; did you mean gpt2"),
            ("gpt2,lns", "'gpt2,lns' is unknown; did you mean gpt2"),
            ("peri-norm+nothing", "'nothing' is unknown; all are listed"),
            ("fixup+t-fixap", "'t-fixap' is unknown; did you mean fixup"),
            ("a" * 10_000, "is unknown; all are listed"),
            ("gpt2+", "'gpt2\\+' has an empty part; put one \\+ between two names"),
            ("+", "'\\+' has an empty part"),
            ("gpt2++lns", "has an empty part"),
            ("gpt2  lns", "has an empty part"),
        ],
    )
    def test_unknown_names_are_refused_with_the_nearest(self, name: str, sentence: str) -> None:
        with pytest.raises(RecipeError, match=sentence) as error:
            recipe(name)
        assert len(str(error.value)) < 500
        assert "t-fixup" not in str(error.value)

    @pytest.mark.parametrize("name", ["t-fixup", "deepnorm-encoder-decoder", "admin-encoder-decoder", "t-fixup+gpt2"])
    def test_recipes_of_other_architectures_are_known_and_refused(self, name: str) -> None:
        with pytest.raises(RecipeError, match="decoder-only stack"):
            recipe(name).graph(DecoderConfig())
        with pytest.raises(RecipeError, match="decoder-only stack"):
            observe_document(ObserveRequest(recipe=name))

    @pytest.mark.parametrize(
        ("name", "sizes", "sentence"),
        [
            ("deepscalelm", {"blocks": 1}, "at least 2 blocks; this decoder has 1"),
            ("deepscalelm+gpt2", {"blocks": 1}, "at least 2 blocks; this decoder has 1"),
            ("ngpt", {"mlp": "gelu"}, "mlp swiglu only; this decoder has gelu"),
            ("ngpt+gpt2", {"position_encoding": "learned"}, "position_encoding rope only; this decoder has learned"),
        ],
    )
    def test_a_recipe_without_definition_on_a_decoder_is_refused(self, name: str, sizes: dict, sentence: str) -> None:
        with pytest.raises(RecipeError, match=sentence):
            recipe(name).graph(DecoderConfig(**sizes))


class TestCombinations:
    """One topology with writer laws."""

    @pytest.mark.parametrize(
        ("typed", "name"),
        [
            ("depth-scaled+peri-norm", "peri-norm+depth-scaled"),
            ("peri-norm depth-scaled", "peri-norm+depth-scaled"),
            (" gpt2 + depth-scaled ", "depth-scaled+gpt2"),
            ("peri-norm+unscaled", "peri-norm"),
            ("unscaled+gpt2", "gpt2"),
            ("zero-writer+wang+lns", "lns+wang+zero-writer"),
        ],
    )
    def test_equal_combinations_have_one_name(self, typed: str, name: str) -> None:
        assert recipe(typed).name == name
        assert recipe(name).name == name

    @pytest.mark.parametrize("name", ["lns+peri-norm", "admin+deepnorm+gpt2", "t-fixup+peri-norm"])
    def test_two_graphs_are_refused(self, name: str) -> None:
        with pytest.raises(RecipeError, match="both change the graph"):
            recipe(name)

    @pytest.mark.parametrize("name", ["gpt2+gpt2", "peri-norm+gpt2+peri-norm"])
    def test_a_part_named_twice_is_refused(self, name: str) -> None:
        with pytest.raises(RecipeError, match="names a part twice"):
            recipe(name)

    @pytest.mark.parametrize("topology", TOPOLOGIES)
    @pytest.mark.parametrize("law", WRITER_LAWS)
    def test_coefficients_multiply_and_the_graph_is_the_topologys(self, topology: str, law: str) -> None:
        config = DecoderConfig(blocks=5)
        joint = recipe(f"{topology}+{law}")
        assert joint.topology is recipe(topology).topology
        assert joint.profile == recipe(topology).profile
        own, other = writer_factors(topology, config), writer_factors(law, config)
        for name, factor in writer_factors(joint.name, config).items():
            assert factor == own[name] * other[name]

    def test_three_laws_multiply(self) -> None:
        config = DecoderConfig(blocks=6)
        joint = writer_factors("deepnorm+depth-scaled+gpt2", config)
        assert list(joint.values()) == pytest.approx([48**-0.25 * 6**-0.5 * 12**-0.5] * 12, rel=1e-15)

    def test_laws_beside_the_writers_stay_with_their_part(self) -> None:
        config = DecoderConfig(blocks=4)
        joint = recipe("deepnorm+gpt2")
        for spec in layout(config).block_template:
            if spec.role in BLOCK_MATRICES and spec.role not in WRITERS:
                alone = recipe("deepnorm").coefficient(spec, 0, config, 1.0)
                assert joint.coefficient(spec, 0, config, 1.0) == alone

    @pytest.mark.parametrize(
        ("topology", "law"), [("peri-norm", "depth-scaled"), ("post-norm", "gpt2"), ("admin", "gpt2")]
    )
    def test_a_combination_is_the_graph_on_scaled_writers(self, topology: str, law: str) -> None:
        """Against the plain reference: the topology's forward with the writers multiplied by hand."""
        sizes = Sizes(blocks=4, **NARROW)
        factor = 4**-0.5 if law == "depth-scaled" else 8**-0.5
        parameters = {
            name: np.multiply(values, factor) if name.endswith(("output.weight", "down.weight")) else values
            for name, values in plain_base_draw(sizes, 4701).items()
        }
        plain = observe_parameters(topology, sizes, parameters, ROW)
        draw = BaseDraw(DecoderConfig(blocks=4), [4701])
        (arm,) = observe_arms(draw, [recipe(f"{topology}+{law}")], chapter_batch())
        measured = list(zip(arm.observation.activation_rms[0], arm.observation.adjoint_rms[0], strict=True))
        for ours, (_, activation, adjoint) in zip(measured, plain["sites"], strict=True):
            assert ours == pytest.approx((activation, adjoint), rel=1e-12)

    def test_a_saved_combination_is_restored_exactly(self, tmp_path: Path) -> None:
        request = ObserveRequest(config=DecoderConfig(blocks=3), recipe="admin+depth-scaled")
        run = built_run(request)
        save_run(tmp_path / "run", run.initialized, run.control, run.dtype)
        restored = restored_document(load_run(tmp_path / "run"))
        fresh = observe_document(request)
        assert fresh["recipe"] == restored["recipe"] == "admin+depth-scaled"
        for key in ("initialized", "same_base_unscaled_control"):
            for ours, theirs in zip(restored[key]["sites"], fresh[key]["sites"], strict=True):
                assert ours["activation_rms"] == pytest.approx(theirs["activation_rms"], rel=1e-12)
                assert ours["adjoint_rms"] == pytest.approx(theirs["adjoint_rms"], rel=1e-12)

    def test_recipes_made_by_hand_combine_too(self) -> None:
        own = Recipe(name="own", title="Own", source="this test", evidence="derived here", laws=recipe("gpt2").laws)
        joint = combination([own, recipe("lns")])
        assert joint.name == "lns+own"
        assert joint.parts == ("lns", "own")


class TestBits:
    """A coefficient of exactly 1 leaves the bits untouched, and arms share their base."""

    @pytest.mark.parametrize("name", ["depth-scaled", "ds-init", "lns", "unscaled", "peri-norm", "mup"])
    def test_one_block_is_the_base_draw(self, name: str) -> None:
        draw = BaseDraw(DecoderConfig(blocks=1, width=8, heads=2), [7])
        arms = DrawnWeights(draw, [recipe(CONTROL), recipe(name)])
        for key, tensor in arms.block(0).items():
            if tensor is not None:
                assert tensor.shape[0] == 1, key
                np.testing.assert_array_equal(tensor.numpy()[0], draw.block(0)[key][0])

    def test_absolute_deviations_do_not_depend_on_the_base(self) -> None:
        config = DecoderConfig(blocks=6, width=64, heads=4, ff_width=96)
        for distribution in (Distribution(), Distribution(0.02)):
            weights = DrawnWeights(BaseDraw(config, [3], distribution), [recipe("wang")]).block(2)
            assert weights["ffn.up.weight"].std().item() == pytest.approx(math.sqrt(2 / 320), rel=0.02)
            assert weights["ffn.down.weight"].std().item() == pytest.approx(2 / (6 * 8), rel=0.02)
