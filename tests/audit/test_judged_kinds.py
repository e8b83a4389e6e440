"""Kinds of faults that people report, each beside its healthy model: the right finding, and none on the healthy one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from core.audit.initialization.findings import Finding
from core.audit.initialization.judge import Judgement, judge
from core.audit.initialization.sign_hash import equal_parts
from core.audit.intake.target import depth_argument
from core.audit.run import audit
from core.audit.sandbox.tasks import run_task
from tests.audit import judged_models as models
from tests.audit.judged_models import ALPHA, BETA, BLOCKS, WIDTH

IDS = (torch.arange(2 * 9).reshape(2, 9) * 7) % models.WORDS
Make = Callable[[], nn.Module]


def judged(make: Make, rule: str = "auto", seed: int = 0) -> Judgement:
    torch.manual_seed(seed)
    return judge(audit(make(), IDS), rule=rule, with_twin=False)


def the(judgement: Judgement, kind: str) -> Finding:
    (found,) = [finding for finding in judgement.findings if finding.kind == kind]
    return found


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("name", models.HEALTHY)
def test_a_healthy_model_has_no_finding_above_info(name: str) -> None:
    make, rule, verdict = models.HEALTHY[name]
    found = judged(make, rule)
    assert [(f.kind, f.sentence) for f in found.findings if f.severity != "info"] == []
    assert found.verdict == verdict


def test_a_reset_gain_is_named_with_the_value_for_this_depth() -> None:
    for gains, named in (((1.0, 1.0), ("gain_mix", "gain_feed")), ((0.1, 1.0), ("gain_feed",))):
        found = judged(lambda gains=gains: models.Stack(lambda: models.Gained(*gains)), "layerscale")
        fault = the(found, "gate-not-as-declared")
        assert (fault.severity, fault.measured, fault.expected) == ("error", 1.0, 0.1)
        assert {name.rsplit(".", 1)[1] for name in fault.parameters if "gain" in name} == set(named)
        assert "0.1 at 4 blocks" in fault.sentence


def test_alpha_on_the_branch_is_told_with_both_coefficients() -> None:
    fault = the(judged(lambda: models.deepnorm(models.alpha_on_branch), "deepnorm"), "gate-not-as-declared")
    assert fault.severity == "error"
    assert (fault.measured, fault.expected) == (pytest.approx(ALPHA), pytest.approx(1 / ALPHA))
    assert fault.sentence.count(f"{ALPHA:.4g}") == 2


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize(("rule", "severity"), [("deepnorm", "error"), ("auto", "warning")])
def test_a_value_that_the_rule_scales_and_the_model_does_not(fused: bool, rule: str, severity: str) -> None:
    found = judged(lambda: models.deepnorm(fused=fused, value=1.0), rule)
    fault = the(found, "partial")
    assert (found.verdict, found.rule, fault.severity) == ("partial", "deepnorm", severity)
    assert fault.measured == pytest.approx(1 / BETA)
    assert {name.rsplit(".", 2)[1] for name in fault.parameters} == {"fused" if fused else "value"}


def test_modulations_are_gates_and_no_writers() -> None:
    torch.manual_seed(0)
    result = audit(models.Conditional(zero=False), IDS)
    assert result.identity.verdict == "proved"
    written = result.discovery.names.of(
        p for site in result.discovery.sites for w in site.writers for p in w.parameters
    )
    assert not any("modulation" in name for name in written)
    fault = the(judge(result, rule="rezero", with_twin=False), "gate-not-as-declared")
    assert (fault.severity, fault.expected) == ("error", 0.0)
    assert any("modulation" in name for name in fault.parameters)
    assert "inf" not in fault.sentence


def test_a_zero_modulation_is_named_and_learns_first() -> None:
    found = the(judged(lambda: models.Conditional(zero=True)), "zero-by-construction")
    assert sum("modulation" in name for name in found.parameters) == BLOCKS
    learning, waiting = found.sentence.split("have a gradient.")
    assert "modulation" in learning.rsplit(". ", 1)[1]
    assert "mix.output" in waiting


@pytest.mark.parametrize("name", ["gate", "up"])
def test_a_zero_matrix_inside_a_branch_is_named_with_who_learns(name: str) -> None:
    found = judged(lambda: models.zero_inside(name))
    fault = the(found, "zero-by-construction")
    assert fault.parameters == tuple(f"layers.{block}.feed.{name}.weight" for block in range(BLOCKS))
    # With a zero up projection the gate gets no gradient, and the other way round; the down matrix reads zeros.
    assert "layers.#.feed.down.weight (4)" in fault.sentence.split("have a gradient.")[1]
    assert "nothing is to change" not in the(found, "applied").sentence


@pytest.mark.parametrize("step", [models.overwritten, models.no_second_shortcut])
def test_a_stream_that_is_overwritten_is_lost_in_every_block(step: Callable[..., torch.Tensor]) -> None:
    found = judged(lambda: models.stack(step))
    fault = the(found, "stream-lost")
    assert fault.parameters == tuple(f"layers.{block}.feed.down.weight" for block in range(BLOCKS))
    assert (found.verdict, fault.severity) == ("stream-lost", "error")
    assert "dead-branch" not in [finding.kind for finding in found.findings]


def test_a_norm_on_the_stream_at_some_additions_is_named_with_its_places() -> None:
    found = judged(lambda: models.stack(models.half_behind_norm))
    fault = the(found, "mixed-topology")
    assert (found.verdict, fault.severity, fault.measured) == ("mixed-topology", "warning", float(BLOCKS))
    assert all(f"block.{block}.after_attention" in fault.sentence for block in range(BLOCKS))
    assert set(fault.parameters) == {f"layers.{b}.second.{p}" for b in range(BLOCKS) for p in ("weight", "bias")}


def test_a_table_drawn_at_one_and_multiplied_by_the_root_of_the_width() -> None:
    fault = the(judged(lambda: models.stack(table=1.0, factor=WIDTH**0.5)), "embedding-scale")
    assert fault.severity == "warning"
    assert fault.measured == pytest.approx(WIDTH**0.5, rel=0.1)
    assert fault.parameters == ("table.weight",)


def test_a_stream_in_a_coarser_type_than_the_weights() -> None:
    fault = the(judged(models.narrow), "narrow-stream")
    assert fault.severity == "warning"
    assert "bfloat16" in fault.sentence


def test_a_fan_in_of_half_the_heads() -> None:
    fault = the(judged(lambda: models.fewer_heads(2), "gpt2"), "wrong-fan-in")
    assert (fault.severity, fault.measured) == ("error", pytest.approx(2**0.5, rel=0.03))
    assert {name.rsplit(".", 2)[1] for name in fault.parameters} == {"output"}
    assert "16, where their fan_in is 32" in fault.sentence


@pytest.mark.parametrize(("parts", "axis"), [(2, 0), (4, 0), (2, 1)])
def test_equal_shards_of_one_matrix(parts: int, axis: int) -> None:
    fault = the(judged(lambda: models.repeated(parts, axis)), "equal-shards")
    assert (fault.severity, len(fault.parameters), fault.measured) == ("error", BLOCKS, 1.0)
    assert f"along axis {axis}" in fault.sentence


def test_parts_are_equal_only_where_they_hold_one_draw() -> None:
    torch.manual_seed(0)
    matrix = torch.randn(24, 32)
    assert equal_parts(matrix) is None
    assert equal_parts(torch.ones(24, 32)) is None
    assert equal_parts(torch.cat([matrix, 2 * matrix])) == (2, 0, 1)
    assert equal_parts(torch.cat([matrix, torch.randn(24, 32), matrix])) == (3, 0, 2)
    assert equal_parts(matrix[:, 0]) is None


def test_scaled_readers_do_not_disguise_the_base() -> None:
    found = judged(models.clip_like)
    fault = the(found, "on-reader")
    assert fault.severity == "warning"
    roles = {name.rsplit(".", 2)[1] for name in fault.parameters}
    assert roles == {"query", "key", "value", "output"}
    assert all("feed.down" not in name for finding in found.findings for name in finding.parameters)


def test_a_guess_yields_no_error() -> None:
    for make in (models.clip_like, lambda: models.fewer_heads(2), lambda: models.deepnorm(value=1.0)):
        assert "error" not in [finding.severity for finding in judged(make).findings]


def document(name: str, rule: str = "auto") -> Any:
    task = {"kind": "callable", "source": f"tests.audit.judged_models:{name}", "seed": 0, "batch": None, "rule": rule}
    return run_task(task, memory=None, seconds=60)["conformance"]


def test_a_callable_that_takes_a_depth_is_built_at_a_second_one() -> None:
    depths = {"macaron": [2, 4], "deepening": [4, 8], "counted_as_eight": [4, 8], "no_depth": [4]}
    found = {name: document(name) for name in depths}
    assert {name: [row["blocks"] for row in found[name]["depths"]] for name in depths} == depths
    assert [found[name]["verdict"] for name in ("macaron", "deepening")] == ["no-rule-declared", "applied"]
    (fault,) = [row for row in document("counted_as_eight", "gpt2")["findings"] if row["severity"] == "error"]
    assert (fault["kind"], fault["measured"]) == ("depth-convention", pytest.approx(2**-0.5, rel=0.03))
    assert "the depth is not counted at all" in fault["sentence"]


def test_only_a_whole_number_named_as_a_depth_is_one() -> None:
    names = ("macaron", "deepening", "counted_as_eight", "no_depth", "stack", "missing")
    told = [depth_argument(f"tests.audit.judged_models:{name}") for name in names]
    assert told == [("depth", True), ("num_layers", False), ("n_layer", True), *[(None, True)] * 3]
