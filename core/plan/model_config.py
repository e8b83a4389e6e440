"""Read a Hugging Face `config.json`, or the settings of nanoGPT, into a `PlanRequest`.

Families: gpt2, llama, mistral, qwen2 and qwen3, as transformers builds them. A file without a model_type that has
nanoGPT's keys is read as nanoGPT. Width, depth, heads, vocabulary and the width of a gated feed-forward must be in the
file. Any other missing key has the default of the family's code, and `assumed` of the request lists it. Keys that do
not change the parameters are ignored.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ..decoder.config import LARGEST_SIZE, DecoderConfig
from ..decoder.parameters import Role
from ..errors import ConfigError, Remedy, shown
from ..strict_json import JsonValue, parse_json, read_json
from .request import PlanRequest, biases, query_key_gains

ATTENTION: tuple[Role, ...] = ("query", "key", "value", "output")
FEED_FORWARD: tuple[Role, ...] = ("gate", "up", "down")
GELU_NAMES = (
    "gelu", "gelu_new", "gelu_fast", "gelu_10", "gelu_python", "gelu_accurate", "gelu_pytorch_tanh",
    "gelu_python_tanh", "quick_gelu",
)  # fmt: skip
SILU_NAMES = ("silu", "swish")
NANOGPT = "nanogpt"
NANOGPT_SIZES = ("n_layer", "n_head", "n_embd")


def read_model_config(source: str | os.PathLike[str] | bytes) -> PlanRequest:
    """Return the `PlanRequest` of a `config.json`, given as a path or as its bytes.

    Raises `StorageError` if it is not strict JSON of at most 1 MB, and `ConfigError` if it does not describe a decoder
    of the families above.
    """
    document = parse_json(source, source="config.json") if isinstance(source, bytes) else read_json(source)
    return request_from_document(document)


def request_from_document(document: JsonValue, name: str = "config.json") -> PlanRequest:
    """Return the `PlanRequest` of a parsed `config.json`, called `name` in error messages. Raises `ConfigError`."""
    if not isinstance(document, dict):
        raise ConfigError(f"{name} holds {shown(document)}; it must hold one object of settings.")
    family = family_of(document)
    reader = FAMILIES.get(family) if isinstance(family, str) else None
    if family is None:
        raise ConfigError(f"{name} names no model_type; the plan reads {', '.join(FAMILIES)}.")
    if reader is None:
        raise ConfigError(f"The model_type {shown(family)} is not read here; the plan reads {', '.join(FAMILIES)}.")
    return reader(_Keys(document, name))


def family_of(document: Mapping[str, JsonValue]) -> JsonValue:
    """Return the value of `model_type`, or "nanogpt" if it is missing but nanoGPT's keys are there, else None."""
    is_nanogpt = any(key in document for key in NANOGPT_SIZES) and "architectures" not in document
    return NANOGPT if document.get("model_type") is None and is_nanogpt else document.get("model_type")


class _Keys:
    """Typed look-ups in one file; `assumed` collects the absent keys and the values used for them."""

    def __init__(self, document: Mapping[str, JsonValue], name: str) -> None:
        self._document, self.name = document, name
        self.assumed: dict[str, Any] = {}

    def value(self, key: str, absent: JsonValue) -> JsonValue:
        if key not in self._document:
            self.assumed[key] = absent
            return absent
        return self._document[key]

    def size(self, key: str, absent: int | None = None, null: int | None = None) -> int:
        """Return a positive integer. `absent` replaces a missing key, `null` a null.

        If these are None, raises `ConfigError`.
        """
        if absent is None and key not in self._document:
            raise ConfigError(f"{self.name} lacks {key}; add it, it is a size of the model.")
        value = self.value(key, absent)
        value = null if value is None else value
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= LARGEST_SIZE:
            raise ConfigError(f"{key} in {self.name} is {shown(value)}; it must be a whole number from 1 to 2^53.")
        return value

    def flag(self, key: str, absent: bool) -> bool:
        value = self.value(key, absent)
        if not isinstance(value, bool):
            raise ConfigError(f"{key} in {self.name} is {shown(value)}; it must be true or false.")
        return value

    def positive(self, key: str, absent: float) -> float:
        value = self.value(key, absent)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= sys.float_info.max:
            raise ConfigError(f"{key} in {self.name} is {shown(value)}; it must be a positive finite number.")
        return float(value)

    def word(self, key: str, absent: str, known: tuple[str, ...]) -> str:
        value = self.value(key, absent)
        if not isinstance(value, str) or value not in known:
            told = f"{key} in {self.name} is {shown(value)}; this decoder has {' and '.join(known[:2])}"
            raise ConfigError(told, Remedy.SIZES, Remedy.AUDIT)
        return value

    def rope_base(self) -> float:
        """Return `rope_theta`, which newer files have inside `rope_parameters`."""
        nested = self._document.get("rope_parameters")
        if nested is None:
            return self.positive("rope_theta", 10000.0)
        if not isinstance(nested, dict):
            raise ConfigError(f"rope_parameters in {self.name} is {shown(nested)}; it must be an object.")
        inner = _Keys(nested, self.name)
        base = inner.positive("rope_theta", 10000.0)
        self.assumed |= inner.assumed
        return base


