"""Load screened safetensors into a model of the library, and say what did not fit."""

from __future__ import annotations

from typing import Any

import torch
from safetensors import safe_open
from torch import nn

from ...errors import AuditError, no_memory, shown
from .fault import reason_of
from .hub import check_size
from .weight_files import FLOATING, WeightFiles

SHOWN_NAMES = 5


def loaded_model(
    model_class: Any, config: Any, files: WeightFiles, max_parameters: int
) -> tuple[nn.Module, list[str], list[str], bool]:
    """The model in float32 with the files' weights, sentences for what did not fit, missing names, whether trained."""
    check_size(model_class, config, max_parameters)
    try:
        model, info = model_class.from_pretrained(
            None,
            config=config,
            state_dict=_tensors(files),
            dtype=torch.float32,
            attn_implementation="eager",
            output_loading_info=True,
            ignore_mismatched_sizes=True,
        )
    except Exception as error:
        if no_memory(error):
            raise
        raise AuditError(f"The weights do not fit the configuration: {reason_of(error)}.") from error
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
    """Whether any vector (gain or bias) has left the constant that initializations set it to."""
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
