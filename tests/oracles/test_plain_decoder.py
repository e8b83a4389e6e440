"""The plain reference against published figures, outside libraries and laws that need no decoder."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import mpmath
import numpy as np
import pytest

from core.decoder.config import DecoderConfig
from core.decoder.parameters import layout
from tests.oracles.plain_decoder import RECIPES, observe_parameters, observe_plain
from tests.oracles.plain_weights import (
    PlainSplitMix64,
    Sizes,
    plain_base_draw,
    plain_names,
    plain_recipe_weights,
    weight_factor,
)

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "chapter06.json").read_text())
FIXTURES = {fixture["id"]: fixture for fixture in GOLDEN["fixtures"]}
ROW = [(GOLDEN["inputs"], GOLDEN["targets"])]
LOSSES = {
    "narrow-1": (5.602732628157, 5.602732628157),
    "narrow-2": (5.660351086085, 5.664364307023),
    "narrow-8": (5.623782373309, 5.635288510179),
    "cpu-bridge": (6.015127875247, 6.014106060724),
}
NARROW = {"width": 4, "heads": 1, "ff_width": 4, "vocabulary": 266}
GROUPED = {"width": 16, "heads": 4, "kv_heads": 2, "ff_width": 20, "vocabulary": 266}
RAGGED = [
    ([0, 99, 100, 101, 7], [99, 100, 101, 7, 1], [True, False, True, True, True], [0, 0, 3, 3, 3]),
    ([5, 50], [50, 1]),
]
LONE = [([99], [100])]


def fixture_arm(identity: str, recipe: str) -> dict:
    """One arm of a published fixture."""
    names = ("blocks", "width", "heads", "ff_width", "vocabulary")
    sizes = {name: FIXTURES[identity][name] for name in names}
    return observe_plain(recipe, seed=GOLDEN["seed"], rows=ROW, **sizes)


def ratios(observation: dict) -> tuple[list[float], list[float]]:
    """Activation ratios to the input and adjoint ratios to the last state."""
    sites = observation["sites"]
    return [site[1] / sites[0][1] for site in sites], [site[2] / sites[-1][2] for site in sites]


def stored(recipe: str, sizes: Sizes, seed: int = 4701) -> dict:
    """Stored parameters of a recipe."""
    return plain_recipe_weights(recipe, sizes, plain_base_draw(sizes, seed))


def times(parameters: dict, factor: float, *endings: str) -> dict:
    """The parameters with those of the given name endings multiplied."""
    return {
        name: np.multiply(values, factor) if name.endswith(endings) else values for name, values in parameters.items()
    }


def lone_attention(read: np.ndarray, parameters: dict, block: int) -> np.ndarray:
    """Attention's output where one position sees only itself."""
    for role in ("value", "output"):
        read = read @ np.array(parameters[f"blocks.{block}.attention.{role}.weight"])
    return read


def assert_same(a: dict, b: dict, tolerance: float = 1e-13) -> None:
    """Loss and every site agree."""
    assert a["loss"] == pytest.approx(b["loss"], rel=tolerance)
    assert [site[0] for site in a["sites"]] == [site[0] for site in b["sites"]]
    for left, right in zip(a["sites"], b["sites"], strict=True):
        assert left[1:] == pytest.approx(right[1:], rel=tolerance)


