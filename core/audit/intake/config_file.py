"""Screen a Hugging Face `config.json` before anything is imported or built for it.

An error is raised for custom code, quantized or half-precision weights, attention or kernels from a repository, and
sizes above the budget. The remaining keys are checked later against those that the model's configuration class
declares.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ...decoder.config import Budget
from ...errors import AuditError, BudgetError, ConfigError, Remedy, shown
from ...strict_json import JsonValue, read_json

MODEL_TYPE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
CODE_KEYS = ("auto_map", "trust_remote_code", "custom_pipelines", "custom_generate", "_auto_class")
QUANTIZATION_KEYS = (
    "quantization_config", "quantization", "compression_config", "load_in_8bit", "load_in_4bit", "quant_method", "bits",
)  # fmt: skip
KERNEL_KEYS = ("kernel_config", "use_kernels", "kernels", "allow_all_kernels")
# What each of these keys asks for.
REFUSED_KEYS = {
    **dict.fromkeys(CODE_KEYS, "the model's custom code, which is never run; remove the key"),
    **dict.fromkeys(QUANTIZATION_KEYS, "quantized weights; the audit reads float32 models, so remove the key"),
    **dict.fromkeys(KERNEL_KEYS, "kernels from a repository, which are never loaded; remove the key"),
}
IMPLEMENTATION_KEYS = re.compile(r"_?(attn|attention|experts)_implementation(_internal)?")
IMPLEMENTATIONS = (
    "eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention", "paged_attention", "grouped_mm",
    "batched_mm",
)  # fmt: skip
DTYPE_KEYS = ("dtype", "torch_dtype")
# The audit computes in float32 whatever of these the file names; other types lose values that it must see.
DTYPES = ("float32", "bfloat16", "float64", "auto")
WIDTH_KEYS = ("hidden_size", "d_model", "n_embd", "dim_model", "emb_dim")
DEPTH_KEYS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers", "num_decoder_layers")
VOCABULARY_KEY = "vocab_size"
LARGEST_INTEGER = 2**40
NANOGPT_KEYS = ("n_layer", "n_head", "n_embd")


def read_config(path: str | os.PathLike[str], name: str | None = None) -> dict[str, JsonValue]:
    """Return the settings in a file; errors call it `name`. Raises `StorageError` or `AuditError`."""
    document = read_json(path, name=name)
    if not isinstance(document, dict):
        raise AuditError(f"config.json holds {shown(document)}; it must hold one object of settings.")
    return document


def screen_config(settings: Mapping[str, JsonValue], budget: Budget, *, shrink: bool = False) -> str:
    """Return the model type of settings that may be built. Raises `AuditError` or `BudgetError` for any others.

    With `shrink` the widths do not count against the budget, because they are made small later; the depth still does.
    """
    model_type = settings.get("model_type")
    if model_type is None:
        raise _nameless(settings)
    if not isinstance(model_type, str) or not MODEL_TYPE.fullmatch(model_type):
        raise AuditError(
            f"config.json names the model_type {shown(model_type)}; give the name of a transformers family."
        )
    for place, mapping in _mappings(settings, ""):
        for key, value in mapping.items():
            _screen_entry(f"{place}{key}", key, value)
    if not shrink:
        _screen_known_family(settings, budget)
    for place, mapping in _mappings(settings, ""):
        _screen_sizes(place, mapping, budget, shrink=shrink)
    return model_type


def fresh_settings(settings: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return settings without the keys on how weights are stored, for a model whose weights are drawn anew.

    Raises `AuditError` for settings that ask for code or kernels of the model's own.
    """
    kept = _without_storage(settings)
    for place, mapping in _mappings(kept, ""):
        for key, value in mapping.items():
            _screen_entry(f"{place}{key}", key, value)
    return kept


