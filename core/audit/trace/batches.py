"""Converts what a user passes as a batch: tensors, NumPy arrays, nested lists and the arguments of a forward."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from ...decoder.batch import BATCH_KEYS
from ...errors import BatchError, shown

WANTED = (
    "give a LongTensor of ids [rows, positions], a core.decoder.Batch, or the arguments of the model's forward as a "
    "mapping or a tuple"
)
# Arguments of one entry for each token, which a tokenizer hands out as lists.
TOKEN_KEYS = ("input_ids", "attention_mask", "labels", "position_ids", "token_type_ids")


def is_document(batch: Mapping[Any, Any], names: frozenset[str]) -> bool:
    """Return True if a mapping is the JSON form of a `Batch`, False if it holds keyword arguments.

    `names` are the names of the arguments of the model's forward.
    """
    return {"inputs", "targets"} <= set(batch) <= set(BATCH_KEYS) and not {"inputs", "targets"} & names


def plain(value: Any) -> Any:
    """Return a tensor or an array as nested lists, anything else unchanged."""
    return value.tolist() if isinstance(value, torch.Tensor | np.ndarray) else value


def tensor_of(value: Any, device: torch.device) -> Any:
    """Return a NumPy array as a tensor, integers as int64; anything else unchanged."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iufb":
        return value
    return torch.from_numpy(value.astype(np.int64) if value.dtype.kind in "iu" else value.copy()).to(device)


def ids_of(batch: object, device: torch.device) -> torch.Tensor | None:
    """Return a batch of token ids as a tensor `[rows, positions]`; `[T]` becomes one row. None for anything else.

    Accepts a tensor, an array or nested lists. Raises `BatchError` for rows of different lengths.
    """
    value = _from_lists(batch, device) if isinstance(batch, list | tuple | range) else tensor_of(batch, device)
    return _as_row(value) if isinstance(value, torch.Tensor) else None


def keywords_of(batch: Mapping[Any, Any], device: torch.device) -> dict[str, Any]:
    """Return the keyword arguments of a forward as a dict; NumPy arrays and lists of ids become tensors.

    A single row of ids becomes `[1, T]`.
    """
    found = {str(name): tensor_of(value, device) for name, value in batch.items()}
    for name in TOKEN_KEYS:
        if isinstance(found.get(name), list | tuple):
            tensor = _from_lists(found[name], device)
            found[name] = found[name] if tensor is None else tensor
    ids = found.get("input_ids")
    if isinstance(ids, torch.Tensor) and ids.dim() == 1:
        found |= {name: _as_row(found[name]) for name in TOKEN_KEYS if isinstance(found.get(name), torch.Tensor)}
    return found


def names_of(model: nn.Module) -> frozenset[str]:
    """Return the names of the arguments of a model's forward; empty if they cannot be known."""
    try:
        return frozenset(inspect.signature(model.forward).parameters)
    except Exception:
        # `forward` may be a property, or come out of a `__getattr__`, and raise anything.
        return frozenset()


def attribute(value: object, name: str) -> Any:
    """Return an attribute of a user's object; None where it has none, or where reading it raises."""
    try:
        return getattr(value, name, None)
    except Exception:
        return None


def _as_row(value: torch.Tensor) -> torch.Tensor:
    return value.unsqueeze(0) if value.dim() == 1 and not value.is_floating_point() else value


def _from_lists(rows: Sequence[Any], device: torch.device) -> torch.Tensor | None:
    """Return integers, or equally long lists of integers, as an int64 tensor; None for a sequence of anything else.

    Raises `BatchError` for rows of different lengths and for ids that are too large.
    """
    if len(rows) and all(_whole(value) for value in rows):
        return torch.tensor(_checked(rows), dtype=torch.int64, device=device)
    flat = [value for row in rows if isinstance(row, list | tuple | np.ndarray) for value in row]
    if not flat or any(not isinstance(row, list | tuple | np.ndarray) for row in rows):
        return None
    if not all(_whole(value) for value in flat):
        return None
    for index, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise BatchError(
                f"Row {index} has {len(row)} ids and row 0 has {len(rows[0])}; rows of different lengths are a "
                "decoder.Batch, `Batch.from_rows(inputs, targets)`, which pads them."
            )
    return torch.tensor([_checked(row) for row in rows], dtype=torch.int64, device=device)


def _checked(row: Sequence[Any]) -> list[int]:
    for value in row:
        if abs(int(value)) >= 2**62:
            raise BatchError(f"The batch holds {shown(int(value))}, which no vocabulary reaches.")
    return [int(value) for value in row]


def _whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
