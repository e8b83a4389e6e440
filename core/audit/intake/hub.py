"""The installed transformers library as the audit uses it: configuration keys, and models built or loaded offline.

The functions that build or load models run in child processes only. Nothing here opens a connection.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from typing import Any

import torch
from safetensors import safe_open
from torch import nn

from ...decoder.config import Budget
from ...errors import AuditError, BudgetError, DepthscopeError, Remedy, no_memory, shown
from ..request import MISSING, architectures
from .fault import reason_of
from .weight_files import FLOATING, WeightFiles

SHOWN_NAMES = 5

# Older files spell rotary settings this way; the library reads them into `rope_parameters`.
LEGACY_KEYS = frozenset({"rope_theta", "rope_scaling", "partial_rotary_factor", "rope_local_base_freq"})
# Of the fields every configuration has, those that choose no architecture.
SET_ASIDE = frozenset(
    {
        *("transformers_version", "architectures", "output_hidden_states", "output_attentions", "return_dict", "dtype"),
        *("torch_dtype", "id2label", "label2id", "num_labels", "problem_type", "use_cache", "model_type"),
        *("name_or_path", "_name_or_path", "task_specific_params", "chunk_size_feed_forward"),
    }
)


@lru_cache(maxsize=1)
def library() -> Any:
    """Import and return the transformers module, with its logging off.

    Raises `AuditError` where it is not installed.
    """
    # Losses of object detection import scipy, a tenth of the time of the whole import; no language model has them.
    # A library that was imported before has looked for it already, and must find what it saw.
    with nullcontext() if "transformers" in sys.modules else _unseen("scipy"):
        try:
            module = importlib.import_module("transformers")
        except ImportError as error:
            raise AuditError(MISSING) from error
        importlib.import_module("transformers.modeling_utils")
    module.logging.set_verbosity(50)
    return module


@contextmanager
def _unseen(package: str) -> Iterator[None]:
    """Make an optional package look as if it were not installed, unless it is imported already."""
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[package]


def model_class_of(family: str) -> Any:
    """Return the class of a family that is audited."""
    return getattr(library(), architectures()[family])


def config_class_of(family: str) -> Any:
    """Return the configuration class of a family's model."""
    return model_class_of(family).config_class


def allowed(config_class: Any, settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the settings that a configuration class declares, nested ones included, and the names of the others."""
    names = {field.name for field in dataclasses.fields(config_class)} | set(config_class.attribute_map) | LEGACY_KEYS
    nested = getattr(config_class, "sub_configs", None) or {}
    kept: dict[str, Any] = {}
    others: list[str] = []
    for key, value in settings.items():
        if key in SET_ASIDE:
            continue
        if key not in names and key not in nested:
            others.append(key)
        elif key in nested and isinstance(value, Mapping) and dataclasses.is_dataclass(nested[key]):
            kept[key], inner = allowed(nested[key], value)
            others += [f"{key}.{name}" for name in inner]
        else:
            kept[key] = value
    return kept, others


def built_config(config_class: Any, settings: Mapping[str, Any]) -> Any:
    """Return a configuration object. Raises `AuditError` with the library's reason where it rejects a setting."""
    with refusing(f"The configuration is refused by {config_class.__name__}"):
        return config_class(**settings)


def bare_model(model_class: Any, config: Any) -> nn.Module:
    """Return the model on the meta device, which holds no values, with eager attention. Raises `AuditError`."""
    # Plain torch for attention and experts, in every part of a configuration; no kernel is looked for.
    config._attn_implementation = config._experts_implementation = "eager"
    with refusing(f"{model_class.__name__} cannot be built"), torch.device("meta"):
        model: nn.Module = model_class(config)
    return model


def check_size(model_class: Any, config: Any, budget: Budget) -> None:
    """Count a model's parameters without allocating them.

    Raises `BudgetError` where there are more than the budget's, `AuditError` where it cannot be built.
    """
    count = sum(parameter.numel() for parameter in bare_model(model_class, config).parameters())
    if count > budget.max_parameters:
        raise BudgetError(
            f"{count:,} parameters exceed the budget of {budget.max_parameters:,}",
            "make the model smaller",
            Remedy.SMALL_WIDTHS,
            budget.remedy,
        )


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """Turn an exception of the library that is raised inside into an `AuditError` that begins with `what`.

    `DepthscopeError` and out-of-memory errors pass unchanged.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, DepthscopeError) or no_memory(error):
            raise
        raise AuditError(f"{what}: {reason_of(error)}.") from error


def built_model(model_class: Any, config: Any, *, seed: int, max_parameters: int) -> nn.Module:
    """Return a float32 model with eager attention, drawn from `seed`; its size is checked before anything is allocated.

    Reads and writes torch's global generator, so it belongs in a separate process. Raises `AuditError` or
    `BudgetError`.
    """
    check_size(model_class, config, Budget(max_parameters=max_parameters))
    torch.manual_seed(seed)
    with refusing(f"{model_class.__name__} cannot be built"):
        model: nn.Module = model_class._from_config(config, attn_implementation="eager", dtype=torch.float32)
    return model


def loaded_model(
    model_class: Any, config: Any, files: WeightFiles, max_parameters: int
) -> tuple[nn.Module, list[str], list[str], bool]:
    """Return a float32 model with the files' weights, and what was found while loading.

    The result is (model, sentences on what did not fit, names that the files lack, whether it is trained). Raises
    `AuditError` where a shape does not fit the configuration, `BudgetError` for too many parameters.
    """
    check_size(model_class, config, Budget(max_parameters=max_parameters))
    with refusing("The weights do not fit the configuration"):
        model, info = model_class.from_pretrained(
            None,
            config=config,
            state_dict=_tensors(files),
            dtype=torch.float32,
            attn_implementation="eager",
            output_loading_info=True,
            ignore_mismatched_sizes=True,
        )
    if info.get("mismatched_keys"):
        name, held, wanted = min(info["mismatched_keys"], key=lambda entry: str(entry[0]))
        raise AuditError(
            f"The weights do not fit the configuration: {shown(name)} is {list(held)} in the files and {list(wanted)} "
            "in the model."
        )
    findings = [
        *_finding("missing from the files, so drawn anew", info.get("missing_keys")),
        *_finding("promised by the index but in no file", files.absent),
        *_finding("in the files but not in the model", info.get("unexpected_keys")),
        *_finding("held by more than one file", files.twice),
    ]
    return model, findings, sorted(info.get("missing_keys") or ()), looks_trained(model)


def looks_trained(model: nn.Module) -> bool:
    """Return whether any vector (gain or bias) has several values: initializations set it to a constant."""
    return any(
        parameter.dim() == 1 and parameter.is_floating_point() and bool((parameter != parameter[0]).any())
        for parameter in model.parameters()
    )


def _tensors(files: WeightFiles) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for name in files.files:
        wanted = [tensor for tensor, (file, _, _) in files.tensors.items() if file == name]
        with safe_open(files.folder / name, framework="pt", device="cpu") as opened:
            for tensor in wanted:
                value = opened.get_tensor(tensor)
                found[tensor] = value.to(torch.float32) if files.tensors[tensor][2] in FLOATING else value
    return found


def _finding(what: str, names: Any) -> list[str]:
    listed = sorted(str(name) for name in names or ())
    if not listed:
        return []
    more = f" and {len(listed) - SHOWN_NAMES} more" if len(listed) > SHOWN_NAMES else ""
    return [f"Tensors {what}: {', '.join(listed[:SHOWN_NAMES])}{more}."]
