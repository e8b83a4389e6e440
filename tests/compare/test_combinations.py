"""Warnings are computed from arms: the reference's list, its counterparts, and the numbers behind the sentences."""

from __future__ import annotations

import numpy as np
import pytest

from core.compare.combinations import NO_EFFECT, CombinationReport, combination_report
from core.compare.effects import largest_change
from core.decoder.base_draw import BaseDraw, Distribution
from core.decoder.config import DecoderConfig
from core.errors import RecipeError
from core.health.arms import observe_arms
from core.health.report import observe_document
from core.health.request import ObserveRequest
from core.recipes.catalogue import RECIPES, recipe

WIDE = DecoderConfig(blocks=6, width=32, heads=4, ff_width=64)


def report(name: str, config: DecoderConfig | None = None, **options: object) -> CombinationReport:
    """The report of a recipe on the narrow fixture or another decoder."""
    return combination_report(ObserveRequest(recipe=name, config=config or DecoderConfig(), **options))


def codes(found: CombinationReport) -> list[str]:
    """Kinds of the warnings, in order."""
    return [warning.code for warning in found.warnings]


def change_by_hand(first: str, second: str, config: DecoderConfig) -> float:
    """Largest relative change between the sites of two observations, from their documents."""
    a, b = (observe_document(ObserveRequest(recipe=name, config=config))["initialized"] for name in (first, second))
    return max(
        abs(x[key] / y[key] - 1)
        for x, y in zip(a["sites"], b["sites"], strict=True)
        for key in ("activation_rms", "adjoint_rms")
    )


class TestNoEffect:
    """A norm on the branch output divides writer scale out; a norm on the sum does not."""

    @pytest.mark.parametrize("config", [DecoderConfig(), WIDE], ids=["narrow", "wide"])
    def test_peri_norm_hides_scaled_writers(self, config: DecoderConfig) -> None:
        found = report("peri-norm+depth-scaled", config)
        assert codes(found) == ["no-effect"]
        (warning,) = found.warnings
        by_hand = change_by_hand("peri-norm+depth-scaled", "peri-norm", config)
        assert warning.value == pytest.approx(by_hand, rel=1e-9)
        assert 0 < by_hand < NO_EFFECT
        assert f"largest relative change {by_hand:.3g}" in warning.sentence
        assert warning.sentence.startswith("no effect: depth-scaled scales the output and down writers")

    @pytest.mark.parametrize("law", ["depth-scaled", "gpt2", "block-indexed"])
    def test_post_norm_is_not_such_a_case(self, law: str) -> None:
        found = report(f"post-norm+{law}")
        assert codes(found) == []
        (effect,) = found.effects
        assert effect.largest_change == pytest.approx(
            change_by_hand(f"post-norm+{law}", "post-norm", DecoderConfig()), rel=1e-9
        )
        assert effect.largest_change > 1
        assert effect.quantity == "adjoint"

    def test_at_small_weights_epsilon_is_named_instead(self) -> None:
        found = report("peri-norm+depth-scaled", distribution=Distribution(0.02))
        assert codes(found) == ["epsilon"]
        assert found.warnings[0].value is not None
        assert found.warnings[0].value > 0.1
        assert "no effect" not in found.warnings[0].sentence

    def test_normformer_hides_one_writer_of_two(self) -> None:
        """The norm after attention hides the output writer; the down writer keeps its effect."""
        found = report("normformer+depth-scaled", WIDE)
        assert codes(found) == ["no-effect"]
        assert "scales the output writers" in found.warnings[0].sentence
        assert found.effects[0].largest_change > 0.1

    def test_the_sphere_hides_writers_exactly(self) -> None:
        found = report("ngpt+gpt2")
        assert codes(found) == ["no-effect"]
        assert found.warnings[0].value == pytest.approx(0, abs=1e-13)

    @pytest.mark.parametrize("gate", ["rezero", "skipinit"])
    def test_closed_gates_hide_every_writer_law(self, gate: str) -> None:
        found = report(f"{gate}+gpt2")
        assert codes(found) == ["no-effect"]
        assert found.warnings[0].value == 0
        assert "add nothing yet" in found.warnings[0].sentence

    def test_zero_is_the_one_scale_that_a_norm_does_not_hide(self) -> None:
        found = report("peri-norm+zero-writer")
        assert codes(found) == []
        assert found.effects[0].largest_change > 1


