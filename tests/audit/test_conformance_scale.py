"""Every kind of finding about scale, on decoders written by hand whose right answer is known."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

from core.errors import AuditError, RecipeError
from tests.audit.drawn import At, Drawn, Std, gpt2, judged, kinds, two_depths

SIGMA = 0.02


def on_writers(factor: Callable[[At], float], base: float = SIGMA) -> Std:
    return lambda at: base * factor(at) if at.writes else base


def on_roles(*roles: str) -> Std:
    """The factor (2L)^(-1/2) on these roles alone."""
    return lambda at: SIGMA * additions(at) if at.role in roles else SIGMA


def additions(at: At) -> float:
    return (2 * at.blocks) ** -0.5


def names(blocks: int, *parts: str) -> set[str]:
    where = {"output": "attention", "query": "attention", "key": "attention", "value": "attention"}
    return {f"{where.get(part, 'ffn')}.{block}.{part}.weight" for block in range(blocks) for part in parts}


def uniform(shape: tuple[int, ...]) -> torch.Tensor:
    return (torch.rand(shape) * 2 - 1) * math.sqrt(3)


def truncated(shape: tuple[int, ...]) -> torch.Tensor:
    return nn.init.trunc_normal_(torch.empty(shape), std=1.0, a=-2, b=2)


def test_a_rule_never_applied() -> None:
    judgement = judged(Drawn(on_writers(lambda at: 1.0)), rule="gpt2")
    (finding,) = judgement.findings
    assert judgement.verdict == finding.kind == "absent"
    assert set(finding.parameters) == names(4, "output", "down")
    assert finding.measured == pytest.approx(math.sqrt(8), rel=0.01)
    assert finding.expected == 1.0
    for row in judgement.document()["profile"]:
        assert row["ratios"] == pytest.approx([math.sqrt(8)] * 4, rel=0.05)
        assert row["shape"].startswith("flat 2.8")


@pytest.mark.parametrize("rule", ["gpt2", "auto"])
@pytest.mark.parametrize("options", [{}, {"gated": False, "transposed": True}, {"width": 32, "ff": 128}])
def test_a_rule_that_is_met(rule: str, options: dict[str, object]) -> None:
    judgement = judged(Drawn(gpt2, **options), rule=rule)  # type: ignore[arg-type]
    assert (judgement.rule, judgement.verdict) == ("gpt2", "applied")
    assert judgement.findings[0].measured == pytest.approx(1, rel=0.03)
    assert judgement.corrected is None


@pytest.mark.parametrize(
    ("rule", "factor"),
    [
        ("depth-scaled", lambda at: at.blocks**-0.5),
        ("block-indexed", lambda at: (2 * (at.block + 1)) ** -0.5),
        ("lingua-global", lambda at: (2 * (at.blocks + 1)) ** -0.5),
    ],
)
def test_recipes_are_recognized_by_their_own_law(rule: str, factor: Callable[[At], float]) -> None:
    model = Drawn(on_writers(factor), blocks=5)
    for declared in ("auto", rule):
        judgement = judged(model, rule=declared)
        assert (judgement.rule, judgement.verdict) == (rule, "applied")


def test_a_recipe_that_sets_readers_too() -> None:
    """Wang writers 2 / (L sqrt(d)), small init sqrt(2 / (5 d)) elsewhere."""
    model = Drawn(lambda at: 2 / (at.blocks * 8) if at.writes else math.sqrt(2 / (5 * 64)), blocks=5)
    for declared in ("auto", "wang"):
        judgement = judged(model, rule=declared)
        assert (judgement.rule, judgement.verdict) == ("wang", "applied")


@pytest.mark.parametrize("sigma", [None, SIGMA])
@pytest.mark.parametrize(("scaled", "left"), [("up", "down"), ("value", "output")])
def test_the_wrong_matrix_of_a_branch(sigma: float | None, scaled: str, left: str) -> None:
    model = Drawn(on_roles(*{"output", "down"} - {left}, scaled), blocks=8)
    judgement = judged(model, rule="gpt2", sigma=sigma)
    (finding,) = judgement.findings
    assert finding.kind == "on-reader"
    assert set(finding.parameters) == names(8, scaled, left)
    assert "only the weights" in finding.sentence


def test_activations_alone_do_not_tell_the_wrong_matrix_from_the_right_one() -> None:
    """The branch is linear in up and down: only the weights, and the two gradients, tell."""
    right, wrong = (Drawn(on_roles("output", role), blocks=8).double() for role in ("down", "up"))
    ids = torch.arange(18).reshape(2, 9)
    one, two = right(ids), wrong(ids)
    torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-13)
    one.square().sum().backward()
    two.square().sum().backward()
    swapped = right.ffn[3].up.weight.grad / wrong.ffn[3].up.weight.grad  # type: ignore[union-attr]
    torch.testing.assert_close(swapped, torch.full_like(swapped, 0.25), rtol=1e-6, atol=0)
    assert judged(right, rule="gpt2").verdict == "applied"
    assert judged(wrong, rule="gpt2").verdict == "on-reader"


def test_a_gate_that_is_scaled_is_no_linear_matter() -> None:
    finding = judged(Drawn(on_roles("output", "gate"), blocks=8), rule="gpt2").findings[0]
    assert finding.kind == "on-reader"
    assert "only the weights" not in finding.sentence


def test_both_matrices_of_a_branch() -> None:
    judgement = judged(Drawn(on_roles("output", "down", "up"), blocks=8), rule="gpt2")
    assert kinds(judgement) == ["on-reader", "twice"]
    reader, twice = judgement.findings
    assert set(reader.parameters) == names(8, "up")
    assert "0.06" in twice.sentence
    assert twice.measured == pytest.approx(0.25, rel=0.02)


@pytest.mark.parametrize("rule", ["gpt2", "auto"])
@pytest.mark.parametrize(
    ("scaled", "left", "blocks"), [("output", "down", 8), ("down", "output", 2), ("output", "down", 2)]
)
def test_one_writer_of_two(rule: str, scaled: str, left: str, blocks: int) -> None:
    judgement = judged(Drawn(on_roles(scaled), blocks=blocks), rule=rule)
    (finding,) = judgement.findings
    assert (judgement.rule, finding.kind) == ("gpt2", "partial")
    assert set(finding.parameters) == names(blocks, left)
    assert finding.measured == pytest.approx(math.sqrt(2 * blocks), rel=0.03)


def test_blocks_left_out() -> None:
    model = Drawn(on_writers(lambda at: 1.0 if at.block == 7 else additions(at)), blocks=8)
    (finding,) = judged(model, rule="gpt2").findings
    assert finding.kind == "partial"
    assert set(finding.parameters) == {"attention.7.output.weight", "ffn.7.down.weight"}


@pytest.mark.parametrize(
    ("std", "options", "call"),
    [
        (lambda at: at.fan_in**-0.5 * additions(at), {}, {"rule": "gpt2"}),
        (lambda at: at.fan_in**-0.5 * additions(at), {}, {}),
        (lambda at: SIGMA * additions(at), {}, {"rule": "gpt2", "sigma": SIGMA}),
        (lambda at: SIGMA * additions(at), {"embedding": SIGMA}, {"rule": "gpt2"}),
        (lambda at: SIGMA * additions(at), {}, {"rule": "gpt2", "depths": True}),
    ],
)
def test_every_matrix_scaled(std: Std, options: dict[str, float], call: dict[str, object]) -> None:
    """By a base that everybody uses, by sigma, by the embedding, and by what changes between two depths."""
    call = dict(call)
    model, source = two_depths(std, blocks=16, **options)
    if call.pop("depths", False):
        call["source"] = source
    judgement = judged(model, **call)
    assert (judgement.rule, kinds(judgement)) == ("gpt2", ["on-everything"])
    finding = judgement.findings[0]
    assert set(finding.parameters) == names(16, "query", "key", "value", "gate", "up")
    assert finding.measured == pytest.approx(32**-0.5, rel=0.02)
    assert "0.031" in finding.sentence or "0.032" in finding.sentence


@pytest.mark.parametrize(
    ("factor", "ratios", "shape", "word"),
    [
        (lambda at: at.blocks**-0.5, [math.sqrt(2)] * 16, "flat 1.41, sqrt(2)", "one addition a block"),
        (lambda at: 8**-0.5, [2.0] * 16, "flat 2.00, 2", "stage"),
        (
            lambda at: (2 * at.block) ** -0.5 if at.block else math.inf,
            [None, *(math.sqrt(16 / block) for block in range(1, 16))],
            "infinite first block",
            "from 0",
        ),
        (
            lambda at: (2 * (at.block % 4 + 1)) ** -0.5,
            [math.sqrt(16 / (block % 4 + 1)) for block in range(16)],
            "saw-tooth, again every 4",
            "anew in every stage",
        ),
        (
            lambda at: (2 * (at.block + 1)) ** -0.5,
            [math.sqrt(16 / (block + 1)) for block in range(16)],
            "falling",
            "own index",
        ),
        (
            lambda at: (2 * (16 - at.block)) ** -0.5,
            [math.sqrt(16 / (16 - b)) for b in range(16)],
            "rising",
            "down from",
        ),
        (lambda at: 32**-0.25, [32**0.25] * 16, "flat 2.3", "fourth root"),
        (lambda at: 48**-0.5, [math.sqrt(32 / 48)] * 16, "flat 0.8", "three additions"),
    ],
)
def test_another_depth(factor: Callable[[At], float], ratios: list[float | None], shape: str, word: str) -> None:
    judgement = judged(Drawn(on_writers(factor), blocks=16), rule="gpt2")
    (finding,) = judgement.findings
    assert finding.kind == "depth-convention"
    assert set(finding.parameters) == names(16, "output", "down")
    assert word in finding.sentence
    for row in judgement.document()["profile"]:
        assert [r and round(r, 6) for r in row["ratios"]] == [r and pytest.approx(r, rel=0.07) for r in ratios]
        assert row["shape"].startswith(shape)


def test_a_depth_written_down_is_no_law_of_the_depth() -> None:
    """At 12 blocks it passes; a second depth tells."""
    std = on_writers(lambda at: 24**-0.5)
    assert judged(Drawn(std, blocks=12, width=32, ff=64), rule="gpt2").verdict == "applied"
    model, source = two_depths(std, blocks=12, width=32, ff=64)
    judgement = judged(model, rule="gpt2", source=source)
    assert judgement.verdict == "depth-convention"
    assert "the depth is not counted" in judgement.findings[0].sentence


@pytest.mark.parametrize("blocks", [4, 64])
def test_the_same_factor_in_weights_and_forward(blocks: int) -> None:
    model = Drawn(gpt2, blocks=blocks, width=32, ff=64, forward_factor=lambda block, depth: (2 * depth) ** -0.5)
    judgement = judged(model, rule="gpt2")
    (finding,) = judgement.findings
    assert finding.kind == "twice"
    assert set(finding.parameters) == names(blocks, "output", "down")
    assert "stored writers" in finding.sentence
    assert "forward" in finding.sentence
    assert finding.measured == pytest.approx((2 * blocks) ** -0.5, rel=0.02)


class ScaledWeight(nn.Module):
    """The forward multiplies the matrix, or what it reads, and not the output."""

    def __init__(self, inner: nn.Module, factor: float, *, before: bool) -> None:
        super().__init__()
        self.weight, self.factor, self.before = inner.weight, factor, before

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.before:
            return functional.linear(x * self.factor, self.weight)
        return functional.linear(x, self.weight * self.factor)


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize(("std", "kind"), [(gpt2, "twice"), (on_writers(lambda at: 1.0), "applied")])
def test_a_factor_on_the_matrix_or_before_it_is_a_forward_coefficient(before: bool, std: Std, kind: str) -> None:
    model = Drawn(std)
    for mixing, ffn in zip(model.attention, model.ffn, strict=True):
        mixing.output = ScaledWeight(mixing.output, 8**-0.5, before=before)
        ffn.down = ScaledWeight(ffn.down, 8**-0.5, before=before)
    assert kinds(judged(model, rule="gpt2")) == [kind]


@pytest.mark.parametrize("seed", range(8))
def test_a_constant_of_the_forward_is_one_finding_whatever_the_draw(seed: int) -> None:
    """0.22 lies so near (4L)^(-1/2) at four blocks that some small matrices meet it by sampling error alone."""
    model, source = two_depths(lambda at: SIGMA, width=32, ff=48, seed=seed, forward_factor=lambda block, depth: 0.22)
    (finding,) = judged(model, rule="gpt2", source=source).findings
    assert finding.kind == "depth-convention"
    assert set(finding.parameters) == names(4, "output", "down")
    assert "the depth is not counted at all" in finding.sentence


def test_writers_squared() -> None:
    (finding,) = judged(Drawn(on_writers(lambda at: 1 / (2 * at.blocks))), rule="gpt2").findings
    assert finding.kind == "twice"
    assert finding.measured == pytest.approx(8**-0.5, rel=0.02)


@pytest.mark.parametrize(
    ("rule", "forward"),
    [("gpt2", lambda block, depth: (2 * depth) ** -0.5), ("completep", lambda block, depth: 2 / depth)],
)
def test_forward_coefficients_count_as_scaling(rule: str, forward: Callable[[int, int], float]) -> None:
    judgement = judged(Drawn(lambda at: SIGMA, blocks=5, forward_factor=forward))
    assert (judgement.rule, judgement.verdict) == (rule, "applied")
    assert "forward" in judgement.findings[0].sentence


@pytest.mark.parametrize("reader_constant", [1.0, 3**-0.5])
def test_one_formula_for_writers_of_two_fans(reader_constant: float) -> None:
    """1 / sqrt(D L) for both; readers by the usual law, or as torch leaves them."""

    def std(at: At) -> float:
        return (256 * at.blocks) ** -0.5 if at.writes else reader_constant * at.fan_in**-0.5

    judgement = judged(Drawn(std, blocks=4, width=256, ff=704), rule="depth-scaled")
    (finding,) = judgement.findings
    assert finding.kind == "wrong-fan-in"
    assert set(finding.parameters) == names(4, "down")
    assert finding.measured == pytest.approx(math.sqrt(704 / 256), rel=0.01)
    assert "256" in finding.sentence
    assert "704" in finding.sentence


def test_every_matrix_drawn_by_its_fan_out() -> None:
    """As by an initializer that takes [in, out] for [out, in]."""
    judgement = judged(Drawn(lambda at: at.fan_out**-0.5, transposed=True))
    assert judgement.verdict == "wrong-fan-in"
    assert "fan_out" in judgement.findings[0].sentence


def test_two_conventions_side_by_side() -> None:
    std = on_writers(lambda at: additions(at) if at.role == "output" else at.blocks**-0.5)
    judgement = judged(Drawn(std, blocks=16), rule="gpt2")
    (finding,) = judgement.findings
    assert (finding.kind, finding.severity) == ("mixed-depth", "warning")
    assert set(finding.parameters) == names(16, "down")


def test_a_step_in_the_middle() -> None:
    std = on_writers(lambda at: 16**-0.5 if at.block < 8 else 32**-0.5)
    judgement = judged(Drawn(std, blocks=16), rule="gpt2")
    assert judgement.verdict == "mixed-depth"
    assert all(row["shape"].startswith("step") for row in judgement.document()["profile"])


def test_a_norm_on_the_branch_output_hides_the_scale() -> None:
    quarter = on_writers(lambda at: 0.25, base=0.1)
    for rule in ("auto", "gpt2"):
        judgement = judged(Drawn(quarter, norm_out=True), rule=rule)
        assert judgement.verdict == "invisible-after-norm"
        assert set(judgement.findings[0].parameters) == names(4, "output", "down")
    plain = judged(Drawn(lambda at: 0.1, norm_out=True))
    assert plain.verdict == "no-rule-declared"
    small = judged(Drawn(on_writers(lambda at: 0.02, base=0.02), norm_out=True, width=16, ff=32))
    assert any("epsilon" in note for note in small.notes)


def test_zero_writers_learn_and_are_no_fault() -> None:
    judgement = judged(Drawn(on_writers(lambda at: 0.0)))
    assert kinds(judgement) == ["zero-by-construction", "no-rule-declared"]
    assert "have a gradient" in judgement.findings[0].sentence
    assert judged(Drawn(on_writers(lambda at: 0.0)), rule="zero-writer").verdict == "zero-by-construction"


def test_writers_that_are_all_one_number_are_not_called_zero() -> None:
    """They spread nowhere, and still write: what they add is not nothing."""
    model = Drawn(on_writers(lambda at: 0.0))
    for name, parameter in model.named_parameters():
        if "output" in name or "down" in name:
            torch.nn.init.constant_(parameter, 0.01)
    assert not [found for found in judged(model).findings if found.kind == "zero-by-construction"]


@pytest.mark.parametrize("draw", [None, uniform, truncated])
def test_any_distribution_and_a_truncated_one(draw: Callable[[tuple[int, ...]], torch.Tensor] | None) -> None:
    judgement = judged(Drawn(gpt2, draw=draw), rule="gpt2", sigma=SIGMA)
    assert judgement.verdict == "applied"
    base = judgement.document()["base"]
    assert base["truncation_shrink"] == pytest.approx(0.8796 if draw is truncated else 1.0, abs=2e-3)


@pytest.mark.parametrize("draw", [None, uniform])
def test_the_usual_fan_laws_are_no_fault(draw: Callable[[tuple[int, ...]], torch.Tensor] | None) -> None:
    """Down reads 172 features, so that its std is not the readers'; a constant base would call it scaled."""
    for std in (
        lambda at: (3 * at.fan_in) ** -0.5,
        lambda at: at.fan_in**-0.5,
        lambda at: (2 / (at.fan_in + at.fan_out)) ** 0.5,
    ):
        assert kinds(judged(Drawn(std, draw=draw))) == ["no-rule-declared"]