def _gpt2(keys: _Keys) -> PlanRequest:
    if keys.flag("add_cross_attention", False):
        raise ConfigError("config.json asks for cross-attention; the plan counts decoder-only models.")
    keys.word("activation_function", "gelu_new", GELU_NAMES)
    width = keys.size("n_embd")
    config = DecoderConfig(
        blocks=keys.size("n_layer"),
        width=width,
        heads=keys.size("n_head"),
        ff_width=keys.size("n_inner", absent=4 * width, null=4 * width),
        vocabulary=keys.size("vocab_size"),
        positions=keys.size("n_positions", absent=1024),
        rms_epsilon=keys.positive("layer_norm_epsilon", 1e-5),
        norm="layernorm",
        mlp="gelu",
        position_encoding="learned",
        tied=keys.flag("tie_word_embeddings", True),
        bias=True,
    )
    return PlanRequest(config=config, assumed=keys.assumed)


def _nanogpt(keys: _Keys) -> PlanRequest:
    """Return the request of nanoGPT's settings.

    Defaults are those of its train.py, which trains GPT-2 small without biases.
    """
    width = keys.size("n_embd", absent=768)
    config = DecoderConfig(
        blocks=keys.size("n_layer", absent=12),
        width=width,
        heads=keys.size("n_head", absent=12),
        ff_width=4 * width,
        vocabulary=keys.size("vocab_size", absent=50304, null=50304),
        positions=keys.size("block_size", absent=1024),
        rms_epsilon=1e-5,
        norm="layernorm",
        mlp="gelu",
        position_encoding="learned",
        bias=keys.flag("bias", False),
    )
    return PlanRequest(config=config, assumed=keys.assumed)


def _gated(
    keys: _Keys, *, positions: int, kv_heads: int | None = None, head_dim: int | None = None, bias: bool = False
) -> DecoderConfig:
    """Return the config of a pre-RMSNorm SwiGLU decoder; the arguments are the family's defaults for absent keys."""
    keys.word("hidden_act", "silu", SILU_NAMES)
    heads = keys.size("num_attention_heads")
    width = keys.size("hidden_size")
    return DecoderConfig(
        blocks=keys.size("num_hidden_layers"),
        width=width,
        heads=heads,
        kv_heads=keys.size("num_key_value_heads", absent=kv_heads or heads, null=heads),
        head_dim=_head_dim(keys, width, heads, head_dim),
        ff_width=keys.size("intermediate_size"),
        vocabulary=keys.size("vocab_size"),
        positions=keys.size("max_position_embeddings", absent=positions),
        rope_base=keys.rope_base(),
        rms_epsilon=keys.positive("rms_norm_eps", 1e-6),
        tied=keys.flag("tie_word_embeddings", False),
        bias=bias,
    )


def _head_dim(keys: _Keys, width: int, heads: int, family: int | None) -> int | None:
    """Return `head_dim` of the file, of the family, or width / heads.

    None if that is not an integer, which the config rejects.
    """
    if family is not None:
        return keys.size("head_dim", absent=family)
    quotient = None if width % heads else width // heads
    if quotient is None and keys.value("head_dim", None) is None:
        return None
    return keys.size("head_dim", absent=quotient, null=quotient)


def _llama(keys: _Keys) -> PlanRequest:
    attention, feed_forward = keys.flag("attention_bias", False), keys.flag("mlp_bias", False)
    everywhere = attention and feed_forward
    config = _gated(keys, positions=2048, bias=everywhere)
    # One flag alone has no word in DecoderConfig, so its biases become extra rows.
    roles = () if everywhere else ATTENTION * attention + FEED_FORWARD * feed_forward
    return PlanRequest(config=config, extra=biases(config, roles), assumed=keys.assumed)


def _mistral(keys: _Keys) -> PlanRequest:
    return PlanRequest(config=_gated(keys, positions=131072, kv_heads=8), assumed=keys.assumed)


def _qwen2(keys: _Keys) -> PlanRequest:
    config = _gated(keys, positions=32768, kv_heads=32)
    return PlanRequest(config=config, extra=biases(config, ("query", "key", "value")), assumed=keys.assumed)


def _qwen3(keys: _Keys) -> PlanRequest:
    attention = ATTENTION if keys.flag("attention_bias", False) else ()
    config = replace(_gated(keys, positions=32768, kv_heads=32, head_dim=128), query_key_norm=True)
    return PlanRequest(config=config, extra=biases(config, attention) + query_key_gains(config), assumed=keys.assumed)


FAMILIES: Mapping[str, Callable[[_Keys], PlanRequest]] = {
    "gpt2": _gpt2,
    "llama": _llama,
    "mistral": _mistral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    NANOGPT: _nanogpt,
}