class TestDampedTwice:
    """A factor in the forward and another in the writers."""

    @pytest.mark.parametrize("law", ["depth-scaled", "gpt2", "block-indexed", "lingua-global"])
    def test_lns_with_scaled_writers(self, law: str) -> None:
        found = report(f"lns+{law}")
        assert "damped-twice" in codes(found)
        warning = found.warnings[codes(found).index("damped-twice")]
        sizes = {}
        for name in (f"lns+{law}", "lns", law):
            arm = observe_document(ObserveRequest(recipe=name))["initialized"]
            sizes[name] = max(c["contribution_rms"] for c in arm["contributions"][-2:]) / arm["input_activation_rms"]
        assert (
            f"add {sizes[f'lns+{law}']:.3g} of the input's RMS, {sizes['lns']:.3g} with lns alone" in warning.sentence
        )
        assert warning.value == pytest.approx(sizes[f"lns+{law}"] / sizes["lns"], rel=1e-9)
        assert warning.value < 0.6

    @pytest.mark.parametrize("name", ["completep+depth-scaled", "layerscale+gpt2", "deepscalelm+depth-scaled"])
    def test_other_forward_factors(self, name: str) -> None:
        assert "damped-twice" in codes(report(name))

    def test_at_base_depth_nothing_is_damped(self) -> None:
        assert "damped-twice" not in codes(report("completep+depth-scaled", DecoderConfig(blocks=2)))


class TestLawsTogether:
    """Laws that were not made for each other."""

    @pytest.mark.parametrize("law", ["depth-scaled", "gpt2", "block-indexed", "wang", "ds-init", "lingua-global"])
    def test_deepnorm_with_a_further_law(self, law: str) -> None:
        found = report(f"deepnorm+{law}")
        assert codes(found)[0] == "foreign-law"
        assert found.warnings[0].value == pytest.approx(
            change_by_hand(f"deepnorm+{law}", "deepnorm", DecoderConfig()), rel=1e-9
        )
        assert "instead of 0.353553" in found.warnings[0].sentence

    def test_admin_with_a_further_law(self) -> None:
        assert codes(report("admin+gpt2")) == ["foreign-law"]

    @pytest.mark.parametrize("law", ["depth-scaled", "gpt2", "block-indexed", "lingua-global", "wang"])
    def test_zero_writers_with_any_law(self, law: str) -> None:
        found = report(f"zero-writer+{law}")
        assert {"zero-writer", "no-effect"} <= set(codes(found))
        zero, joint = (observe_document(ObserveRequest(recipe=n))["initialized"] for n in ("zero-writer", found.recipe))
        assert [s["activation_ratio"] for s in joint["sites"]] == [s["activation_ratio"] for s in zero["sites"]]

    def test_two_counts_in_one_model(self) -> None:
        found = report("depth-scaled+gpt2")
        assert codes(found) == ["two-depth-counts", "scaled-twice"]
        assert found.warnings[1].value == pytest.approx(8**-0.5 * 16**-0.5, rel=1e-15)
        assert "two-depth-counts" in codes(report("deepscalelm+depth-scaled"))
        assert "two-depth-counts" not in codes(report("deepscalelm+gpt2"))

    @pytest.mark.parametrize("name", ["t-fixup", "deepnorm-encoder-decoder", "admin-encoder-decoder", "t-fixup+gpt2"])
    def test_recipes_of_other_architectures(self, name: str) -> None:
        found = report(name)
        assert codes(found) == ["other-architecture"]
        assert "decoder-only" in found.warnings[0].sentence
        assert found.effects == ()


class TestReports:
    """What a report is in general."""

    @pytest.mark.parametrize("known", [r.name for r in RECIPES if r.refusal is None])
    def test_single_recipes_have_no_warning(self, known: str) -> None:
        found = report(known)
        assert (found.recipe, found.effects, found.warnings) == (known, (), ())

    @pytest.mark.parametrize("name", ["parallel+gpt2", "realformer+depth-scaled", "mup+gpt2", "dyt+gpt2"])
    def test_sound_combinations_have_effects_and_no_warning(self, name: str) -> None:
        found = report(name)
        assert codes(found) == []
        assert found.effects[0].largest_change > 0.1

    def test_bad_input_is_refused_as_an_observation(self) -> None:
        with pytest.raises(RecipeError, match="unknown"):
            report("nothing+gpt2")
        with pytest.raises(RecipeError, match="at least 2 blocks"):
            report("deepscalelm+gpt2", DecoderConfig(blocks=1))

    def test_largest_change_counts_what_only_one_arm_has(self) -> None:
        draw = BaseDraw(DecoderConfig(blocks=2), [0, 1])
        plain, scaled = observe_arms(draw, [recipe("unscaled"), recipe("gpt2")], ObserveRequest().batch)
        assert largest_change(plain, plain, 1)[0] == 0
        value, quantity, site = largest_change(scaled, plain, 1)
        ours, theirs = (
            getattr(arm.observation, f"{quantity}_rms")[arm.member(1), site] for arm in (scaled, plain)
        )  # fmt: skip
        assert value == pytest.approx(abs(ours / theirs - 1), rel=1e-15)
        silent = observe_arms(draw, [recipe("gpt2")], ObserveRequest().batch)[0]
        silent.observation.activation_rms[silent.member(1), 2] = np.nan
        assert largest_change(silent, plain, 1) == (np.inf, "activation", 2)