def _without_storage(settings: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {
        key: _without_storage(value) if isinstance(value, dict) else value
        for key, value in settings.items()
        if key not in (*DTYPE_KEYS, *QUANTIZATION_KEYS)
    }


def _nameless(settings: Mapping[str, JsonValue]) -> AuditError:
    """Return the error for settings without a model type; those of nanoGPT are recognized by their keys."""
    if all(key in settings for key in NANOGPT_KEYS):
        return AuditError(
            f"config.json names no model_type; its {', '.join(NANOGPT_KEYS)} look like nanoGPT's, whose model is "
            'GPT-2: add "model_type": "gpt2" to it, and give block_size as n_positions.'
        )
    return AuditError(
        'config.json names no model_type; add the name of its transformers family, such as "model_type": "llama".'
    )


def _mappings(settings: Mapping[str, JsonValue], place: str) -> Iterator[tuple[str, Mapping[str, JsonValue]]]:
    yield place, settings
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from _mappings(value, f"{place}{key}.")


def _screen_entry(place: str, key: str, value: JsonValue) -> None:
    if key in REFUSED_KEYS and value:
        raise AuditError(f"{place} asks for {REFUSED_KEYS[key]}.")
    if IMPLEMENTATION_KEYS.fullmatch(key):
        names = list(value.values()) if isinstance(value, dict) else [value]
        if any(name is not None and name not in IMPLEMENTATIONS for name in names):
            raise AuditError(
                f"{place} is {shown(value)}; attention from a repository is never loaded, so remove the key: the audit "
                "uses eager attention."
            )
    if (
        key in DTYPE_KEYS
        and value is not None
        and (not isinstance(value, str) or value.removeprefix("torch.") not in DTYPES)
    ):
        raise AuditError(
            f"{place} is {shown(value)}; the audit computes in float32, so remove the key or set it to float32."
        )
    if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        raise AuditError(f"{place} is {shown(value)}, which no model's setting reaches.")


def _screen_sizes(place: str, settings: Mapping[str, JsonValue], budget: Budget, *, shrink: bool) -> None:
    for key in (*WIDTH_KEYS, *DEPTH_KEYS, VOCABULARY_KEY):
        value = settings.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            raise AuditError(f"{place}{key} is {shown(value)}; it must be a whole number.")
    depth, width = _largest(settings, DEPTH_KEYS), _largest(settings, WIDTH_KEYS)
    vocabulary = _largest(settings, (VOCABULARY_KEY,))
    if depth > budget.max_blocks:
        raise BudgetError(f"{place or 'config.json '}asks for {depth:,} blocks; the limit is {budget.max_blocks:,}.")
    # Less than any block of that width holds: one matrix per branch.
    least = depth * 2 * width * width + vocabulary * width
    if least > budget.max_parameters and not shrink:
        raise _too_large(least, budget, "at least ")


def _largest(settings: Mapping[str, JsonValue], keys: tuple[str, ...]) -> int:
    values = (settings.get(key) for key in keys)
    return max((value for value in values if isinstance(value, int)), default=0)


def _screen_known_family(settings: Mapping[str, JsonValue], budget: Budget) -> None:
    """Count the parameters of families that the plan knows, before anything is imported for them.

    Raises `BudgetError` where they exceed the budget.
    """
    from ...plan.arithmetic import role_rows
    from ...plan.model_config import FAMILIES, request_from_document

    if settings.get("model_type") not in FAMILIES:
        return
    try:
        parameters = sum(row.coordinates for row in role_rows(request_from_document(dict(settings))))
    except ConfigError:
        return
    if parameters > budget.max_parameters:
        raise _too_large(parameters, budget, "")


def _too_large(parameters: int, budget: Budget, least: str) -> BudgetError:
    return BudgetError(
        f"The model has {least}{parameters:,} parameters, more than the budget of {budget.max_parameters:,}",
        Remedy.SMALL_WIDTHS,
        budget.remedy,
    )


def paths_in(settings: Mapping[str, Any]) -> list[str]:
    """Return the keys whose text could name a file or a repository; no setting of an architecture looks like that."""
    found = []
    for place, mapping in _mappings(settings, ""):
        for key, value in mapping.items():
            values = value if isinstance(value, list) else [value]
            if any(isinstance(text, str) and re.search(r"[/\\]|^~|://", text) for text in values):
                found.append(place + key)
    return found
