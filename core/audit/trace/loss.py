"""Computes the mean loss over valid targets from what a model returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from ...decoder.splitmix64 import SplitMix64
from ...errors import AuditError, BatchError
from .inputs import ModelInputs


@dataclass(frozen=True)
class Loss:
    """The loss to differentiate.

    `root` is the tensor whose graph is read, such as the logits; `mean` `[1]` is the mean loss in nats. `reduction`
    describes the mean in words, and `valid` `[B, T]` says which positions count.
    """

    root: torch.Tensor
    mean: torch.Tensor
    reduction: str
    valid: npt.NDArray[np.bool_]


def loss_of(output: Any, inputs: ModelInputs) -> Loss:
    """Return the `Loss`, a mean over valid targets, computed from the output of a model.

    Raises `AuditError` if the output holds neither logits `[B, T, V]` nor a scalar loss, `BatchError` if a target is
    outside the logits' vocabulary.
    """
    # Without a graph there is nothing to differentiate.
    found = [tensor for tensor in _tensors(output) if tensor.is_floating_point() and tensor.grad_fn is not None]
    named = _named_logits(output)
    widest = 0
    for tensor in found:
        logits = _logits(tensor, inputs)
        if logits is None:
            continue
        if tensor is named:
            _check_targets(inputs, logits.shape[-1])
        widest = max(widest, logits.shape[-1])
        mean = _mean_loss(logits, inputs.targets, inputs.valid)
        last = "" if logits.shape[1] == inputs.positions else f" of the last {logits.shape[1]} positions"
        if mean is not None:
            return Loss(tensor, mean, f"mean over valid targets{last}", inputs.valid)
        if (inputs.targets is None or last) and not any(other.numel() == 1 for other in found):
            everywhere = np.ones_like(inputs.valid)
            mean = _mean_loss(logits, _drawn_targets(inputs, logits.shape[-1]), everywhere)
            assert mean is not None
            return Loss(tensor, mean, f"mean over targets{last}, which were drawn", everywhere)
    for tensor in found:
        if tensor.numel() == 1:
            return Loss(tensor, tensor.to(torch.float64).reshape(1), "the model's own loss", inputs.valid)
    if widest:
        _check_targets(inputs, widest)
    if not found and any(tensor.is_floating_point() for tensor in _tensors(output)):
        raise AuditError("The model's output carries no gradient: its forward detaches it or runs under no_grad.")
    raise AuditError(
        "The model returned no logits of shape [rows, positions, vocabulary] and no scalar loss; let its forward "
        "return one of them."
    )


def _mean_loss(logits: torch.Tensor, targets: torch.Tensor | None, valid: npt.NDArray[np.bool_]) -> torch.Tensor | None:
    """Return the mean cross entropy `[1]`, in nats, over the valid targets among the logits' positions.

    None where there are no such targets, or where one is outside the vocabulary.
    """
    first = valid.shape[1] - logits.shape[1]
    chosen = torch.from_numpy(np.flatnonzero(valid[:, first:]))
    if targets is None or not len(chosen):
        return None
    wanted = targets[:, first:].cpu().flatten()[chosen]
    if int(wanted.max()) >= logits.shape[-1] or int(wanted.min()) < 0:
        return None
    wide = torch.float64 if logits.dtype == torch.float64 else torch.float32
    rows = logits.flatten(0, 1)[chosen.to(logits.device)].to(wide)
    nats = functional.cross_entropy(rows, wanted.to(logits.device), reduction="none")
    return nats.to(torch.float64).mean().reshape(1)


def _check_targets(inputs: ModelInputs, vocabulary: int) -> None:
    """Raise `BatchError` for the first valid target that is outside a vocabulary of this size."""
    if inputs.targets is None:
        return
    targets = inputs.targets.cpu().numpy()
    outside = np.argwhere(inputs.valid & ((targets < 0) | (targets >= vocabulary)))
    if len(outside):
        row, position = outside[0]
        raise BatchError(
            f"The target id {targets[row, position]} in row {row}, position {position}, is outside the vocabulary of "
            f"{vocabulary} that the model has logits for; ids run from 0 to {vocabulary - 1}."
        )


def _drawn_targets(inputs: ModelInputs, vocabulary: int) -> torch.Tensor:
    drawn = SplitMix64(0).next_bits(inputs.rows * inputs.positions) % np.uint64(vocabulary)
    return torch.from_numpy(drawn.astype(np.int64).reshape(inputs.rows, inputs.positions))


def _logits(tensor: torch.Tensor, inputs: ModelInputs) -> torch.Tensor | None:
    """Return logits `[B, T, V]`, or `[B, T', V]` where the model returns the last T' positions only.

    None if `tensor` has neither shape.
    """
    rows, positions = inputs.rows, inputs.positions
    if not tensor.numel():
        return None
    if tensor.dim() == 3 and tensor.shape[:2] == (positions, rows) and rows != positions:
        return tensor.transpose(0, 1)
    if tensor.dim() == 3 and tensor.shape[0] == rows and tensor.shape[1] <= positions:
        return tensor
    if tensor.dim() == 2 and tensor.shape[0] == rows * positions:
        return tensor.view(rows, positions, -1)
    return None


def _tensors(output: Any) -> list[torch.Tensor]:
    """Return the tensors of an output: the one named logits first, then the others in order."""
    values = [_named_logits(output), output]
    if isinstance(output, Mapping):
        values += list(output.values())
    elif isinstance(output, list | tuple):
        values += list(output)
    return [value for value in values if isinstance(value, torch.Tensor)]


def _named_logits(output: Any) -> Any:
    first = getattr(output, "logits", None)
    return output.get("logits") if first is None and isinstance(output, Mapping) else first