class TestPublished:
    """Six printed decimals: half a unit in the last place, and nothing beside it but rounding."""

    @pytest.mark.parametrize("identity", FIXTURES)
    def test_every_site_of_the_scaled_arm(self, identity: str) -> None:
        observation = fixture_arm(identity, "depth-scaled")
        activations, adjoints = ratios(observation)
        assert len(FIXTURES[identity]["sites"]) == len(observation["sites"])
        for site, published in enumerate(FIXTURES[identity]["sites"]):
            _, activation, adjoint = observation["sites"][site]
            assert round(activation, 6) == published["activation_rms"]
            assert round(adjoint, 6) == published["adjoint_rms"]
            assert round(activations[site], 6) == published["activation_ratio"]
            assert round(adjoints[site], 6) == published["adjoint_ratio"]
            assert published["activation_band"] == published["adjoint_band"] == "within"
            assert 0.01 <= activations[site] <= 100
            assert 0.01 <= adjoints[site] <= 100
        assert round(observation["sites"][0][1], 6) == FIXTURES[identity]["A0"]
        assert round(observation["sites"][-1][2], 6) == FIXTURES[identity]["G_terminal"]

    @pytest.mark.parametrize("identity", FIXTURES)
    def test_summary_of_the_control(self, identity: str) -> None:
        observation, published = fixture_arm(identity, "unscaled"), FIXTURES[identity]["unscaled_control"]
        activations, adjoints = ratios(observation)
        measured = {
            "A0": observation["sites"][0][1],
            "G_terminal": observation["sites"][-1][2],
            "activation_ratio_min": min(activations),
            "activation_ratio_max": max(activations),
            "adjoint_ratio_min": min(adjoints),
            "adjoint_ratio_max": max(adjoints),
        }
        assert {name: round(value, 6) for name, value in measured.items()} | {"all_within": True} == published

    @pytest.mark.parametrize("identity", FIXTURES)
    def test_losses(self, identity: str) -> None:
        for recipe, loss in zip(("depth-scaled", "unscaled"), LOSSES[identity], strict=True):
            assert fixture_arm(identity, recipe)["loss"] == pytest.approx(loss, abs=1e-11, rel=0)


class TestDraws:
    """The stream, both distributions and the names."""

    def test_known_words(self) -> None:
        zero = PlainSplitMix64(0)
        assert [zero.next_word() for _ in range(3)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]

    def test_published_projection(self) -> None:
        stream = PlainSplitMix64(17)
        drawn = [round(stream.next_uniform(math.sqrt(6 / 4)), 12) for _ in range(4)]
        assert drawn == [0.004950883736, -0.265932089217, -0.420504358848, -0.676313443233]

    @pytest.mark.parametrize("truncate", [None, 2.0, 3.0])
    def test_normal_draws_are_the_inverse_of_the_distribution(self, truncate: float | None) -> None:
        """Forty digits beside the double inverse; the extreme probabilities are not drawn, only the typical ones."""
        words, stream = PlainSplitMix64(3), PlainSplitMix64(3)
        with mpmath.workdps(40):
            for _ in range(300):
                p = (mpmath.mpf(words.next_word() >> 12) + 0.5) / 2**52
                if truncate is not None:
                    p = mpmath.ncdf(-truncate) + p * (mpmath.ncdf(truncate) - mpmath.ncdf(-truncate))
                expected = 0.02 * mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1)
                drawn = stream.next_normal(0.02, truncate)
                assert abs(drawn) <= 0.02 * (truncate or 9.0)
                assert drawn == pytest.approx(float(expected), rel=1e-13, abs=1e-17)

    def test_lowest_normal_draw_is_finite(self) -> None:
        """The seed whose first word is 0: probability 2^-53, not 0."""
        lowest = PlainSplitMix64(2**64 - 0x9E3779B97F4A7C15).next_normal(1.0)
        assert lowest == pytest.approx(-8.209536151601387, rel=1e-13)

    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"kv_heads": 2, "heads": 4, "head_dim": 6},
            {"norm": "layernorm", "mlp": "gelu", "position_encoding": "learned", "tied": False, "bias": True},
        ],
    )
    def test_names_shapes_and_order_are_the_core_layout(self, options: dict) -> None:
        config = DecoderConfig(**{"blocks": 3, "width": 8, "heads": 2, "ff_width": 12, **options})
        ours = [(name, shape, fill) for name, shape, fill in plain_names(Sizes(**config.document()))]
        assert ours == [(spec.name, spec.shape, spec.fill) for spec in layout(config)]


