"""Build the arguments that a user's model is called with, and the targets of its loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from ...decoder.batch import PAD_ID, Batch
from ...decoder.splitmix64 import SplitMix64
from ...errors import BatchError, ObservationError, shown
from .batches import WANTED, attribute, ids_of, is_document, keywords_of, names_of, plain, tensor_of

IGNORED_TARGET = -100
DEFAULT_ROWS, DEFAULT_POSITIONS = 2, 13
LARGEST_DRAWN_ID = 2**16


@dataclass(frozen=True)
class ModelInputs:
    """The arguments of one call, with the targets `[B, T]` of its positions and which of them count, `valid` `[B, T]`.

    `first` is the argument that holds the batch: ids `[B, T]` or features `[B, T, ...]`. `floats` are the arguments
    that need a gradient. `targets` is None where there are no token ids; then the model's own scalar loss is
    differentiated.
    """

    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    rows: int
    positions: int
    valid: npt.NDArray[np.bool_]
    targets: torch.Tensor | None
    first: torch.Tensor
    floats: list[torch.Tensor] = field(default_factory=list)

    def moved(self, row: int, position: int) -> ModelInputs:
        """Return the same call with one token, or one feature vector, changed.

        A token becomes another one of the batch.
        """

        def changed(value: Any) -> Any:
            if value is not self.first:
                return value
            copy = value.detach().clone()
            if _whole(value):
                others = copy[copy != copy[row, position]]
                copy[row, position] = others[-1] if others.numel() else 0
            else:
                copy[row, position] += 1
            return copy

        arguments = tuple(changed(value) for value in self.arguments)
        keywords = {name: changed(value) for name, value in self.keywords.items()}
        return replace(self, arguments=arguments, keywords=keywords)


def model_inputs(model: nn.Module, batch: object, seed: int = 0) -> ModelInputs:
    """Return the inputs for token ids `[B, T]`, a `Batch` or its JSON form, or the arguments of the model's forward.

    Ids are a tensor, a NumPy array or nested lists; `[T]` is one row. Arguments are a mapping of keywords or a sequence
    of positional ones. None draws a small batch from `seed`. Without given targets, the target of a position is the
    next token of its row. Raises `BatchError` for anything else, `ObservationError` where no position has a valid
    target.
    """
    if batch is None:
        batch = random_batch(vocabulary_of(model), seed)
    if isinstance(batch, Mapping) and is_document(batch, names_of(model)):
        batch = Batch.from_document({name: plain(value) for name, value in batch.items()})
    if isinstance(batch, Batch):
        return _from_batch(model, batch)
    if isinstance(batch, Mapping):
        return _from_arguments((), keywords_of(batch, _device(model)), model)
    ids = ids_of(batch, _device(model))
    if ids is not None:
        return _from_arguments((ids,), {}, model)
    if isinstance(batch, Sequence) and not isinstance(batch, str | bytes):
        return _from_arguments(tuple(tensor_of(value, _device(model)) for value in batch), {}, model)
    raise BatchError(f"The batch is {shown(type(batch).__name__)}; {WANTED}.")


def random_batch(
    vocabulary: int,
    seed: int,
    rows: int = DEFAULT_ROWS,
    positions: int = DEFAULT_POSITIONS,
    avoid: frozenset[int] = frozenset(),
) -> Batch:
    """Return a small batch of uniform ids with the next ids as targets, drawn from a generator seeded with `seed`.

    Ids in `avoid` are not drawn, because a model may give them a meaning (padding, an image).
    """
    usable = np.setdiff1d(np.arange(min(vocabulary, LARGEST_DRAWN_ID)), np.fromiter(avoid, np.int64, len(avoid)))
    usable = usable if len(usable) else np.arange(vocabulary)
    drawn = SplitMix64(seed).next_bits(rows * (positions + 1)) % np.uint64(len(usable))
    ids = usable[drawn.astype(np.int64)].reshape(rows, positions + 1)
    return Batch.from_rows(ids[:, :-1].tolist(), ids[:, 1:].tolist())


def vocabulary_of(model: nn.Module) -> int:
    """How many token ids are safe for every embedding: the smallest of `vocab_size` and all `num_embeddings`.

    Raises `BatchError` where the model has neither.
    """
    known = [attribute(attribute(model, "config"), "vocab_size")]
    known += [module.num_embeddings for module in model.modules() if isinstance(module, nn.Embedding)]
    sizes = [size for size in known if isinstance(size, int) and size > 0]
    if not sizes:
        raise BatchError("The model has no nn.Embedding that tells its vocabulary; hand in a batch beside the model.")
    return min(sizes)


def _from_batch(model: nn.Module, batch: Batch) -> ModelInputs:
    if len(np.unique(batch.segments[batch.present])) > 1:
        raise BatchError("The batch packs several segments in a row, which a foreign model cannot be told; unpack it.")
    device = _device(model)
    # Whatever stands in padding is not looked up, as in the engine.
    ids = torch.from_numpy(np.where(batch.present, batch.inputs, PAD_ID)).to(device)
    keywords = _mask_keywords(model, torch.from_numpy(batch.present).to(device))
    if "input_ids" in names_of(model):
        keywords["input_ids"] = ids
    arguments = () if "input_ids" in keywords else (ids,)
    if not batch.present.all() and "attention_mask" not in keywords:
        _require_right_padding(batch.present)
    rows, positions = batch.inputs.shape
    return ModelInputs(arguments, keywords, rows, positions, batch.valid, torch.from_numpy(batch.targets), ids)


def _from_arguments(arguments: tuple[Any, ...], keywords: dict[str, Any], model: nn.Module) -> ModelInputs:
    tensors = [v for v in (*arguments, *keywords.values()) if isinstance(v, torch.Tensor)]
    named = keywords.get("input_ids")
    first = named if isinstance(named, torch.Tensor) else next((t for t in tensors if t.dim() >= 2), None)
    if first is None:
        raise BatchError(f"The batch holds no tensor of at least two axes, [rows, positions]; {WANTED}.")
    meta = next((tensor for tensor in tensors if tensor.is_meta), None)
    if meta is not None:
        raise BatchError(
            f"The batch holds a tensor {list(meta.shape)} on the meta device, which has no values; make it on "
            f"{_device(model)}, where the model is."
        )
    # An image has no positions before it is cut into patches; the stream shows them.
    rows, positions = int(first.shape[0]), int(first.shape[1]) if first.dim() < 4 else 1
    present = np.ones((rows, positions), dtype=bool)
    mask = keywords.get("attention_mask")
    if isinstance(mask, torch.Tensor) and mask.shape == (rows, positions):
        present = mask.detach().cpu().numpy().astype(bool)
        keywords = {**_mask_keywords(model, mask), **keywords}
    targets, valid = _targets(first, keywords.pop("labels", None), present)
    floats = [_differentiable(tensor) for tensor in tensors]
    swap = {id(old): new for old, new in zip(tensors, floats, strict=True)}
    arguments = tuple(swap.get(id(value), value) for value in arguments)
    keywords = {name: swap.get(id(value), value) for name, value in keywords.items()}
    if "use_cache" in names_of(model):
        keywords.setdefault("use_cache", False)
    moving = [tensor for tensor in floats if tensor.is_floating_point()]
    return ModelInputs(arguments, keywords, rows, positions, valid, targets, swap[id(first)], moving)


def _differentiable(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_floating_point():
        return tensor.detach().clone().requires_grad_()
    # Autograd cannot keep a tensor that was made in inference mode.
    return tensor.clone() if tensor.is_inference() else tensor


def _targets(
    first: torch.Tensor, labels: object, present: npt.NDArray[np.bool_]
) -> tuple[torch.Tensor | None, npt.NDArray[np.bool_]]:
    """Return the next tokens as targets `[B, T]` and their validity; None for targets where there are no token ids.

    A position is valid if it and the next are present and the label is not `IGNORED_TARGET`. Raises `ObservationError`
    where no position is valid.
    """
    source = labels if isinstance(labels, torch.Tensor) else first
    if not _whole(source) or source.dim() != 2:
        return None, present
    targets = torch.zeros_like(source, dtype=torch.int64)
    targets[:, :-1] = source[:, 1:]
    valid = np.zeros_like(present)
    valid[:, :-1] = present[:, :-1] & present[:, 1:]
    valid &= (targets != IGNORED_TARGET).cpu().numpy()
    if not valid.any():
        raise ObservationError("No position has a valid target; give rows of at least two present tokens.")
    return targets, valid


def _mask_keywords(model: nn.Module, present: torch.Tensor) -> dict[str, Any]:
    """Return the keywords for padding that the model's forward accepts.

    `position_ids` count the present tokens only.
    """
    names = names_of(model)
    keywords: dict[str, Any] = {}
    if "attention_mask" in names:
        keywords["attention_mask"] = present.to(torch.int64)
    if "position_ids" in names and not bool(present.all()):
        keywords["position_ids"] = (present.to(torch.int64).cumsum(1) - 1).clamp_min(0)
    if "use_cache" in names:
        keywords["use_cache"] = False
    return keywords


def _require_right_padding(present: npt.NDArray[np.bool_]) -> None:
    """Raise `BatchError` where a row is padded on the left."""
    if (np.diff(present.astype(np.int8), axis=1) > 0).any():
        raise BatchError(
            "The batch is padded on the left, but the model's forward takes no attention_mask; pad on the right."
        )


def _device(model: nn.Module) -> torch.device:
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))


def _whole(tensor: torch.Tensor) -> bool:
    return not tensor.is_floating_point() and not tensor.is_complex() and tensor.dtype != torch.bool
