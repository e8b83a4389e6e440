"""Health of a model made narrow: its reduced twin keeps the true products, and has the true model's ratios."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import geometric_mean
from typing import Any

import pytest
import torch
from torch import nn

from core.audit.intake.hub import allowed, built_config, built_model, library, model_class_of
from core.audit.intake.spreads import drawn_matrices, exponents, kind, near_half
from core.audit.intake.twin import twin_settings
from core.audit.sandbox import health_twin
from core.audit.sandbox.tasks import build_target
from core.audit.trace.inputs import random_batch
from core.decoder.base_draw import BaseDraw
from core.decoder.batch import Batch
from core.decoder.twin import twin_for_rows
from core.errors import AuditError
from core.health.arms import observe_arms
from core.plan.observed_config import ObservedModel, observed_preset
from core.recipes.catalogue import recipe
from tests.audit.plain_ratios import ratios
from tests.audit.test_build import task

SMALL = {"vocab_size": 1200, "hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}  # fmt: skip
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": SMALL,
    "gemma": {**SMALL, "head_dim": 64},
    "mixtral": {**SMALL, "num_local_experts": 4},
    "gpt2": {"vocab_size": 1200, "n_embd": 128, "n_layer": 2, "n_head": 4, "n_positions": 64},
    "jamba": {**SMALL, "num_experts": 2, "attn_layer_period": 2, "attn_layer_offset": 1, "use_mamba_kernels": False},
}


def true_model(name: str, seed: int = 3, **changes: Any) -> nn.Module:
    library()
    model_class = model_class_of(name)
    config = built_config(model_class.config_class, {**FAMILIES[name], **changes})
    return built_model(model_class, config, seed=seed, max_parameters=2**26)


def reduced(name: str, batch: Batch | None = None) -> Any:
    return health_twin._reduced(model_class_of(name), FAMILIES[name], batch or random_batch(500, 0), 0)


@pytest.mark.parametrize("name", FAMILIES)
def test_each_matrix_keeps_the_true_product(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kind of matrix is pooled over its blocks; the standard deviation of n values is known to 1 / sqrt(2n)."""
    pytest.importorskip("transformers")
    monkeypatch.setattr(health_twin, "WIDEST", 64)
    true, found = true_model(name), reduced(name)
    twin = found.discovery.guard.model
    products = [pooled_products(model) for model in (true, twin)]
    assert products[0].keys() == products[1].keys()
    for matrix, (wanted, count) in products[0].items():
        value, own = products[1][matrix]
        assert value == pytest.approx(wanted, rel=5 / math.sqrt(2 * min(count, own))), matrix
    assert (found.document["true"]["width"], found.document["twin"]["width"]) == (128, 64)
    assert found.document["true"]["parameters"] == sum(values.numel() for values in true.parameters())


def pooled_products(model: nn.Module) -> dict[str, tuple[float, int]]:
    """std * sqrt(fan_in) by kind of matrix, with the number of its values; of embeddings what the stream gets."""
    found: dict[str, tuple[float, int]] = {}
    for name, matrix in drawn_matrices(model):
        if abs(float(matrix.values.mean())) < 0.1 * float(matrix.values.std()):
            scale = math.sqrt(matrix.fan_in)
            if matrix.embeds:
                scale = float(getattr(model.get_submodule(name.rpartition(".")[0]), "embed_scale", 1.0))
            square, count = float(matrix.values.double().square().sum()) * scale**2, matrix.values.numel()
            before, more = found.get(kind(name), (0.0, 0))
            found[kind(name)] = (before + square, more + count)
    return {name: (math.sqrt(square / count), count) for name, (square, count) in found.items()}


@pytest.mark.parametrize(
    ("settings", "sizes"),
    [
        ({"hidden_size": 4096, "num_attention_heads": 32, "intermediate_size": 11008},
         {"hidden_size": 256, "num_attention_heads": 16, "intermediate_size": 688}),
        ({"hidden_size": 2304, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
          "query_pre_attn_scalar": 256, "vocab_size": 256000},
         {"hidden_size": 256, "head_dim": 28, "query_pre_attn_scalar": 28, "vocab_size": 1000}),
        ({"hidden_size": 2048, "num_attention_heads": 32, "kv_lora_rank": 512, "qk_rope_head_dim": 64},
         {"hidden_size": 256, "num_attention_heads": 16, "kv_lora_rank": 64, "qk_rope_head_dim": 16}),
        ({"hidden_size": 512, "num_attention_heads": 2**39, "num_key_value_heads": 1, "head_dim": 64,
          "q_lora_rank": 0},
         {"hidden_size": 256, "num_attention_heads": 4096, "head_dim": 2**32}),
        ({"hidden_size": 1024, "num_attention_heads": 16, "eos_token_id": 2003, "num_experts": 8, "d_state": 16},
         {"hidden_size": 256, "eos_token_id": 996}),
    ],
)  # fmt: skip
def test_sizes_go_down_in_proportion(settings: dict[str, Any], sizes: dict[str, Any]) -> None:
    assert twin_settings(settings, 256) == sizes


