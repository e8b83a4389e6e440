"""Save and restore a run bit for bit: `record.json` beside two safetensors files in the run's dtype."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from core import __version__
from core.decoder.config import Budget, DecoderConfig
from core.decoder.construction import ConstructionRecord, Decoder, restore
from core.decoder.parameters import layout
from core.decoder.recipes import recipe
from core.decoder.splitmix64 import checked_seed
from core.errors import DepthscopeError, StorageError
from core.strict_json import JsonValue, read_json

SCHEMA = "depthscope.record/1"
RECORD = "record.json"
ARMS = ("initialized", "control")
MAX_RECORD_BYTES = 2**22
STORED_DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class StoredRun:
    """The two arms of a run, with the dtype that their values were stored in."""

    initialized: Decoder
    control: Decoder
    dtype: str


def save_run(folder: str | os.PathLike[str], initialized: Decoder, control: Decoder, dtype: str) -> None:
    """Write a run's three files; the folder is made, and one that holds anything else is refused.

    Each file appears under its name only when whole. Raises `StorageError`.
    """
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        foreign = sorted(set(os.listdir(place)) - {RECORD, *(f"{arm}.safetensors" for arm in ARMS)})
        if foreign:
            raise StorageError(
                f"The folder {place} holds {foreign[0]!r}; save into an empty folder or an earlier run's."
            )
        for arm, decoder in zip(ARMS, (initialized, control), strict=True):
            tensors = {
                name: leaf.detach().to(STORED_DTYPES[dtype]).contiguous() for name, leaf in decoder.parameters.items()
            }
            _whole(place / f"{arm}.safetensors", lambda path, tensors=tensors: save_file(tensors, path))
        text = json.dumps(_record_document(initialized.record, dtype), indent=1, allow_nan=False)
        _whole(place / RECORD, lambda path: Path(path).write_text(text + "\n"))
    except (OSError, SafetensorError) as error:
        raise StorageError(f"The run cannot be saved in {place}: {_reason(error)}.") from error


def load_run(folder: str | os.PathLike[str], budget: Budget | None = None) -> StoredRun:
    """Restore both arms exactly as stored; the budget is checked before any tensor is read."""
    place = Path(folder)
    if not place.is_dir():
        raise StorageError(f"{place} is not a folder; give the folder that --save wrote.")
    record, dtype = _read_record(read_json(place / RECORD, max_bytes=MAX_RECORD_BYTES))
    (budget or Budget()).check(record.config, layout(record.config).parameters)
    initialized, control = (
        restore(record, _tensors(place / f"{arm}.safetensors", record.config, dtype)) for arm in ARMS
    )
    return StoredRun(initialized, control, dtype)


def _tensors(path: Path, config: DecoderConfig, dtype: str) -> Mapping[str, torch.Tensor]:
    try:
        found = load_file(path)
    except (OSError, SafetensorError) as error:
        raise StorageError(f"The weights {path} cannot be read: {_reason(error)}.") from error
    for name, tensor in found.items():
        if tensor.dtype != STORED_DTYPES[dtype]:
            raise StorageError(f"{name[:80]!r} is stored as {tensor.dtype}, but the record says {dtype}.")
    # safetensors keeps names in an order of its own; the layout's order is the one that is checked.
    ordered = {spec.name: found[spec.name] for spec in layout(config) if spec.name in found}
    ordered.update(found)
    return {name: tensor.to(torch.float64) for name, tensor in ordered.items()}


def _record_document(record: ConstructionRecord, dtype: str) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "version": __version__,
        "config": record.config.document(),
        "dtype": dtype,
        "recipe": record.recipe,
        "policy_id": record.policy_id,
        "base_initializer_id": record.base_initializer_id,
        "factor": record.factor,
        "initial_rng_state": str(record.initial_rng_state),
        "final_rng_state": str(record.final_rng_state),
        "selected_names": list(record.selected_names),
        "transformed_tensors": record.transformed_tensors,
        "shortcuts": None if record.shortcuts is None else [dict(block) for block in record.shortcuts],
    }


def _read_record(document: JsonValue) -> tuple[ConstructionRecord, str]:
    try:
        fields: dict[str, Any] = dict(document)  # type: ignore[arg-type]
        if fields.pop("schema") != SCHEMA:
            raise StorageError(f"{RECORD} is not a {SCHEMA} record; restore a folder that --save wrote.")
        dtype = fields["dtype"]
        if dtype not in STORED_DTYPES:
            raise StorageError(f"{RECORD} names an unknown dtype.")
        shortcuts = fields["shortcuts"]
        record = ConstructionRecord(
            config=DecoderConfig(**fields["config"]),
            recipe=recipe(fields["recipe"]).name,
            base_initializer_id=str(fields["base_initializer_id"]),
            factor=None if fields["factor"] is None else float(fields["factor"]),
            initial_rng_state=checked_seed(fields["initial_rng_state"]),
            final_rng_state=checked_seed(fields["final_rng_state"]),
            selected_names=tuple(str(name) for name in fields["selected_names"]),
            transformed_tensors=int(fields["transformed_tensors"]),
            shortcuts=None
            if shortcuts is None
            else tuple({k: float(v) for k, v in block.items()} for block in shortcuts),
        )
    except DepthscopeError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StorageError(
            f"{RECORD} is not a whole record ({_reason(error)}); restore a folder that --save wrote."
        ) from error
    return record, dtype


def _whole(path: Path, write: Any) -> None:
    partial = path.with_name(path.name + ".partial")
    try:
        write(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())[:120]
