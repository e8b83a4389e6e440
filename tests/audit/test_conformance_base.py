"""Bases that nobody declared: read from truncated, orthogonal and oddly scaled matrices, never guessed into faults."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn

from core.audit.initialization.weight_stats import ORTHOGONAL, weight_stats
from tests.audit.drawn import At, Drawn, Std, judged, kinds, two_depths
from tests.audit.test_conformance_intact import Experts, with_ffn
from tests.audit.test_conformance_scale import SIGMA, additions, names, on_writers, truncated, uniform

Draw = Callable[[tuple[int, ...]], torch.Tensor]


def cut_at_three(shape: tuple[int, ...]) -> torch.Tensor:
    return nn.init.trunc_normal_(torch.empty(shape), std=1.0, a=-3, b=3)


def orthogonal(shape: tuple[int, ...]) -> torch.Tensor:
    return nn.init.orthogonal_(torch.empty(shape))


def fan_in(at: At) -> float:
    return at.fan_in**-0.5


HEALTHY: list[tuple[Std, Draw | None]] = [
    (fan_in, truncated),
    (lambda at: (2 / at.fan_in) ** 0.5, cut_at_three),
    (lambda at: (2 / (at.fan_in + at.fan_out)) ** 0.5, truncated),
    (lambda at: 1.0, orthogonal),
    (lambda at: 0.73 * at.fan_in**-0.5, None),
    (lambda at: (0.4 / at.fan_in) ** 0.5, uniform),
    (lambda at: 0.79, None),
]


@pytest.mark.parametrize(("law", "draw"), HEALTHY)
@pytest.mark.parametrize("options", [{"blocks": 2, "gated": False, "transposed": True, "ff": 256}, {"blocks": 3}])
def test_any_base_with_and_without_a_rule(law: Std, draw: Draw | None, options: dict[str, int]) -> None:
    """Readers all read the width, so that a constant and a law of fan_in look alike on them: the writers decide."""
    assert kinds(judged(Drawn(law, draw=draw, **options))) == ["no-rule-declared"]
    absent = judged(Drawn(law, draw=draw, **options), rule="gpt2")
    assert kinds(absent) == ["absent"]
    assert set(absent.findings[0].parameters) == names(options["blocks"], "output", "down")
    scaled = Drawn(lambda at: law(at) * (additions(at) if at.writes else 1), draw=draw, **options)
    for rule in ("auto", "gpt2"):
        judgement = judged(scaled, rule=rule)
        assert (judgement.rule, kinds(judgement)) == ("gpt2", ["applied"])


def test_right_angles_are_told_from_independent_draws() -> None:
    torch.manual_seed(0)
    for shape in ((64, 64), (172, 64), (64, 172), (3, 32, 96)):
        drawn = torch.stack([orthogonal(shape[-2:])] * shape[0]) if len(shape) > 2 else orthogonal(shape)
        for tensor in (drawn, 0.3 * drawn, drawn.to(torch.bfloat16)):
            assert weight_stats(tensor).distribution == ORTHOGONAL
        assert weight_stats(torch.randn(shape)).distribution != ORTHOGONAL


@pytest.mark.parametrize("draw", [None, truncated])
def test_half_the_additions_on_lecun_readers_are_no_he_base(draw: Draw | None) -> None:
    """sqrt(2) (2L)^(-1/2) = L^(-1/2): readers at LeCun's say which of the two it is."""
    model = Drawn(lambda at: fan_in(at) * (at.blocks**-0.5 if at.writes else 1), draw=draw)
    (finding,) = judged(model, rule="gpt2").findings
    assert finding.kind == "depth-convention"
    assert set(finding.parameters) == names(4, "output", "down")
    assert finding.measured == pytest.approx(math.sqrt(2), rel=0.02)
    assert "one addition a block" in finding.sentence


def test_a_wrong_fan_is_told_before_stages_that_nothing_names() -> None:
    """fan_out of a GPT-2 down is 1/4 of its fan_in: 2, which stages of two blocks would explain as well."""
    std = lambda at: (at.fan_out if at.role == "down" else at.fan_in) ** -0.5 * (additions(at) if at.writes else 1)  # noqa: E731
    (finding,) = judged(Drawn(std, gated=False, transposed=True, ff=256), rule="gpt2").findings
    assert finding.kind == "wrong-fan-in"
    assert set(finding.parameters) == names(4, "down")
    assert finding.measured == pytest.approx(2, rel=0.02)
    assert "64, where their fan_in is 256" in finding.sentence


def test_a_depth_written_down_is_one_finding_for_all_writers() -> None:
    model, source = two_depths(on_writers(lambda at: 24**-0.5), blocks=6, width=48, ff=128)
    (finding,) = judged(model, rule="gpt2", source=source).findings
    assert finding.kind == "depth-convention"
    assert set(finding.parameters) == names(6, "output", "down")
    assert "the depth is not counted" in finding.sentence


def test_a_declared_sigma_that_nothing_follows() -> None:
    model = Drawn(lambda at: 0.05 * (additions(at) if at.writes else 1), width=48, ff=128)
    judgement = judged(model, rule="gpt2", sigma=SIGMA)
    assert set(kinds(judgement)) == {"range-ignored"}
    found = {name for finding in judgement.findings for name in finding.parameters}
    assert found == names(4, "query", "key", "value", "gate", "up", "output", "down")
    assert all(finding.measured == pytest.approx(2.5, rel=0.03) for finding in judgement.findings)


def test_experts_drawn_as_a_convolution() -> None:
    """Xavier of a tensor [experts, in, out] takes `in * out` and `experts * out` for its fans."""

    def xavier(at: At) -> float:
        if 96 in (at.fan_in, at.fan_out) and at.role in ("up", "down"):
            return (2 / (at.fan_in * at.fan_out + 4 * at.fan_out)) ** 0.5
        return (2 / (at.fan_in + at.fan_out)) ** 0.5

    judgement = judged(with_ffn(lambda: Experts(xavier), xavier))
    assert kinds(judgement) == ["wrong-fan-in", "no-rule-declared"]
    assert set(judgement.findings[0].parameters) == {f"ffn.{b}.{part}" for b in range(4) for part in ("up", "down")}
    assert "convolution" in judgement.findings[0].sentence


def test_every_matrix_scaled_is_no_guess_where_depths_say_otherwise() -> None:
    """LeCun's readers times (2L)^(-1/2) at four blocks; eight blocks show that no depth is in it."""
    model, source = two_depths(lambda at: fan_in(at) * 8**-0.5)
    assert judged(model).verdict == "on-everything"
    assert kinds(judged(model, source=source)) == ["no-rule-declared"]
