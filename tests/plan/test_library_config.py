"""A decoder as the configuration of a library's class, which is read back as itself; what has no class is told."""

from __future__ import annotations

import pytest

from core.decoder.base_draw import XAVIER, Distribution
from core.decoder.config import DecoderConfig
from core.decoder.parameters import layout
from core.errors import ConfigError
from core.plan.library_config import differences, library_settings
from core.plan.nanogpt import settings_from_text
from core.plan.observed_config import observed_from_document, observed_preset
from core.plan.presets import PRESETS

GPT2 = DecoderConfig(
    blocks=3, width=32, heads=4, ff_width=96, vocabulary=50, positions=16, norm="layernorm", mlp="gelu",
    position_encoding="learned", rms_epsilon=1e-5, bias=True,
)  # fmt: skip
LLAMA = DecoderConfig(
    blocks=3, width=32, heads=4, kv_heads=2, head_dim=16, ff_width=96, vocabulary=50, positions=16, rope_base=5e5
)
NORMAL = Distribution(std=0.03)

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("name", [name for name, preset in PRESETS.items() if preset.family is not None])
def test_every_known_model_is_read_back_as_itself(name: str) -> None:
    found = observed_preset(name)
    settings = library_settings(found.config, found.distribution, PRESETS[name].family)
    again = observed_from_document(settings, 32)
    assert (again.config, again.distribution, again.recipe) == (found.config, found.distribution, found.recipe)


@pytest.mark.parametrize("config", [GPT2, LLAMA, DecoderConfig(blocks=2, width=16, query_key_norm=True)])
def test_sizes_by_hand_find_the_class_of_their_graph(config: DecoderConfig) -> None:
    again = observed_from_document(library_settings(config, NORMAL), 16)
    assert (again.config, again.distribution) == (config, NORMAL)


def test_the_librarys_own_class_has_as_many_parameters() -> None:
    pytest.importorskip("transformers")
    from core.audit.intake.hub import bare_model, built_config, library, model_class_of

    library()
    for config in (GPT2, LLAMA):
        settings = library_settings(config, NORMAL)
        model_class = model_class_of(settings["model_type"])
        model = bare_model(model_class, built_config(model_class.config_class, settings))
        assert sum(tensor.numel() for tensor in model.parameters()) == layout(config).parameters


def test_nanogpt_is_gpt2_with_zero_biases() -> None:
    found = observed_from_document(settings_from_text("n_layer = 6\nn_head = 2\nn_embd = 64\nbias = False"), 32)
    settings = library_settings(found.config, found.distribution)
    assert settings["model_type"] == "gpt2"
    assert "begin at zero" in differences(found.config, settings)
    assert differences(GPT2, settings) == ""


@pytest.mark.parametrize(
    ("config", "distribution", "words"),
    [
        (LLAMA, XAVIER, "Xavier's law"),
        (LLAMA, Distribution(std=0.02, embedding_std=1.0), "a standard deviation of their own"),
        (DecoderConfig(norm="layernorm"), NORMAL, "this combination of norm, feed-forward and positions"),
    ],
)
def test_what_no_class_has_is_one_sentence(config: DecoderConfig, distribution: Distribution, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        library_settings(config, distribution)
