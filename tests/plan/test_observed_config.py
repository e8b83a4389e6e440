"""`observe --config`: sizes, spreads and graph of a model's own file beside what transformers builds from it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from core.decoder.base_draw import Distribution
from core.decoder.parameters import layout
from core.errors import ConfigError
from core.plan.nanogpt import PASTED, settings_from_text
from core.plan.observed_config import (
    ObservedModel,
    observed_from_document,
    observed_preset,
    read_observed_config,
)
from core.plan.presets import LAPTOP, PRESETS
from core.recipes.catalogue import recipe
from tests.plan.test_model_config import GPT2, LLAMA
from tests.support import run_cli


def pasted(text: str) -> ObservedModel:
    return observed_from_document(settings_from_text(text), 4, PASTED)


FILES: dict[str, dict[str, Any]] = {
    "gpt2": {**GPT2, "initializer_range": 0.05},
    "llama": {**LLAMA, "initializer_range": 0.1, "attention_bias": True},
    "mistral": {**LLAMA, "model_type": "mistral"},
    "qwen2": {**LLAMA, "model_type": "qwen2", "initializer_range": 0.03},
    "qwen3": {**LLAMA, "model_type": "qwen3", "head_dim": 16},
}
# The names of a library's matrices, by how they end, as roles.
ROLES = {
    "wte": "token_embedding", "embed_tokens": "token_embedding", "wpe": "position_embedding", "c_attn": "query",
    "q_proj": "query", "k_proj": "key", "v_proj": "value", "o_proj": "output", "attn.c_proj": "output",
    "gate_proj": "gate", "up_proj": "up", "c_fc": "up", "down_proj": "down", "mlp.c_proj": "down", "lm_head": "head",
}  # fmt: skip


def written(folder: Path, document: object) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("family", FILES)
def test_parameters_and_spreads_are_those_that_transformers_draws(family: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    sizes = {key: value for key, value in FILES[family].items() if key != "model_type"}
    library = transformers.AutoConfig.for_model(family, **sizes)
    library.save_pretrained(tmp_path)
    model = transformers.AutoModelForCausalLM.from_config(library)
    found = read_observed_config(tmp_path / "config.json", 4)
    specs = {spec.role: spec for spec in layout(found.config)}
    vectors = [values for _, values in model.named_parameters() if values.ndim == 1]
    assert all(bool((values == values[0]).all()) for values in vectors)
    counted = sum(values.numel() for values in model.parameters() if values.ndim == 2)
    assert sum(spec.draws for spec in layout(found.config)) == counted
    for name, values in model.named_parameters():
        if values.ndim == 2:
            spec = specs[next(role for end, role in ROLES.items() if name.endswith(f"{end}.weight"))]
            std = found.distribution.base_std(spec)
            std *= recipe(found.recipe).coefficient(spec, spec.block or 0, found.config, std)
            error = 6 / math.sqrt(2 * values.numel())
            assert float(values.detach().std()) == pytest.approx(std, rel=error), name


@pytest.mark.parametrize(
    ("family", "left_out"),
    [
        ("mistral", []),
        ("llama", ["query.bias", "key.bias", "value.bias", "output.bias"]),
        ("qwen2", ["query.bias", "key.bias", "value.bias"]),
        ("qwen3", ["query_norm.gain", "key_norm.gain"]),
    ],
)
def test_constants_without_effect_are_left_out_by_name(family: str, left_out: list[str]) -> None:
    found = observed_from_document(FILES[family], 4)
    assert [name.removeprefix("blocks.{b}.attention.") for name in found.left_out] == left_out
    assert found.config.query_key_norm is (family == "qwen3")


@pytest.mark.parametrize("name", PRESETS)
def test_known_models_are_initialized_by_their_family(name: str) -> None:
    found = observed_preset(name)
    assert found.config == PRESETS[name].request.config
    if name == LAPTOP:
        assert (found.family, found.recipe, found.distribution) == (None, "depth-scaled", Distribution())
    else:
        assert found.distribution == Distribution(0.02)
        assert found.recipe == ("gpt2" if name.startswith("gpt2") else "unscaled")
        assert name.startswith(str(found.family))


def test_an_unknown_model_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match="The model 'lama-2-7b' is unknown; did you mean llama-2-7b"):
        observed_preset("lama-2-7b")


NANOGPT = """
# train a miniature character-level model
out_dir = 'out-shakespeare-char'
gradient_accumulation_steps = 5 * 8
n_layer = 6
n_head = 4
n_embd = 64  # small
block_size: int = 128
"""


@pytest.mark.parametrize(
    "text",
    [
        NANOGPT,
        "GPTConfig(block_size=128, n_layer=6, n_head=4, n_embd=64, dropout=drop)",
        "model_args = dict(n_layer=6, n_head=4,\n n_embd=64, block_size=128)",
        "{'n_layer': 6, 'n_head': 4, 'n_embd': 64, 'block_size': 128}",
        '{"n_layer": 6, "n_head": 4, "n_embd": 64, "block_size": 128, "bias": false}',
        "@dataclass\nclass GPTConfig:\n    n_layer: int = 6\n    n_head: int = 4\n    n_embd: int = 64\n"
        "    block_size: int = 128",
        "    n_layer=6,\n    n_head=4,\n    n_embd=64,\n    block_size=128,",
        "--n_layer=6\n--n_head=4\n--n_embd=64\n--block_size=128",
        "n_layer: 6\nn_head: 4\nn_embd: 64\nblock_size: 128",
        "n_layer=6, n_head=4, n_embd=64, block_size=128, dropout=0.0",
    ],
)
def test_settings_of_nanogpt_are_read_as_they_are_written(text: str) -> None:
    found = pasted(text)
    config = found.config
    assert (config.blocks, config.heads, config.width, config.ff_width, config.positions) == (6, 4, 64, 256, 128)
    assert (config.vocabulary, config.bias, config.tied, config.norm, config.mlp) == (
        50304, False, True, "layernorm", "gelu",
    )  # fmt: skip
    assert (found.recipe, found.distribution.std, found.family) == ("gpt2", 0.02, "nanogpt")
    assert found.assumed["vocab_size"] == 50304


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "The pasted settings name none of n_layer, n_head, n_embd; paste lines such as n_layer = 12"),
        ("learning_rate = 1e-3", "The pasted settings name none of"),
        ("n_layer = (", "The pasted settings cannot be read as Python assignments at line 1"),
        ("n_layer = 4 * 3", "n_layer in the pasted settings is an expression; write a plain number"),
        ("n_layer = print('x')", "n_layer in the pasted settings is an expression; write a plain number"),
        ("n_layer = 'x'", "n_layer in the pasted settings is 'x'; write a plain number"),
        ("n_layer = 0", "n_layer in the pasted settings is 0; it must be a whole number"),
        ("n_layer = " + "(" * 3000, "The pasted settings cannot be read"),
        ("n_layer = " + "-" * 60000 + "1", "The pasted settings cannot be read"),
        ("n_layer = " + "-" * 900 + "1", "n_layer in the pasted settings is an expression"),
        ("n" * 70000, "The pasted settings have 70,000 characters"),
    ],
)
def test_other_text_is_refused_in_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        pasted(text)
    assert str(refusal.value).startswith(sentence)


def test_pasted_text_is_never_executed(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    text = f"import pathlib\npathlib.Path({str(mark)!r}).touch()\nn_layer = 3"
    assert pasted(text).config.blocks == 3
    assert not mark.exists()


def test_the_document_says_what_was_read(tmp_path: Path) -> None:
    path = written(tmp_path, FILES["llama"])
    outcome = run_cli("observe", "--config", path, "--recipe", "gpt2", "--text", "Hi", "--vocabulary", "300")
    assert outcome.status == 2
    assert outcome.err == "--config brings its own sizes and spreads; leave --vocabulary out.\n"
    document = run_cli("observe", "--config", path, "--recipe", "gpt2", "--seed", 5, "--json",
                       "--inputs", "1,2", "--targets", "2,3").document()  # fmt: skip
    config = document["config"]
    assert (config["blocks"], config["kv_heads"], config["rope_base"], config["tied"]) == (3, 2, 500000.0, False)
    assert (document["base_initializer_id"], document["seed"]) == ("normal-0.1-splitmix64", "5")
    assert document["model"]["initialization"] == {"base": "normal-0.1-splitmix64", "recipe": "gpt2"}
    assert (document["model"]["family"], document["model"]["left_out"][0]) == (
        "llama", "blocks.{b}.attention.query.bias",
    )  # fmt: skip


def test_the_family_s_own_recipe_is_the_default(tmp_path: Path) -> None:
    for family, name in (("llama", "unscaled"), ("gpt2", "gpt2")):
        document = run_cli("observe", "--config", written(tmp_path, FILES[family]), "--inputs", "1,2", "--targets",
                           "2,3", "--json").document()  # fmt: skip
        assert document["recipe"] == name


@pytest.mark.parametrize(
    ("family", "changes", "sentence"),
    [
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx in config.json is true"),
        ("gpt2", {"scale_attn_weights": False}, "scale_attn_weights in config.json is false"),
        ("gpt2", {"activation_function": "quick_gelu"}, "activation_function in config.json is 'quick_gelu'"),
        ("llama", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}, "rope_scaling in config.json is an object"),
        (
            "llama",
            {"rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5}},
            "rope_type in config.json is 'llama3'",
        ),
        ("llama", {"initializer_range": 0}, "initializer_range in config.json is 0; it must be"),
        ("llama", {"initializer_range": "a"}, "initializer_range in config.json is 'a'; it must be"),
        ("llama", {"model_type": "mamba"}, "The model_type 'mamba' is not observed here"),
        ("mistral", {"sliding_window": 3}, "sliding_window in config.json is 3 and the longest row has 4 positions"),
    ],
)
def test_what_this_decoder_cannot_express_is_refused_by_name(
    family: str, changes: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    path = written(tmp_path, {**FILES[family], **changes})
    with pytest.raises(ConfigError) as refusal:
        read_observed_config(path, 4)
    assert str(refusal.value).startswith(sentence)


@pytest.mark.parametrize("window", [None, 4, 4096])
def test_a_window_that_hides_nothing_is_no_hindrance(window: int | None, tmp_path: Path) -> None:
    found = read_observed_config(written(tmp_path, {**FILES["mistral"], "sliding_window": window}), 4)
    assert found.config.blocks == 3


def test_an_embedding_std_on_the_command_line_takes_the_place_of_the_config_s(tmp_path: Path) -> None:
    options = [
        "observe",
        "--config",
        written(tmp_path, FILES["llama"]),
        "--inputs",
        "1,2",
        "--targets",
        "2,3",
        "--json",
    ]
    plain, own = run_cli(*options).document(), run_cli(*options, "--embedding-std", 1).document()
    assert own["base_initializer_id"].endswith("-embedding-1-splitmix64")
    assert {**own["config"]} == plain["config"]
    first = [document["initialized"]["sites"][0]["activation_rms"] for document in (plain, own)]
    # The config's own is 0.1, on the same draws.
    assert first[1] == pytest.approx(10 * first[0], rel=1e-12)