def test_a_law_of_the_width_that_is_no_root_is_refused() -> None:
    """A standard deviation that falls with the fourth root of the width, and one that falls with the root."""

    def drawn(width: int, power: float) -> nn.Module:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(width, 500, bias=False))
        nn.init.normal_(model[0].weight, std=0.02 * width**power)
        return model

    assert exponents(drawn(64, -0.5), drawn(128, -0.5)) == {"#.weight": -0.5}
    with pytest.raises(AuditError, match=r"the standard deviation of #.weight goes with the width to the power -0.2"):
        exponents(drawn(64, -0.25), drawn(128, -0.25))
    with pytest.raises(AuditError, match="No reduced twin tells"):
        near_half(math.nan, "x")


def test_shrinking_measures_health_at_the_true_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child's own way: conformance at the small widths of ever, health and the repaired twin on the reduced one."""
    pytest.importorskip("transformers")
    from core.audit.sandbox.tasks import judged_document, run_audit

    monkeypatch.setattr(health_twin, "WIDEST", 64)
    settings = {"model_type": "llama", **SMALL}
    wanted = task(settings, shrink=True)
    target = build_target(wanted)
    assert target.true is not None
    assert target.true[1]["hidden_size"] == 128
    document = judged_document(run_audit(target, wanted), rule="gpt2", source=target.source)
    assert document["writers"][0]["fan_in"] == 32
    assert document["conformance"]["verdict"] == "absent"
    assert document["reduced_twin"]["twin"]["width"] == 64
    assert document["health"] is not None
    assert document["twin"] is not None
    assert document["additions"][0]["state_rms"] == pytest.approx(document["health"]["sites"][1]["activation_rms"])
    assert "reduced twin of width 64" in document["model"]["notes"][-1]
    absolute = judged_document(run_audit(target, wanted), rule="wang", source=target.source)
    assert absolute["twin"] is None
    assert "sets the standard deviation by the width" in absolute["twin_refusal"]


def test_a_twin_that_cannot_be_built_is_no_health(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    from core.audit.sandbox.tasks import run_audit

    monkeypatch.setattr(health_twin, "LARGEST", 10)
    wanted = task({"model_type": "llama", **SMALL}, shrink=True)
    result = run_audit(build_target(wanted), wanted)
    assert result.observation is None
    assert result.health_refusal == (
        "With every narrow width the model is too large to be run at once, so its health is not told."
    )


def test_a_narrow_model_is_its_own_twin() -> None:
    """Only its vocabulary shrinks; no law of the width is asked for."""
    pytest.importorskip("transformers")
    settings = {**SMALL, "hidden_size": 24, "intermediate_size": 40}
    found = health_twin._reduced(model_class_of("llama"), settings, random_batch(500, 0), 0)
    assert found.document["twin"]["width"] == 24
    assert set(found.document["std_over_own_std"].values()) == {1.0}


SEEDS = range(4)
IDS = torch.tensor([row[0] for row in [random_batch(1000, 5, rows=1, positions=33).inputs.tolist()]])


def averaged(found: list[dict[str, float]]) -> dict[str, float]:
    return {name: geometric_mean(one[name] for one in found) for name in found[0]}


def engine_ratios(model: ObservedModel, width: int) -> dict[str, float]:
    """The same of this project's twin, over the same rows."""
    rows = Batch.from_rows(IDS[:, :-1].tolist(), IDS[:, 1:].tolist())
    config = twin_for_rows(model.config, width, rows)
    draw = BaseDraw(config, SEEDS, model.distribution)
    (arm,) = observe_arms(draw, [recipe(model.recipe)], rows, dtype="float32")
    found = arm.observation
    return averaged([
        {"activation": a[-1], "adjoint": g[0], "activation from block 1": a[-1] / a[2], "adjoint from block 1": g[2]}
        for a, g in zip(found.activation_ratio.tolist(), found.adjoint_ratio.tolist(), strict=True)
    ])  # fmt: skip


def plain_llama(width: int, seed: int) -> dict[str, float]:
    """LLaMA-2-7B's layout of transformers at `width`, its products kept by hand: every spread but the embedding's."""
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=1000, hidden_size=width, intermediate_size=11008 * width // 4096, num_hidden_layers=32,
        num_attention_heads=16, rms_norm_eps=1e-5, initializer_range=0.02 * math.sqrt(4096 / width),
    )  # fmt: skip
    torch.manual_seed(seed)
    model = transformers.LlamaForCausalLM(config)
    nn.init.normal_(model.model.embed_tokens.weight, std=0.02)
    return ratios(model, model.model.layers, IDS)