class TestWeightLaws:
    """Multipliers of the stored matrices, from the table."""

    @pytest.mark.parametrize(
        ("recipe", "role", "expected"),
        [
            ("depth-scaled", "output", 12**-0.5),
            ("gpt2", "down", 24**-0.5),
            ("block-indexed", "down", 12**-0.5),
            ("lingua-global", "output", 26**-0.5),
            ("ds-init", "query", 6**-0.5),
            ("fixup", "query", 24**-0.5),
            ("fixup", "up", 24**-0.5),
            ("fixup", "down", 0.0),
            ("zero-writer", "output", 0.0),
            ("zero-writer", "up", 1.0),
            ("deepnorm", "value", 96**-0.25),
            ("deepnorm", "query", 1.0),
            ("wang", "output", 2 / 12 / 4 / math.sqrt(2 / 36)),
            ("wang", "gate", math.sqrt(2 / 80) / math.sqrt(2 / 36)),
            ("completep", "output", 1.0),
        ],
    )
    def test_factor_in_the_sixth_of_twelve_blocks(self, recipe: str, role: str, expected: float) -> None:
        sizes = Sizes(**GROUPED, blocks=12)
        part = "attention" if role in ("query", "value", "output") else "ffn"
        factor = weight_factor(recipe, f"blocks.5.{part}.{role}.weight", sizes, math.sqrt(2 / 36))
        assert factor == pytest.approx(expected, rel=1e-15)

    @pytest.mark.parametrize(
        ("blocks", "alpha", "beta"), [(12, 2.2134, 0.3195), (24, 2.6321, 0.2686), (100, 3.7606, 0.1880)]
    )
    def test_printed_constants_of_deepnorm(self, blocks: int, alpha: float, beta: float) -> None:
        sizes = {**NARROW, "vocabulary": 8, "blocks": blocks}
        observation = observe_plain("deepnorm", seed=1, rows=[([1], [2])], **sizes)
        stream = observation["contributions"][0][4] / observation["sites"][0][1]
        factor = weight_factor("deepnorm", "blocks.0.ffn.up.weight", Sizes(**sizes, kv_heads=1), 1.0)
        assert (round(stream, 4), round(factor, 4)) == (alpha, beta)

    def test_unit_norm_axes_of_ngpt(self) -> None:
        for name, values in stored("ngpt", Sizes(**GROUPED, blocks=1)).items():
            if name.endswith(".weight"):
                axis = 1 if name.split(".")[-2] in ("token_embedding", "output", "down") else 0
                np.testing.assert_allclose(np.linalg.norm(values, axis=axis), 1.0, rtol=1e-15)


