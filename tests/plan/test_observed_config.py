"""`observe --config`: sizes, spreads and graph of a model's own file beside what transformers builds from it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from core.decoder.parameters import layout
from core.errors import ConfigError
from core.plan.observed_config import FAMILIES, read_observed_config
from tests.plan.test_model_config import GPT2, LLAMA
from tests.support import run_cli

FILES: dict[str, dict[str, Any]] = {
    "gpt2": {**GPT2, "initializer_range": 0.05},
    "llama": {**LLAMA, "initializer_range": 0.1},
    "mistral": {**LLAMA, "model_type": "mistral"},
}


def written(folder: Path, document: object) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("family", FAMILIES)
def test_parameters_and_spreads_are_those_that_transformers_draws(family: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    sizes = {key: value for key, value in FILES[family].items() if key != "model_type"}
    library = transformers.AutoConfig.for_model(family, **sizes)
    library.save_pretrained(tmp_path)
    model = transformers.AutoModelForCausalLM.from_config(library)
    config, distribution = read_observed_config(tmp_path / "config.json", 4)
    found = layout(config)
    assert found.parameters == sum(values.numel() for values in model.parameters())
    for name, values in model.named_parameters():
        # GPT-2's writers are scaled with depth, which here is the recipe's part.
        if values.ndim == 2 and "c_proj" not in name:
            error = 6 / math.sqrt(2 * values.numel())
            assert float(values.detach().std()) == pytest.approx(library.initializer_range, rel=error), name
    for spec in found:
        if spec.fill == "drawn":
            assert distribution.base_std(spec) == library.initializer_range


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
        ("llama", {"attention_bias": True}, "config.json asks for blocks.{b}.attention.query.bias"),
        ("llama", {"initializer_range": 0}, "initializer_range in config.json is 0; it must be"),
        ("llama", {"initializer_range": "a"}, "initializer_range in config.json is 'a'; it must be"),
        ("llama", {"model_type": "qwen2"}, "The model_type 'qwen2' is not observed here"),
        ("llama", {"model_type": "qwen3"}, "The model_type 'qwen3' is not observed here"),
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
    config, _ = read_observed_config(written(tmp_path, {**FILES["mistral"], "sliding_window": window}), 4)
    assert config.blocks == 3