@pytest.mark.heavy
@pytest.mark.parametrize("width", [256, 512])
def test_llama_2_7b_is_what_plain_twins_of_it_are(width: int) -> None:
    """32 blocks, std 0.02, unscaled: large beside its tiny embedding, moderate from the end of the first block on."""
    plain = averaged([plain_llama(width, seed) for seed in SEEDS])
    found = engine_ratios(observed_preset("llama-2-7b"), width)
    wanted = {"activation": 680, "adjoint": 7400, "activation from block 1": 5.8, "adjoint from block 1": 27}
    for name, value in found.items():
        assert value == pytest.approx(plain[name], rel=0.15), name
        assert value == pytest.approx(wanted[name], rel=0.15), name


@pytest.mark.heavy
def test_llama_2_7b_with_the_std_kept_answers_the_opposite() -> None:
    """Which is why a twin keeps the product: at width 256 the gradient ratio would be 29."""
    llama = observed_preset("llama-2-7b")
    kept = replace(llama.config, width=256, heads=16, kv_heads=16, head_dim=16, ff_width=688, vocabulary=1000)
    found = engine_ratios(replace(llama, config=kept), 256)
    assert found["adjoint"] < 60 < 5000 < engine_ratios(llama, 256)["adjoint"]


@pytest.mark.heavy
def test_gpt2_small_and_its_twin_are_within_ten_percent() -> None:
    transformers = pytest.importorskip("transformers")
    true = []
    for seed in SEEDS:
        torch.manual_seed(seed)
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config())
        true.append(ratios(model, model.transformer.h, IDS))
    plain = averaged(true)
    assert plain["activation"] == pytest.approx(10.8, rel=0.1)
    assert plain["adjoint"] == pytest.approx(10.2, rel=0.1)
    for name, value in engine_ratios(observed_preset("gpt2"), 256).items():
        assert value == pytest.approx(plain[name], rel=0.1), name


GEMMA_2_2B = {"hidden_size": 2304, "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4,
              "head_dim": 256, "intermediate_size": 9216, "vocab_size": 256000,
              "query_pre_attn_scalar": 256}  # fmt: skip


def plain_gemma(seed: int) -> dict[str, float]:
    """Gemma 2 2B of transformers at width 288, an eighth; its embedding's multiplier is the root of the width."""
    transformers = pytest.importorskip("transformers")
    config = transformers.Gemma2Config(
        vocab_size=1000, hidden_size=288, intermediate_size=1152, num_hidden_layers=26, num_attention_heads=8,
        num_key_value_heads=4, head_dim=32, query_pre_attn_scalar=32, initializer_range=0.02 * math.sqrt(8),
        attn_implementation="eager",
    )  # fmt: skip
    torch.manual_seed(seed)
    model = transformers.Gemma2ForCausalLM(config)
    return ratios(model, model.model.layers, IDS)


@pytest.mark.heavy
def test_gemma_2_2b_goes_through_the_audit_s_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAMILIES, "gemma2", allowed(model_class_of("gemma2").config_class, GEMMA_2_2B)[0])
    plain = averaged([plain_gemma(seed) for seed in SEEDS])
    rows = Batch.from_rows(IDS[:, :-1].tolist(), IDS[:, 1:].tolist())
    own = []
    for seed in SEEDS:
        found = health_twin._reduced(model_class_of("gemma2"), FAMILIES["gemma2"], rows, seed)
        model = found.discovery.guard.model
        own.append(ratios(model, model.model.layers, IDS))
    twin = averaged(own)
    for name, wanted in (("activation", 7.5), ("adjoint", 21)):
        assert twin[name] == pytest.approx(plain[name], rel=0.15), name
        assert twin[name] == pytest.approx(wanted, rel=0.15), name
