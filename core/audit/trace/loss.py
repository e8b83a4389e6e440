"""Compute the loss to differentiate from what a model returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    """The loss to differentiate. `root` is the tensor whose graph is read; `mean` is the loss, `[1]`, in nats.

    `reduction` describes the mean for the document, `valid` `[B, T]` holds the positions that count.
    """

    root: torch.Tensor
    mean: torch.Tensor
    reduction: str
    valid: npt.NDArray[np.bool_]


def loss_of(output: Any, inputs: ModelInputs) -> Loss:
    """Return the loss to differentiate: over valid targets, else the model's own, else a drawn function of its outputs.

    Raises `AuditError` where the output holds no floating-point tensor with a gradient, `BatchError` where a target is
    outside the logits' vocabulary.
    """
    # Without a graph there is nothing to differentiate.
    every = [tensor for tensor in tensors_in(output) if tensor.numel()]
    found = [tensor for tensor in every if tensor.is_floating_point() and tensor.grad_fn is not None]
    own = _own_loss(output, found)
    loss = _over_targets(output, found, inputs, own)
    if loss is not None:
        return loss
    if own is not None:
        return Loss(own, own.to(torch.float64).reshape(1), "the model's own loss", inputs.valid)
    if found:
        mean = _drawn_function(found)
        return Loss(mean, mean, "mean of the outputs times signs, which were drawn", inputs.valid)
    if any(tensor.is_floating_point() for tensor in every):
        raise AuditError("The model's output carries no gradient: its forward detaches it or runs under no_grad.")
    raise AuditError(
        "The model returned no floating-point tensor with values; let its forward return one that its weights make."
    )


def _over_targets(
    output: Any, found: Sequence[torch.Tensor], inputs: ModelInputs, own: torch.Tensor | None
) -> Loss | None:
    """Return the loss over the targets, given or drawn, of the first output that holds logits; None where none does."""
    states = _named(output, "last_hidden_state")
    for tensor in found:
        logits = None if tensor is states else _logits(tensor, inputs)
        if logits is None:
            continue
        last = "" if logits.shape[1] == inputs.positions else f" of the last {logits.shape[1]} positions"
        if inputs.targets is None:
            if own is not None:
                continue
            everywhere = np.ones_like(inputs.valid)
            mean = _mean_loss(logits, _drawn_targets(inputs, logits.shape[-1]), everywhere)
            assert mean is not None
            return Loss(tensor, mean, f"mean over targets{last}, which were drawn", everywhere)
        if int(inputs.first.max()) >= logits.shape[-1]:
            # States, or labels of tokens: the batch's own ids have no place among them.
            continue
        _check_targets(inputs, logits.shape[-1])
        mean = _mean_loss(logits, inputs.targets, inputs.valid)
        if mean is not None:
            return Loss(tensor, mean, f"mean over valid targets{last}", inputs.valid)
        if own is None:
            everywhere = np.ones_like(inputs.valid)
            mean = _mean_loss(logits, _drawn_targets(inputs, logits.shape[-1]), everywhere)
            assert mean is not None
            return Loss(tensor, mean, f"mean over targets{last}, which were drawn", everywhere)
    return None


def _own_loss(output: Any, found: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """Return the scalar named loss, else a scalar that stands beside no other name; None where there is none."""
    named = _named(output, "loss")
    scalars = [tensor for tensor in found if tensor.numel() == 1]
    if any(tensor is named for tensor in scalars):
        assert isinstance(named, torch.Tensor)
        return named
    if isinstance(output, Mapping) and len(scalars) < len(found):
        return None
    return scalars[0] if scalars else None


def _drawn_function(outputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the sum `[1]` of the means of all outputs, each element times a sign drawn from seed 0."""
    draws, means = SplitMix64(0), []
    for output in outputs:
        signs = 1.0 - 2.0 * (draws.next_bits(output.numel()) >> np.uint64(63)).astype(np.float64)
        means.append((output.double() * torch.from_numpy(signs).to(output.device).reshape(output.shape)).mean())
    return torch.stack(means).sum().reshape(1)


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
    if tensor.dim() == 3 and tensor.shape[:2] == (positions, rows) and rows != positions:
        return tensor.transpose(0, 1)
    if tensor.dim() == 3 and tensor.shape[0] == rows and tensor.shape[1] <= positions:
        return tensor
    if tensor.dim() == 2 and tensor.shape[0] == rows * positions:
        return tensor.view(rows, positions, -1)
    return None


def tensors_in(output: Any, depth: int = 2) -> list[torch.Tensor]:
    """Return the tensors of an output: the one named logits first, then the others in order.

    Where containers hold no tensor themselves, those inside them are asked, `depth` times.
    """
    if isinstance(output, torch.Tensor):
        return [output]
    if isinstance(output, Mapping):
        values = list(output.values())
    elif isinstance(output, list | tuple):
        values = list(output)
    else:
        values = list(vars(output).values()) if hasattr(output, "__dict__") else []
    named = _named(output, "logits")
    tensors = [value for value in (named, *values) if isinstance(value, torch.Tensor)]
    if not any(tensor.grad_fn is not None for tensor in tensors) and depth:
        tensors += [tensor for value in values for tensor in tensors_in(value, depth - 1)]
    return list({id(tensor): tensor for tensor in tensors}.values())


def _named(output: Any, name: str) -> Any:
    first = getattr(output, name, None)
    return output.get(name) if first is None and isinstance(output, Mapping) else first
