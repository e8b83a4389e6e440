"""The symbolic plan: published counts, a closed form written apart, exactness, and nothing allocated."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core import __version__
from core.decoder.config import DecoderConfig
from core.errors import ConfigError
from core.plan.arithmetic import plan_document
from core.plan.presets import LAPTOP, PRESETS
from core.plan.request import PlanRequest, biases, query_key_gains
from tests.support import no_runaway

GOLDEN = Path(__file__).parents[1] / "golden"
PUBLISHED = json.loads((GOLDEN / "parameter_counts.json").read_text())["counts"]
PLAN = json.loads((GOLDEN / "worked_values.json").read_text())["plan"]
SIZES = st.integers(1, 2**53)


@st.composite
def configs(draw: st.DrawFn) -> DecoderConfig:
    kv_heads, group = draw(st.integers(1, 2**20)), draw(st.integers(1, 2**20))
    return DecoderConfig(
        blocks=draw(SIZES), width=draw(SIZES), heads=kv_heads * group, kv_heads=kv_heads,
        head_dim=2 * draw(st.integers(1, 2**20)), ff_width=draw(SIZES), vocabulary=draw(SIZES), positions=draw(SIZES),
        norm=draw(st.sampled_from(["rmsnorm", "layernorm"])), mlp=draw(st.sampled_from(["swiglu", "gelu"])),
        position_encoding=draw(st.sampled_from(["rope", "learned"])), tied=draw(st.booleans()),
        bias=draw(st.booleans()),
    )  # fmt: skip


def closed_form(config: DecoderConfig) -> int:
    """The count as one writes it on paper, from the sizes alone."""
    d, f, v = config.width, config.ff_width, config.vocabulary
    q, kv = config.heads * config.head_width, config.key_value_heads * config.head_width
    gated = config.mlp == "swiglu"
    norm = d * (2 if config.norm == "layernorm" else 1)
    block = 2 * norm + 2 * d * q + 2 * d * kv + (3 if gated else 2) * d * f
    if config.bias:
        block += q + 2 * kv + d + (2 if gated else 1) * f + d
    total = v * d + config.blocks * block + norm
    total += config.positions * d if config.position_encoding == "learned" else 0
    return total + (0 if config.tied else v * d)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_have_the_published_counts(name: str) -> None:
    assert plan_document(PRESETS[name].request)["parameters"] == PUBLISHED[name]


def test_every_published_count_has_a_preset() -> None:
    assert set(PUBLISHED) == set(PRESETS)


def test_the_laptop_plan() -> None:
    document = plan_document(PRESETS[LAPTOP].request)
    config = document["config"]
    for ours, published in [("heads", "query_heads"), ("positions", "context")]:
        assert config[ours] == PLAN[published]
    for key in ("vocabulary", "width", "blocks", "kv_heads", "ff_width"):
        assert config[key] == PLAN[key]
    assert document["parameters"] == PLAN["parameters"]
    assert document["factor"] == 1 / math.sqrt(8)
    assert (document["version"], document["tied"], document["executed"]) == (__version__, True, False)
    assert document["context"] == 512
    assert document["residual_states"] == 17
    rows = {row["pattern"]: row for row in document["by_role"]}
    key = rows["blocks.{b}.attention.key.weight"]
    assert (key["tensors"], key["shape"], key["coordinates"]) == (8, [512, 128], 8 * 512 * 128)
    assert document["parameter_tensors"] == 1 + 8 * 9 + 1


def test_bytes_by_dtype_are_named_and_exact() -> None:
    document = plan_document(PRESETS[LAPTOP].request)
    parameters, residual = PLAN["parameters"], 17 * 512 * 512
    for dtype, size in {"float64": 8, "float32": 4, "bfloat16": 2}.items():
        assert document["bytes"][dtype] == {
            "weights": size * parameters,
            "gradients": size * parameters,
            "adam_moments_float32": 2 * 4 * parameters,
            "residual_stream": size * residual,
        }
    assert set(document["bytes_meaning"]) == set(document["bytes"]["float32"])


def test_context_changes_the_residual_stream_alone() -> None:
    request = PRESETS["qwen3-8b"].request
    long, short = plan_document(request), plan_document(request, context=1)
    assert short["context"] == 1
    assert long["bytes"]["float32"]["residual_stream"] == 40960 * short["bytes"]["float32"]["residual_stream"]
    for key in set(long) - {"context", "bytes"}:
        assert long[key] == short[key]


@given(config=configs())
@settings(deadline=None)
def test_any_size_counts_exactly(config: DecoderConfig) -> None:
    document = plan_document(config)
    expected = closed_form(config)
    assert document["parameters"] == (expected if expected <= 2**53 else str(expected))
    assert sum(int(row["coordinates"]) for row in document["by_role"]) == expected
    assert_formula_adds_up(document, expected)
    assert int(document["bytes"]["bfloat16"]["weights"]) == 2 * expected
    assert_exact_json(document)


def assert_formula_adds_up(document: dict[str, Any], expected: int) -> None:
    """The printed formula is arithmetic that anyone can repeat."""
    left, right = document["formula"].split(" = ")
    assert set(left) <= set("0123456789×+() ")
    assert eval(left.replace("×", "*")) == expected == int(right)


def assert_exact_json(value: object) -> None:
    """No integer beyond 2^53 and no nonfinite number leaves as a JSON number."""
    for key, leaf in _leaves(json.loads(json.dumps(value, allow_nan=False))):
        assert not isinstance(leaf, int) or abs(leaf) <= 2**53, key


def _leaves(value: Any, key: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [leaf for name, inner in value.items() for leaf in _leaves(inner, name)]
    if isinstance(value, list):
        return [leaf for inner in value for leaf in _leaves(inner, key)]
    return [(key, value)]


def test_requests_can_key_a_cache() -> None:
    requests = {preset.request for preset in PRESETS.values()}
    assert len(requests) == len(PRESETS)


def test_extra_rows_of_a_family_are_counted_in_every_block() -> None:
    config = PRESETS[LAPTOP].request.config
    extra = biases(config, ("query", "key", "value")) + query_key_gains(config)
    assert [(spec.name, spec.shape) for spec in extra] == [
        ("blocks.{b}.attention.query.bias", (512,)),
        ("blocks.{b}.attention.key.bias", (128,)),
        ("blocks.{b}.attention.value.bias", (128,)),
        ("blocks.{b}.attention.query_norm.gain", (64,)),
        ("blocks.{b}.attention.key_norm.gain", (64,)),
    ]
    document = plan_document(PlanRequest(config=config, extra=extra))
    assert document["parameters"] == PLAN["parameters"] + 8 * (512 + 128 + 128 + 64 + 64)
    assert_formula_adds_up(document, document["parameters"])
    everywhere = biases(config, ("query", "key", "value", "output", "gate", "up", "down"))
    with_flag = DecoderConfig(**{**config.document(), "bias": True})
    assert plan_document(PlanRequest(config=config, extra=everywhere))["parameters"] == closed_form(with_flag)


@pytest.mark.parametrize("context", [0, -1, True, 2.0, "512", 2**53 + 1, 10**5000], ids=range(7))
def test_a_context_that_cannot_be_is_refused(context: Any) -> None:
    with pytest.raises(ConfigError, match="context is"):
        plan_document(PRESETS[LAPTOP].request, context=context)


IMPOSSIBLE: list[dict[str, Any]] = [
    {"blocks": 0}, {"blocks": -1}, {"blocks": True}, {"blocks": "8"}, {"width": 2**53 + 1}, {"width": 10**5000},
    {"width": 5, "heads": 2}, {"width": 6, "heads": 2}, {"heads": 3, "kv_heads": 2, "width": 12},
    {"kv_heads": -(10**5000)}, {"head_dim": (10**5000,)}, {"rope_base": 10**400}, {"rope_base": float("nan")},
    {"rms_epsilon": 0.0}, {"norm": "batchnorm"}, {"norm": 10**5000}, {"mlp": None}, {"tied": 10**5000}, {"bias": 1},
]  # fmt: skip


@pytest.mark.parametrize("sizes", IMPOSSIBLE, ids=range(len(IMPOSSIBLE)))
def test_decoders_that_cannot_be_are_refused_in_one_sentence(sizes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        DecoderConfig(**sizes)
    assert str(caught.value).endswith(".")
    assert len(str(caught.value)) < 300


def test_learned_positions_bound_the_context() -> None:
    with pytest.raises(ConfigError, match="exceeds the 1024 learned positions"):
        plan_document(PRESETS["gpt2"].request, context=1025)


@pytest.mark.parametrize("blocks", [126, 10**9])
def test_huge_decoders_take_neither_time_nor_memory(blocks: int) -> None:
    base = PRESETS["llama-3.1-405b"].request.config.document()
    tracemalloc.start()
    with no_runaway():
        document = plan_document(DecoderConfig(**{**base, "blocks": blocks}))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert int(document["parameters"]) == closed_form(DecoderConfig(**{**base, "blocks": blocks}))
    assert isinstance(document["parameters"], str) == (blocks == 10**9)
    assert peak < 1_000_000


def test_planning_needs_no_torch() -> None:
    script = (
        "import sys, core.plan.presets as p, core.plan.arithmetic as l, core.plan.model_config; "
        "l.plan_document(p.PRESETS['llama-3.1-405b'].request); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parents[2], check=False).returncode == 0
