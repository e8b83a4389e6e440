"""A Hugging Face `config.json` as a decoder that can be observed: sizes, spreads and graph, or a refusal by name.

Families: gpt2, llama and mistral. Rotary features are paired as neighbours and GELU is the exact one, where the
library pairs halves and GPT-2 has the tanh form: the same laws at initialization, other last digits.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from ..decoder.base_draw import Distribution
from ..decoder.config import DecoderConfig
from ..errors import ConfigError, shown
from ..strict_json import JsonValue, read_json
from .model_config import request_from_document

FAMILIES = ("gpt2", "llama", "mistral")
# What transformers draws every matrix and embedding with where the file does not say.
INITIALIZER_RANGE = 0.02
# Settings that change the graph, and the only values that this decoder's graph has.
NEUTRAL: Mapping[str, tuple[JsonValue, ...]] = {
    "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False,),
    "rope_scaling": (None,),
    "partial_rotary_factor": (1, None),
    "activation_function": (
        "gelu", "gelu_new", "gelu_fast", "gelu_python", "gelu_accurate", "gelu_pytorch_tanh", "gelu_python_tanh",
    ),
}  # fmt: skip
WAY_OUT = "give the sizes as options, or audit the model itself with `audit`."


def read_observed_config(source: str | os.PathLike[str], longest_row: int) -> tuple[DecoderConfig, Distribution]:
    """The decoder and base draw of a file, for rows of at most `longest_row` positions.

    Every matrix and embedding is drawn from a normal of std `initializer_range`; what is scaled with depth is the
    recipe's. Raises `StorageError` where the file is no strict JSON, `ConfigError` where it is no such decoder.
    """
    document = read_json(source)
    family = document.get("model_type") if isinstance(document, dict) else None
    if isinstance(document, dict) and family is not None and family not in FAMILIES:
        raise ConfigError(
            f"The model_type {shown(family)} is not observed here, only {', '.join(FAMILIES)} are; {WAY_OUT}"
        )
    request = request_from_document(document)
    assert isinstance(document, dict), "the reader of sizes refuses everything else"
    if request.extra:
        raise ConfigError(f"config.json asks for {request.extra[0].name}, which this decoder does not have; {WAY_OUT}")
    _refuse_other_graphs(document, longest_row)
    return request.config, Distribution(_initializer_range(document))


def _refuse_other_graphs(document: Mapping[str, JsonValue], longest_row: int) -> None:
    rotary = document.get("rope_parameters")
    inner = rotary if isinstance(rotary, dict) else {}
    for settings in (document, inner):
        for key, values in NEUTRAL.items():
            if key in settings and settings[key] not in values:
                raise ConfigError(
                    f"{key} in config.json is {shown(settings[key])}, which this decoder's graph does not have; "
                    f"{WAY_OUT}"
                )
    if inner.get("rope_type", "default") != "default":
        raise ConfigError(
            f"rope_type in config.json is {shown(inner['rope_type'])}; this decoder has plain rotary angles; {WAY_OUT}"
        )
    window = document.get("sliding_window")
    if window is None or document.get("use_sliding_window", True) is False:
        return
    if isinstance(window, bool) or not isinstance(window, int) or window < longest_row:
        raise ConfigError(
            f"sliding_window in config.json is {shown(window)} and the longest row has {longest_row} positions; this "
            "decoder attends to every earlier token, so shorten the rows."
        )


def _initializer_range(document: Mapping[str, JsonValue]) -> float:
    value = document.get("initializer_range", INITIALIZER_RANGE)
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise ConfigError(f"initializer_range in config.json is {shown(value)}; it must be a positive finite number.")
    return float(value)