class TestForward:
    """Laws of the graph that hold whatever the recipe."""

    @pytest.mark.parametrize("recipe", RECIPES)
    def test_adjoints_are_finite_differences(self, recipe: str) -> None:
        """Five-point differences, error of order step^4, at an inner state of a ragged packed batch."""
        sizes = Sizes(**GROUPED, blocks=2)
        parameters = stored(recipe, sizes)
        label = "block.0.after_parallel" if recipe == "parallel" else "block.0.after_attention"
        observation = observe_parameters(recipe, sizes, parameters, RAGGED)
        site = [entry[0] for entry in observation["sites"]].index(label)
        step = 1e-3 * observation["sites"][site][1]

        def loss(delta: float) -> float:
            return observe_parameters(recipe, sizes, parameters, RAGGED, nudge=(label, 0, 2, 5, delta))["loss"]

        difference = (8 * (loss(step) - loss(-step)) - (loss(2 * step) - loss(-2 * step))) / (12 * step)
        assert difference == pytest.approx(observation["adjoints"][site][0][2][5], rel=1e-6, abs=1e-10)

    @pytest.mark.parametrize(
        ("recipe", "encoding"),
        [("unscaled", "rope"), ("unscaled", "learned"), ("realformer", "rope"), ("ngpt", "rope")],
    )
    def test_segments_are_rows_of_their_own(self, recipe: str, encoding: str) -> None:
        """Learned positions show the restart; rotary ones depend on distances alone."""
        sizes = {**GROUPED, "position_encoding": encoding, "positions": 5}
        split = [
            (RAGGED[0][0][:2], RAGGED[0][1][:2], [True, False]),
            tuple(part[2:] for part in RAGGED[0][:2]),
            RAGGED[1],
        ]
        packed, apart = (observe_plain(recipe, seed=2, rows=rows, blocks=3, **sizes) for rows in (RAGGED, split))
        assert packed["valid_positions"] == apart["valid_positions"] == 6
        assert_same(packed, apart)

    def test_validity_changes_no_state(self) -> None:
        masked = [(*RAGGED[0][:2], [False, True, True, False, True], RAGGED[0][3]), RAGGED[1]]
        a, b = (observe_plain("unscaled", seed=2, rows=rows, blocks=2, **GROUPED) for rows in (RAGGED, masked))
        assert a["states"] == b["states"]
        assert a["loss"] != b["loss"]

    def test_grouped_heads_are_shared_heads(self) -> None:
        """Copying each key and value head for its query heads gives the decoder without groups."""
        grouped, full = Sizes(**GROUPED, blocks=3), Sizes(**{**GROUPED, "kv_heads": 4}, blocks=3)
        parameters = stored("unscaled", grouped)
        copied = {
            name: np.repeat(np.reshape(values, (16, 2, 4)), 2, axis=1).reshape(16, 16)
            if name.endswith(("key.weight", "value.weight"))
            else values
            for name, values in parameters.items()
        }
        shared = observe_parameters("unscaled", grouped, parameters, RAGGED)
        assert_same(shared, observe_parameters("unscaled", full, copied, RAGGED))

    @pytest.mark.parametrize(
        ("recipe", "read"),
        [
            ("skipinit", lambda x: x),
            ("fixup", lambda x: x),
            ("admin", lambda x: x),
            ("ngpt", lambda x: x),
            ("unscaled", lambda x: x / np.sqrt(np.mean(x**2) + 1e-6)),
            ("dyt", lambda x: np.tanh(0.5 * x)),
        ],
    )
    def test_lone_position_attends_itself(self, recipe: str, read: Callable) -> None:
        """With one position, attention is value times output of what the branch reads, here with unscaled weights."""
        sizes = Sizes(**{**NARROW, "kv_heads": 1}, blocks=1)
        parameters = stored("unscaled", sizes)
        observation = observe_parameters(recipe, sizes, parameters, LONE)
        raw = lone_attention(read(np.array(observation["states"][0][0][0])), parameters, 0)
        assert observation["contributions"][0][2] == pytest.approx(np.sqrt(np.mean(raw**2)), rel=1e-14)

    @pytest.mark.parametrize("recipe", RECIPES)
    def test_loss_is_read_from_the_last_state(self, recipe: str) -> None:
        """The final norm is kept except after a norm on the sum and on the sphere."""
        sizes = Sizes(**GROUPED, blocks=2)
        parameters = stored(recipe, sizes)
        observation = observe_parameters(recipe, sizes, parameters, LONE)
        state, table = np.array(observation["states"][-1][0][0]), np.array(parameters["token_embedding.weight"])
        if recipe == "dyt":
            state = np.tanh(0.5 * state)
        elif recipe not in ("post-norm", "deepnorm", "admin", "ngpt"):
            state = state / np.sqrt(np.mean(state**2) + 1e-6)
        logits = table @ state * (4 / 16 if recipe == "mup" else 1)
        assert observation["loss"] == pytest.approx(np.log(np.exp(logits).sum()) - logits[LONE[0][1][0]], rel=1e-14)

    def test_refusals(self) -> None:
        for recipe, blocks in (("t-fixup", 2), ("deepscalelm", 1)):
            with pytest.raises(ValueError, match=recipe):
                observe_plain(recipe, seed=1, rows=ROW, blocks=blocks, **NARROW)


