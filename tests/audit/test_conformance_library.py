"""Conformance of models of the transformers library, built small from their own configurations."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from core.audit.initialization.judge import Judgement, judge, judged_document
from core.audit.report.golden import check_golden
from core.audit.run import audit
from core.audit.trace.inputs import random_batch
from core.decoder.config import DecoderConfig
from tests.audit.drawn import kinds
from tests.audit.plain import PlainDecoder
from tests.audit.test_own_decoder import weights_of

transformers = pytest.importorskip("transformers")
LLAMA = {
    "hidden_size": 64, "intermediate_size": 172, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "vocab_size": 128,
}  # fmt: skip
GPT = {
    "n_layer": 4, "n_embd": 64, "n_head": 4, "n_positions": 64, "vocab_size": 128, "bos_token_id": 0, "eos_token_id": 0,
}  # fmt: skip
MLA = {
    "q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 16, "head_dim": 8,
    "num_key_value_heads": 4,
}  # fmt: skip


def built(name: str, seed: int = 0, **settings: Any) -> Any:
    config = getattr(transformers, f"{name}Config")(**settings)
    head = "ForCausalImageModeling" if name == "ImageGPT" else "LMHeadModel" if name == "GPT2" else "ForCausalLM"
    state = torch.get_rng_state()
    torch.manual_seed(seed)
    model = getattr(transformers, name + head)._from_config(config, attn_implementation="eager", dtype=torch.float32)
    torch.set_rng_state(state)
    return model


def judged(model: Any, **options: Any) -> Judgement:
    return judge(audit(model, random_batch(64, 0)), **options)


@pytest.mark.parametrize(("name", "rule"), [("GPT2", "gpt2"), ("GPT2", "auto"), ("GPTBigCode", "gpt2")])
def test_gpt2_meets_its_rule_at_two_depths(name: str, rule: str) -> None:
    judgement = judged(built(name, **GPT), rule=rule)
    assert kinds(judgement) == ["applied", "tied"]
    assert judgement.rule == "gpt2"
    assert [row["blocks"] for row in judgement.document()["depths"]] == [4, 8]
    row = judgement.document()["depths"][0]["ratios"]
    assert list(row.values()) == pytest.approx([1, 1], rel=0.03)
    down = next(m for m in judgement.resolution.first.stats.writers if m.name.endswith("mlp.c_proj.weight"))  # type: ignore[union-attr]
    assert (down.fan_in, down.fan_out) == (256, 64)


def test_a_golden_file_of_an_older_library_shows_what_changed() -> None:
    """Kept from 5.14.1, which left GPT-2's writers at the base; nothing but the two writers' scale is another."""
    document = judged_document(audit(built("GPT2", **{**GPT, "n_embd": 32, "vocab_size": 96})), rule="gpt2")
    changes = check_golden("tests/golden/gpt2-transformers-5.14.1.json", document)
    assert changes is not None
    assert changes[0] == "verdict was 'absent' and is 'applied'"
    writers = [f"transformer.h.{b}.{part}.c_proj.weight" for b in range(4) for part in ("attn", "mlp")]
    for name in writers:
        assert f"finding absent on {name} is gone" in changes
        (change,) = (text for text in changes if text.startswith(f"the std of {name} "))
        assert float(change.rsplit(", ", 1)[1].split()[0]) == pytest.approx(8**-0.5, rel=0.05)
    assert not any("additions" in change or "distribution" in change for change in changes)


def test_llama_declares_no_rule_and_a_declared_one_is_absent() -> None:
    model = built("Llama", **LLAMA)
    assert kinds(judged(model)) == ["no-rule-declared"]
    finding = judged(model, rule="gpt2").findings[0]
    assert finding.kind == "absent"
    assert finding.measured == pytest.approx(math.sqrt(8), rel=0.01)


@pytest.mark.parametrize(("blocks", "ratio"), [(2, 2.0), (8, 4.0)])
@pytest.mark.parametrize("rule", ["gpt2", "auto"])
def test_nanochat_scales_one_writer_of_two(blocks: int, ratio: float, rule: str) -> None:
    model = built("NanoChat", **{**LLAMA, "num_hidden_layers": blocks})
    document = judged_document(audit(model), rule=rule)
    (finding,) = document["conformance"]["findings"]
    assert finding["kind"] == "partial"
    assert finding["parameters"] == [f"model.layers.{block}.mlp.fc2.weight" for block in range(blocks)]
    for row in document["writers"]:
        wanted = ratio if "fc2" in row["name"] else 1.0
        assert row["ratio"] == pytest.approx(wanted, rel=row["tolerance"])
        assert row["declared_std"] == pytest.approx(0.02 / math.sqrt(2 * blocks))


@pytest.mark.parametrize(
    ("name", "settings", "blocks", "factor"),
    [
        ("Granite", {"residual_multiplier": 0.22}, 4, 0.22),
        ("MiniCPM3", {"scale_depth": 1.4, **MLA}, 4, 0.70),
        ("MiniCPM3", {"scale_depth": 1.4, **MLA}, 16, 0.35),
    ],
)
def test_forward_coefficients_are_scaling(name: str, settings: dict[str, Any], blocks: int, factor: float) -> None:
    judgement = judged(built(name, **{**LLAMA, **settings, "num_hidden_layers": blocks}))
    assert judgement.verdict == "no-rule-declared"
    assert f"by {factor:.4g}" in judgement.findings[0].sentence
    assert judgement.resolution is not None
    assert all(m.forward == pytest.approx(factor, abs=1e-6) for m in judgement.resolution.first.stats.writers)


@pytest.mark.parametrize("name", ["Olmo2", "Gemma2"])
def test_a_norm_on_the_branch_output(name: str) -> None:
    model = built(name, **{**LLAMA, "initializer_range": 0.125, "head_dim": 16})
    assert "invisible-after-norm" not in kinds(judged(model))
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter_name.endswith(("o_proj.weight", "down_proj.weight")):
                parameter.mul_(0.25)
    judgement = judged(model)
    assert judgement.verdict == "invisible-after-norm"
    assert len(judgement.findings[0].parameters) == 8
    assert judgement.findings[0].measured == pytest.approx(0.25, rel=0.05)


def test_small_branches_in_the_regime_of_epsilon_are_told() -> None:
    judgement = judged(built("Olmo2", **LLAMA), rule="gpt2")
    assert judgement.verdict == "invisible-after-norm"
    assert any("epsilon" in note for note in judgement.notes)


def test_imagegpt_ignores_its_range_in_the_readers() -> None:
    judgement = judged(built("ImageGPT", initializer_range=0.1, **GPT), rule="gpt2")
    assert kinds(judgement) == ["range-ignored", "applied"]
    assert all("c_attn" in name or "c_fc" in name for name in judgement.findings[0].parameters)
    assert judgement.resolution is not None
    first = judgement.resolution.first.stats
    writer, reader = (next(m.weights.std for m in found) for found in (first.writers, first.readers))
    assert writer / reader == pytest.approx(1.77, rel=0.05)


def test_a_model_changed_after_it_was_built_is_judged_by_what_it_holds() -> None:
    """Its configuration builds another model at another depth, which would say nothing of this one."""
    model = built("GPT2", **GPT)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("mlp.c_proj.weight"):
                parameter.mul_(math.sqrt(8))
    judgement = judged(model, rule="gpt2")
    assert judgement.verdict == "partial"
    assert len(judgement.document()["depths"]) == 1
    assert any("builds it anew" in note for note in judgement.notes)


def test_our_own_decoder_meets_its_recipe() -> None:
    model = own_decoder(0, blocks=4)
    for rule in ("depth-scaled", "auto"):
        judgement = judged(model, rule=rule)
        assert (judgement.rule, judgement.verdict) == ("depth-scaled", "applied")
        assert judgement.document()["base"]["law"] == "sqrt(2/(fan_in+fan_out))"


def own_decoder(seed: int, blocks: int) -> PlainDecoder:
    """The engine's weights, depth-scaled Xavier, in a plain module."""
    config = DecoderConfig(blocks=blocks, width=32, heads=4, kv_heads=2, ff_width=64, vocabulary=64, positions=16)
    return PlainDecoder(config, weights_of(config, "depth-scaled", seed))


@pytest.mark.heavy
@pytest.mark.parametrize("control", ["Llama", "GPT2", "GPTBigCode", "own"])
def test_healthy_models_have_no_finding_above_info(control: str) -> None:
    """Each control of a hundred seeds, with its rule where it has one."""
    rule = {"Llama": "auto", "own": "depth-scaled"}.get(control, "gpt2")
    gpt = {**GPT, "n_embd": 32, "n_layer": 2}
    llama = {**LLAMA, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    for seed in range(100):
        model = (
            own_decoder(seed, blocks=3)
            if control == "own"
            else built(control, seed, **(llama if control == "Llama" else gpt))
        )
        judgement = judged(model, rule=rule)
        assert {f.severity for f in judgement.findings} == {"info"}, (seed, judgement.findings)
        assert judgement.verdict == ("no-rule-declared" if rule == "auto" else "applied")
