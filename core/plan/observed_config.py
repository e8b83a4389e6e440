"""Turn the configuration of a real model into a decoder that can be run: sizes, standard deviations, graph and recipe.

Families: gpt2, llama, mistral, qwen2 and qwen3 as transformers initializes them, and nanoGPT. Two details differ: here
rotary positions pair neighbouring features where the library pairs halves, and GELU is exact where GPT-2 has the tanh
form. The distributions at initialization are the same; the last digits of a run differ.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..decoder.base_draw import XAVIER, Distribution
from ..decoder.config import DecoderConfig
from ..errors import ConfigError, Remedy, shown, unknown_name
from ..recipes.catalogue import CONTROL, DEFAULT
from ..strict_json import JsonValue, parse_json, read_json
from .model_config import FAMILIES, NANOGPT, family_of, request_from_document
from .presets import PRESETS
from .request import PlanRequest

# What transformers draws every matrix and embedding with where the file does not say; nanoGPT has no other.
INITIALIZER_RANGE = 0.02
# What each family's own code does to the writers: GPT-2's and nanoGPT's divide their std by sqrt(2L).
OWN_RECIPES: Mapping[str, str] = dict.fromkeys(FAMILIES, CONTROL) | {"gpt2": "gpt2", NANOGPT: "gpt2"}
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
WAYS_OUT = (Remedy.SIZES, Remedy.AUDIT)


@dataclass(frozen=True, kw_only=True)
class ObservedModel:
    """A decoder that is initialized as the code of a model family initializes it.

    `distribution` is the distribution of the base weights, the random weights before any recipe. `recipe` is the name
    of the rule by which the family's code then scales them. `family` is None for a decoder of this project. `left_out`
    names the parameters that the family has and this decoder lacks: biases of 0 and gains of 1, which change no value
    at initialization. `assumed` maps the keys missing in `config.json` to the values used.
    """

    config: DecoderConfig
    distribution: Distribution = XAVIER
    recipe: str = DEFAULT
    family: str | None = None
    left_out: tuple[str, ...] = ()
    assumed: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def document(self) -> dict[str, Any]:
        """Return a dict for JSON that says where the initialization comes from, the `model` entry of a document."""
        return {
            "family": self.family,
            "initialization": {"base": self.distribution.name, "recipe": self.recipe},
            "left_out": list(self.left_out),
            "assumed": dict(self.assumed),
        }


def read_observed_config(source: str | os.PathLike[str] | bytes, longest_row: int) -> ObservedModel:
    """Return the decoder of a `config.json`, given as a path or as its bytes.

    `longest_row` is the largest number of positions of a row; a sliding window must not be shorter. All matrices and
    embeddings are drawn from a normal distribution with the standard deviation `initializer_range`; what the family
    scales with depth is in the recipe. Raises `StorageError` if it is not strict JSON, and `ConfigError` if it does not
    describe a decoder that can be run here.
    """
    document = parse_json(source, source="config.json") if isinstance(source, bytes) else read_json(source)
    return observed_from_document(document, longest_row)


def observed_from_document(document: JsonValue, longest_row: int, name: str = "config.json") -> ObservedModel:
    """Return the decoder of a parsed `config.json`, called `name` in error messages. Raises `ConfigError`.

    Rows have at most `longest_row` positions; a sliding window must not be shorter.
    """
    family = family_of(document) if isinstance(document, dict) else None
    if family is not None and family not in FAMILIES:
        raise ConfigError(
            f"The model_type {shown(family)} is not observed here, only {', '.join(FAMILIES)} are", *WAYS_OUT
        )
    request = request_from_document(document, name)
    assert isinstance(document, dict), "the reader of sizes refuses everything else"
    assert isinstance(family, str), "and every other family"
    _refuse_other_graphs(document, longest_row)
    return _observed(request, family, _initializer_range(document))


def observed_preset(name: str) -> ObservedModel:
    """Return a known model of `PRESETS`, initialized as the code of its family does.

    Raises `ConfigError` if unknown.
    """
    if name not in PRESETS:
        raise ConfigError(f"{unknown_name('model', name, PRESETS)}.")
    preset = PRESETS[name]
    if preset.family is None:
        return ObservedModel(config=preset.request.config)
    return _observed(preset.request, preset.family, INITIALIZER_RANGE)


def _observed(request: PlanRequest, family: str, std: float) -> ObservedModel:
    return ObservedModel(
        config=request.config,
        distribution=Distribution(std),
        recipe=OWN_RECIPES[family],
        family=family,
        left_out=tuple(spec.name for spec in request.extra),
        assumed=request.assumed,
    )


def _refuse_other_graphs(document: Mapping[str, JsonValue], longest_row: int) -> None:
    rotary = document.get("rope_parameters")
    inner = rotary if isinstance(rotary, dict) else {}
    for settings in (document, inner):
        for key, values in NEUTRAL.items():
            if key in settings and settings[key] not in values:
                raise ConfigError(
                    f"{key} in config.json is {shown(settings[key])}, which this decoder's graph does not have",
                    *WAYS_OUT,
                )
    if inner.get("rope_type", "default") != "default":
        raise ConfigError(
            f"rope_type in config.json is {shown(inner['rope_type'])}; this decoder has plain rotary angles", *WAYS_OUT
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