def test_readers_that_ignore_a_declared_sigma() -> None:
    def std(at: At) -> float:
        return 0.1 * additions(at) if at.writes else SIGMA

    judgement = judged(Drawn(std), rule="gpt2", sigma=0.1)
    assert kinds(judgement) == ["range-ignored", "applied"]
    assert set(judgement.findings[0].parameters) == names(4, "query", "key", "value", "gate", "up")


def test_writers_scaled_from_a_constant_written_down() -> None:
    judgement = judged(Drawn(lambda at: SIGMA * additions(at) if at.writes else 0.1), rule="gpt2", sigma=0.1)
    (finding,) = judgement.findings
    assert finding.kind == "range-ignored"
    assert set(finding.parameters) == names(4, "output", "down")


def test_what_cannot_be_declared_is_refused() -> None:
    model = Drawn(gpt2, blocks=1)
    for rule in ("lns", "admin", "t-fixup", "ngpt"):
        with pytest.raises(AuditError, match=rule):
            judged(model, rule=rule)
    with pytest.raises(RecipeError, match="unknown"):
        judged(model, rule="nothing")
    with pytest.raises(AuditError, match="at least 2 blocks"):
        judged(model, rule="deepscalelm")
    for sigma in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(AuditError, match="positive and finite"):
            judged(model, sigma=sigma)


def test_a_fan_in_where_the_law_is_a_constant() -> None:
    """GPT-2's standard deviation does not depend on fans; here down's was divided by its own all the same."""
    std = on_writers(lambda at: additions(at) * (1.0 if at.role == "output" else (64 / at.fan_in) ** 0.5))
    model, source = two_depths(std)
    (finding,) = judged(model, rule="gpt2", source=source).findings
    assert finding.kind == "wrong-fan-in"
    assert set(finding.parameters) == names(4, "down")
    assert finding.measured == pytest.approx((64 / 172) ** 0.5, rel=0.02)
    assert "by their fan_in, 172" in finding.sentence