class TestRecipes:
    """What each recipe must be by its definition."""

    @pytest.mark.parametrize("recipe", ["zero-writer", "rezero", "skipinit", "fixup"])
    def test_gated_identities_have_ratios_of_exactly_one(self, recipe: str) -> None:
        for sizes in (NARROW, GROUPED):
            observation = observe_plain(recipe, seed=4701, rows=RAGGED, blocks=4, **sizes)
            assert set(ratios(observation)[0] + ratios(observation)[1]) == {1.0}
            assert all(entry[3] == 0.0 and entry[5] is None for entry in observation["contributions"])

    @pytest.mark.parametrize(
        ("recipe", "other", "blocks"),
        [
            ("depth-scaled", "unscaled", 1),
            ("ds-init", "unscaled", 1),
            ("lns", "unscaled", 1),
            ("realformer", "unscaled", 1),
            ("completep", "unscaled", 2),
            ("block-indexed", "gpt2", 1),
            ("completep", "gpt2", 8),
        ],
    )
    def test_recipes_that_coincide_at_one_depth(self, recipe: str, other: str, blocks: int) -> None:
        a, b = (observe_plain(name, seed=5, rows=RAGGED, blocks=blocks, **GROUPED) for name in (recipe, other))
        assert_same(a, b)

    def test_layerscale_is_a_writer_scale(self) -> None:
        sizes = Sizes(**GROUPED, blocks=3)
        scaled = times(stored("unscaled", sizes), 0.1, "output.weight", "down.weight")
        observation = observe_plain("layerscale", seed=4701, rows=RAGGED, blocks=3, **GROUPED)
        assert_same(observation, observe_parameters("unscaled", sizes, scaled, RAGGED))

    @pytest.mark.parametrize(("blocks", "coefficient"), [(18, 0.1), (19, 1e-5), (24, 1e-5), (25, 1e-6)])
    def test_layerscale_steps_with_depth(self, blocks: int, coefficient: float) -> None:
        entry = observe_plain("layerscale", seed=1, rows=[([1], [2])], blocks=blocks, **NARROW)["contributions"][0]
        assert entry[3] / entry[2] == pytest.approx(coefficient, rel=1e-14)

    def test_lns_is_a_gain(self) -> None:
        sizes = Sizes(**GROUPED, blocks=3)
        parameters = stored("unscaled", sizes)
        for block in (1, 2):
            names = (f"blocks.{block}.attention_norm.gain", f"blocks.{block}.ffn_norm.gain")
            parameters = times(parameters, (block + 1) ** -0.5, *names)
        observation = observe_plain("lns", seed=4701, rows=RAGGED, blocks=3, **GROUPED)
        assert_same(observation, observe_parameters("unscaled", sizes, parameters, RAGGED))

    def test_peri_norm_hides_the_writer_scale_and_post_norm_does_not(self) -> None:
        sizes, factor = Sizes(**{**NARROW, "kv_heads": 1}, blocks=8), 8**-0.5
        changes = {}
        for recipe in ("peri-norm", "post-norm"):
            parameters = stored(recipe, sizes)
            plain = observe_parameters(recipe, sizes, parameters, ROW)
            scaled = times(parameters, factor, "output.weight", "down.weight")
            pairs = zip(plain["sites"], observe_parameters(recipe, sizes, scaled, ROW)["sites"], strict=True)
            changes[recipe] = max(abs(b[part] / a[part] - 1) for a, b in pairs for part in (1, 2))
        assert changes["peri-norm"] < 1e-3
        assert changes["post-norm"] > 0.5

    def test_output_norms_give_unit_contributions(self) -> None:
        peri = observe_plain("peri-norm", seed=4701, rows=ROW, blocks=4, **NARROW)["contributions"]
        assert all(entry[3] == pytest.approx(1, rel=1e-3) for entry in peri)
        normformer = observe_plain("normformer", seed=4701, rows=ROW, blocks=4, **NARROW)["contributions"]
        assert all(entry[3] == pytest.approx(1, rel=1e-3) for entry in normformer if entry[1] == "attention")
        assert all(entry[3] == entry[2] for entry in normformer if entry[1] == "feed_forward")

    def test_post_norm_sites_follow_the_norm(self) -> None:
        for recipe in ("post-norm", "deepnorm", "admin"):
            sites = observe_plain(recipe, seed=4701, rows=ROW, blocks=4, **NARROW)["sites"]
            assert all(site[1] == pytest.approx(1, rel=1e-3) for site in sites[1:])

    def test_admin_weighs_the_shortcut_by_profiled_variances(self) -> None:
        sizes = Sizes(**{**NARROW, "kv_heads": 1}, blocks=2)
        parameters = stored("admin", sizes)
        observation = observe_parameters("admin", sizes, parameters, LONE)
        raw = lone_attention(np.array(observation["states"][0][0][0]), parameters, 0)
        squares = np.square(observation["shortcuts"])
        assert squares[:2] == pytest.approx([1.0, 1.0 + np.var(raw)], rel=1e-14)
        assert (np.diff(squares) > 0).all()
        states = [site[1] for site in observation["sites"][:-1]]
        streams = [entry[4] for entry in observation["contributions"]]
        assert streams == pytest.approx(np.multiply(observation["shortcuts"], states), rel=1e-14)

    def test_admin_profiles_with_unit_shortcuts(self) -> None:
        """Each increment is at most the mean square that the post-norm arm reports for that branch."""
        admin, post = (
            observe_plain(name, seed=4701, rows=RAGGED, blocks=3, **GROUPED) for name in ("admin", "post-norm")
        )
        mean_squares = np.square([entry[2] for entry in post["contributions"]])[:-1]
        increments = np.diff(np.square(admin["shortcuts"]))
        assert (increments <= mean_squares * (1 + 1e-14)).all()
        assert increments == pytest.approx(mean_squares, rel=0.2)

    def test_deepscalelm_coefficients(self) -> None:
        observation = observe_plain("deepscalelm", seed=4701, rows=ROW, blocks=4, **NARROW)
        for site, (_, _, raw, contribution, stream, _) in zip(
            observation["sites"][:-1], observation["contributions"], strict=True
        ):
            assert contribution / raw == pytest.approx(0.5, rel=1e-14)
            assert stream / site[1] == pytest.approx(math.sqrt(0.75), rel=1e-14)

    def test_parallel_has_one_site_a_block(self) -> None:
        parallel, sequential = (
            observe_plain(name, seed=4701, rows=RAGGED, blocks=3, **GROUPED) for name in ("parallel", "unscaled")
        )
        assert [site[0] for site in parallel["sites"]] == ["input", *(f"block.{b}.after_parallel" for b in range(3))]
        assert [entry[1] for entry in parallel["contributions"]] == ["attention", "feed_forward"] * 3
        assert parallel["contributions"][0][2:] == sequential["contributions"][0][2:]
        assert parallel["contributions"][1][4] == parallel["sites"][0][1]

    def test_realformer_route_starts_at_zero(self) -> None:
        """Where the first block's scores vanish, the second block has nothing to add to its own."""
        sizes = Sizes(**GROUPED, blocks=2)
        parameters = times(stored("unscaled", sizes), 0.0, "blocks.0.attention.query.weight")
        routed, plain = (observe_parameters(name, sizes, parameters, RAGGED) for name in ("realformer", "unscaled"))
        assert_same(routed, plain)
        routed, plain = (
            observe_plain(name, seed=4701, rows=RAGGED, blocks=2, **GROUPED) for name in ("realformer", "unscaled")
        )
        assert routed["sites"][2][1] == plain["sites"][2][1]
        assert routed["sites"][3][1] != plain["sites"][3][1]

    def test_ngpt_stays_on_the_sphere(self) -> None:
        observation = observe_plain("ngpt", seed=4701, rows=RAGGED, blocks=3, **GROUPED)
        assert [site[1] for site in observation["sites"]] == pytest.approx([0.25] * 7, rel=1e-15)
        for _, _, _, contribution, stream, _ in observation["contributions"]:
            assert contribution == pytest.approx(0.05 * 0.25, rel=1e-14)
            assert stream == pytest.approx(0.95 * 0.25, rel=1e-14)

    def test_ngpt_step_by_step(self) -> None:
        """One position by hand; several positions do not see the length of queries and keys."""
        sizes = Sizes(**{**NARROW, "kv_heads": 1}, blocks=1)
        parameters = stored("ngpt", sizes)
        observation = observe_parameters("ngpt", sizes, parameters, LONE)
        gate, up, down = (np.array(parameters[f"blocks.0.ffn.{role}.weight"]) for role in ("gate", "up", "down"))
        state = np.array(parameters["token_embedding.weight"][LONE[0][0][0]])
        for site, branch in enumerate((lambda h: lone_attention(h, parameters, 0), None)):
            gated = 2 * state @ gate
            raw = branch(state) if branch else (gated / (1 + np.exp(-gated)) * (state @ up)) @ down
            state = 0.95 * state + 0.05 * raw / np.linalg.norm(raw)
            state /= np.linalg.norm(state)
            np.testing.assert_allclose(observation["states"][site + 1][0][0], state, rtol=1e-13)
        long = times(parameters, 7.0, "query.weight", "key.weight")
        assert_same(*(observe_parameters("ngpt", sizes, weights, ROW) for weights in (parameters, long)))

    def test_ngpt_scores(self) -> None:
        """Two positions by hand: unit queries and keys after rotation, times the root of the head width."""
        sizes = Sizes(**{**NARROW, "kv_heads": 1}, blocks=1)
        parameters = stored("ngpt", sizes)
        ids = [99, 101]
        observation = observe_parameters("ngpt", sizes, parameters, [(ids, [1, 1])])
        states = np.array(parameters["token_embedding.weight"])[ids]
        query, key, value, output = (
            np.array(parameters[f"blocks.0.attention.{role}.weight"]) for role in ("query", "key", "value", "output")
        )
        turns = np.exp(1j * np.outer([0, 1], [1.0, 10000**-0.5]))
        queries, keys = ((states @ matrix).view(complex) * turns for matrix in (query, key))
        queries, keys = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (queries, keys))
        weights = np.exp(2 * (keys @ queries[1].conj()).real)
        raw = weights / weights.sum() @ (states @ value) @ output
        state = 0.95 * states[1] + 0.05 * raw / np.linalg.norm(raw)
        np.testing.assert_allclose(observation["states"][1][0][1], state / np.linalg.norm(state), rtol=1e-13)

    def test_normformer_hides_the_scale_of_the_hidden_features(self) -> None:
        sizes = Sizes(**GROUPED, blocks=2)
        weights = (times(stored("normformer", sizes), factor, "up.weight") for factor in (1e4, 1e6))
        assert_same(*(observe_parameters("normformer", sizes, each, RAGGED) for each in weights), tolerance=1e-7)

    def test_dyt_scales_the_input_embedding(self) -> None:
        dyt, plain = (observe_plain(name, seed=4701, rows=ROW, blocks=1, **NARROW) for name in ("dyt", "unscaled"))
        assert dyt["sites"][0][1] == pytest.approx(2 * plain["sites"][0][1], rel=1e-15)

    def test_mup_divides_scores_by_the_head_width(self) -> None:
        sizes = Sizes(**GROUPED, blocks=2)
        parameters = stored("mup", sizes)
        halved = times(parameters, 0.5, "query.weight")
        mup, plain = (
            observe_parameters(name, sizes, weights, RAGGED)
            for name, weights in (("mup", parameters), ("unscaled", halved))
        )
        assert [site[1] for site in mup["sites"]] == pytest.approx([site[1] for site in plain["sites"]], rel=1e-14)


def test_normal_base_keeps_absolute_deviations() -> None:
    """An absolute std is reached from either base draw; a relative law is not moved by the base."""
    sizes = Sizes(**GROUPED, blocks=12)
    base = plain_base_draw(sizes, 3, std=0.02)
    weights = plain_recipe_weights("wang", sizes, base, std=0.02)
    assert np.std(weights["token_embedding.weight"]) == pytest.approx(math.sqrt(2 / 80), rel=0.03)
    assert np.std(np.concatenate([weights[f"blocks.{b}.ffn.down.weight"] for b in range(12)])) == pytest.approx(
        2 / 12 / 4, rel=0.05
    )
    name = "blocks.3.ffn.down.weight"
    gpt2 = plain_recipe_weights("gpt2", sizes, base, std=0.02)
    np.testing.assert_allclose(np.divide(gpt2[name], base[name]), 24**-0.5, rtol=1e-15)
