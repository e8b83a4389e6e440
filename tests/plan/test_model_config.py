"""Reading `config.json`: counts against models that transformers builds on no memory, and one sentence a refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import ConfigError, DepthscopeError, StorageError
from core.plan.arithmetic import plan_document
from core.plan.model_config import FAMILIES, read_model_config
from core.plan.presets import PRESETS

LLAMA = {
    "model_type": "llama", "vocab_size": 101, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3,
    "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0, "tie_word_embeddings": False, "hidden_act": "silu",
}  # fmt: skip
GPT2: dict[str, Any] = {
    "model_type": "gpt2", "vocab_size": 97, "n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": 32,
    "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
}  # fmt: skip

# Keyword arguments of each family's configuration class; together they reach every row a family can have.
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "gpt2": [{}, {"n_inner": 40}, {"tie_word_embeddings": False}],
    "llama": [{}, {"head_dim": 10}, {"attention_bias": True}, {"mlp_bias": True},
              {"attention_bias": True, "mlp_bias": True}, {"tie_word_embeddings": True}, {"num_key_value_heads": 6}],
    "mistral": [{}, {"head_dim": 16}],
    "qwen2": [{}, {"tie_word_embeddings": True}],
    "qwen3": [{"head_dim": 16}, {"head_dim": 8, "attention_bias": True, "tie_word_embeddings": True}],
}  # fmt: skip
CASES = [(family, variant) for family, variants in VARIANTS.items() for variant in variants]


def file_of(document: object) -> bytes:
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("family", "variant"), CASES, ids=lambda value: value if isinstance(value, str) else str(value)
)
def test_counts_equal_the_model_that_transformers_builds(family: str, variant: dict[str, Any], tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    sizes = {key: value for key, value in (GPT2 if family == "gpt2" else LLAMA).items() if key != "model_type"}
    if family != "gpt2":
        # The newer files hold the base inside rope_parameters.
        sizes["rope_parameters"] = {"rope_type": "default", "rope_theta": sizes.pop("rope_theta")}
    config = transformers.AutoConfig.for_model(family, **{**sizes, **variant})
    config.save_pretrained(tmp_path)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    request = read_model_config(tmp_path / "config.json")
    assert plan_document(request)["parameters"] == sum(parameter.numel() for parameter in model.parameters())
    assert plan_document(request)["parameter_tensors"] == tensors_here(family, len(list(model.parameters())))
    if family != "gpt2":
        assert request.config.rope_base == 500000.0


def tensors_here(family: str, theirs: int) -> int:
    """GPT-2 fuses query, key and value into one weight and one bias a block: four tensors more a block here."""
    return theirs + 4 * GPT2["n_layer"] if family == "gpt2" else theirs


PUBLISHED_FILES: dict[str, dict[str, Any]] = {
    "gpt2": {"model_type": "gpt2", "vocab_size": 50257, "n_ctx": 1024, "n_positions": 1024, "n_embd": 768,
             "n_layer": 12, "n_head": 12, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-05},
    "llama-2-7b": {"model_type": "llama", "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008,
                   "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
                   "hidden_act": "silu", "max_position_embeddings": 4096, "rms_norm_eps": 1e-05,
                   "rope_scaling": None, "tie_word_embeddings": False},
    "llama-3-8b": {"model_type": "llama", "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336,
                   "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
                   "hidden_act": "silu", "max_position_embeddings": 8192, "rms_norm_eps": 1e-05,
                   "rope_theta": 500000.0, "attention_bias": False, "tie_word_embeddings": False},
    "mistral-7b": {"model_type": "mistral", "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336,
                   "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
                   "hidden_act": "silu", "max_position_embeddings": 32768, "rms_norm_eps": 1e-05,
                   "rope_theta": 10000.0, "sliding_window": 4096, "tie_word_embeddings": False},
    "qwen2-7b": {"model_type": "qwen2", "vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944,
                 "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
                 "hidden_act": "silu", "max_position_embeddings": 131072, "rms_norm_eps": 1e-06,
                 "rope_theta": 1000000.0, "tie_word_embeddings": False},
    "qwen3-8b": {"model_type": "qwen3", "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 12288,
                 "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
                 "hidden_act": "silu", "max_position_embeddings": 40960, "rms_norm_eps": 1e-06,
                 "rope_theta": 1000000, "attention_bias": False, "tie_word_embeddings": False},
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED_FILES)
def test_a_released_file_is_the_preset(name: str) -> None:
    request, preset = read_model_config(file_of(PUBLISHED_FILES[name])), PRESETS[name].request
    assert (request.config, request.context, request.extra) == (preset.config, preset.context, preset.extra)


def test_qwen3_head_dim_is_not_width_over_heads() -> None:
    sizes = {**LLAMA, "model_type": "qwen3", "hidden_size": 64, "num_attention_heads": 8, "head_dim": 16}
    rows = {row["pattern"]: row["shape"] for row in plan_document(read_model_config(file_of(sizes)))["by_role"]}
    assert rows["blocks.{b}.attention.output.weight"] == [128, 64]
    assert rows["blocks.{b}.attention.key_norm.gain"] == [16]


def test_keys_left_out_take_the_family_s_values_and_are_named() -> None:
    minimal = {
        key: LLAMA[key]
        for key in ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    }
    llama = read_model_config(file_of({"model_type": "llama", **minimal}))
    assert llama.assumed["num_key_value_heads"] == llama.config.kv_heads == 6
    assert llama.assumed["head_dim"] == llama.config.head_dim == 8
    assert llama.assumed["max_position_embeddings"] == llama.config.positions == 2048
    assert llama.assumed["tie_word_embeddings"] is llama.config.tied is False
    assert plan_document(llama)["assumed"] == llama.assumed
    minimal["num_attention_heads"] = 8
    mistral = read_model_config(file_of({"model_type": "mistral", **minimal}))
    assert (mistral.config.kv_heads, mistral.config.positions) == (8, 131072)
    qwen3 = read_model_config(file_of({"model_type": "qwen3", **minimal, "num_key_value_heads": None}))
    assert (qwen3.config.head_dim, qwen3.config.kv_heads) == (128, 8)
    nested = read_model_config(file_of({"model_type": "llama", **minimal, "rope_parameters": {"rope_type": "default"}}))
    assert nested.assumed["rope_theta"] == nested.config.rope_base == 10000.0
    complete = {**LLAMA, "head_dim": None, "attention_bias": False, "mlp_bias": False}
    assert read_model_config(file_of(complete)).assumed == {}


@pytest.mark.parametrize("family", ["bloom", "mixtral", "gemma2", "", "LLAMA", 7, ["llama"], None, True, "x" * 9999])
def test_other_families_are_refused_by_name(family: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        read_model_config(file_of({**LLAMA, "model_type": family}))
    assert_sentence(caught.value)
    assert all(name in str(caught.value) for name in FAMILIES)
    if isinstance(family, str) and 0 < len(family) < 20:
        assert family in str(caught.value)


MALFORMED = [
    ({"num_hidden_layers": 0}, "num_hidden_layers in config.json is 0"),
    ({"num_hidden_layers": -1}, "num_hidden_layers in config.json is -1"),
    ({"num_hidden_layers": "32"}, "num_hidden_layers in config.json is '32'"),
    ({"num_hidden_layers": 2.0}, "num_hidden_layers in config.json is 2.0"),
    ({"num_hidden_layers": True}, "num_hidden_layers in config.json is true"),
    ({"num_hidden_layers": [32] * 9}, "num_hidden_layers in config.json is a list"),
    ({"hidden_size": None}, "hidden_size in config.json is null"),
    ({"hidden_size": 2**53 + 1}, "from 1 to 2^53"),
    ({"hidden_size": 50}, "not a multiple of heads 6"),
    ({"hidden_size": 50, "head_dim": None}, "not a multiple of heads 6"),
    ({"num_key_value_heads": 4}, "not a multiple of kv_heads 4"),
    ({"head_dim": 7}, "odd"),
    ({"head_dim": {}}, "head_dim in config.json is an object"),
    ({"tie_word_embeddings": 1}, "tie_word_embeddings in config.json is 1"),
    ({"tie_word_embeddings": "false"}, "true or false"),
    ({"attention_bias": None}, "attention_bias in config.json is null"),
    ({"rms_norm_eps": 0}, "rms_norm_eps in config.json is 0"),
    ({"rms_norm_eps": "1e-5"}, "positive finite"),
    ({"rope_theta": -1.0}, "rope_theta in config.json is -1.0"),
    ({"rope_parameters": 3}, "rope_parameters in config.json is 3"),
    ({"rope_parameters": {"rope_theta": False}}, "rope_theta in config.json is false"),
    ({"hidden_act": "relu"}, "hidden_act in config.json is 'relu'"),
    ({"hidden_act": ["silu"]}, "hidden_act in config.json is a list"),
]


@pytest.mark.parametrize(("change", "words"), MALFORMED)
def test_malformed_values_get_one_sentence(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_model_config(file_of({**LLAMA, **change}))
    assert words in str(caught.value)
    assert_sentence(caught.value)


@pytest.mark.parametrize("change", [{"add_cross_attention": True}, {"activation_function": "relu"}, {"n_inner": 0}])
def test_gpt2_refusals(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        read_model_config(file_of({**GPT2, **change}))


@pytest.mark.parametrize("key", ["vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers"])
def test_a_missing_size_is_named(key: str) -> None:
    with pytest.raises(ConfigError, match=f"lacks {key}"):
        read_model_config(file_of({name: value for name, value in LLAMA.items() if name != key}))


@pytest.mark.parametrize("content", [b"[]", b"1", b"null", b"{}", b'"llama"'])
def test_a_file_without_a_model_is_refused(content: bytes) -> None:
    with pytest.raises(ConfigError) as caught:
        read_model_config(content)
    assert_sentence(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b'{"hidden_size": NaN}', b'{"a": 1, "a": 2}', b" " * 1_100_000])
def test_what_is_no_strict_json_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    for source in (content, path):
        with pytest.raises(StorageError) as caught:
            read_model_config(source)
        assert_sentence(caught.value)


JUNK: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers(-(10**60), 10**60) | st.floats() | st.text(max_size=8) | st.just([])
)


@given(family=st.sampled_from(sorted(FAMILIES)), changes=st.dictionaries(st.sampled_from([*LLAMA, *GPT2]), JUNK))
@settings(deadline=None, max_examples=300)
def test_no_value_of_any_key_escapes_as_another_error(family: str, changes: dict[str, Any]) -> None:
    document = {**LLAMA, **GPT2, **changes, "model_type": family}
    try:
        plan_document(read_model_config(file_of(document)))
    except DepthscopeError as error:
        assert_sentence(error)


def assert_sentence(error: DepthscopeError) -> None:
    assert str(error).endswith(".")
    assert "\n" not in str(error)
    assert len(str(error)) < 300
