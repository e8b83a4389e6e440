"""Write a decoder as the configuration of a class of the transformers library, whose own code draws its weights."""

from __future__ import annotations

from typing import Any

from ..decoder.base_draw import Distribution
from ..decoder.config import DecoderConfig
from ..errors import ConfigError

GPT2, LLAMA, QWEN3 = "gpt2", "llama", "qwen3"
ZERO_BIASES = "Its biases, which this model does not have, begin at zero."


def library_settings(config: DecoderConfig, distribution: Distribution, family: str | None = None) -> dict[str, Any]:
    """Return the content of a `config.json` of the class that has this decoder's graph.

    `family` is the model_type, None takes gpt2, llama or qwen3 by the graph. Raises `ConfigError` where no class has
    the graph, or draws weights by this distribution: they draw every matrix and embedding from one normal.
    """
    if distribution.std is None:
        raise ConfigError(
            "This decoder's weights are drawn by Xavier's law, and no class of the transformers library does that; "
            "give its weights a standard deviation, or choose another model."
        )
    if distribution.embedding_std not in (None, distribution.std):
        raise ConfigError(
            "This decoder's embeddings have a standard deviation of their own, and no class of the transformers "
            "library draws them so; leave it at 0, or choose another model."
        )
    own = family or _family(config)
    shared = {
        "model_type": own,
        "vocab_size": config.vocabulary,
        "initializer_range": distribution.std,
        "tie_word_embeddings": config.tied,
    }
    return {**shared, **(_learned(config) if own == GPT2 else _rotary(config, own))}


def differences(config: DecoderConfig, settings: dict[str, Any]) -> str:
    """Return a sentence on what the class has and the decoder does not; empty if nothing."""
    return ZERO_BIASES if settings["model_type"] == GPT2 and not config.bias else ""


def _family(config: DecoderConfig) -> str:
    whole = config.key_value_heads == config.heads and config.head_width * config.heads == config.width
    graph = (config.position_encoding, config.norm, config.mlp)
    if graph == ("learned", "layernorm", "gelu") and whole and not config.query_key_norm:
        return GPT2
    if graph == ("rope", "rmsnorm", "swiglu") and not (config.query_key_norm and config.bias):
        return QWEN3 if config.query_key_norm else LLAMA
    raise ConfigError(
        "No class of the transformers library that the audit knows has this combination of norm, feed-forward and "
        "positions; the audit reads your own config.json instead."
    )


def _learned(config: DecoderConfig) -> dict[str, Any]:
    return {
        "n_embd": config.width,
        "n_layer": config.blocks,
        "n_head": config.heads,
        "n_inner": config.ff_width,
        "n_positions": config.positions,
        "layer_norm_epsilon": config.rms_epsilon,
    }


def _rotary(config: DecoderConfig, family: str) -> dict[str, Any]:
    biases = {"attention_bias": config.bias, "mlp_bias": config.bias} if family == LLAMA else {}
    return {
        "hidden_size": config.width,
        "num_hidden_layers": config.blocks,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.key_value_heads,
        "head_dim": config.head_width,
        "intermediate_size": config.ff_width,
        "max_position_embeddings": config.positions,
        "rope_theta": config.rope_base,
        "rms_norm_eps": config.rms_epsilon,
        **biases,
    }
