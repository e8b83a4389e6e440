"""Save and restore a run bit for bit: `record.json` beside two safetensors files in the run's dtype."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from core import __version__
from core.decoder.config import Budget, DecoderConfig
from core.decoder.construction import ConstructionRecord, Decoder, Shortcuts, restore
from core.decoder.graph import Graph
from core.decoder.parameters import layout
from core.decoder.recipes import recipe
from core.decoder.splitmix64 import checked_seed
from core.errors import DepthscopeError, LayoutError, StorageError
from core.strict_json import JsonValue, read_json

SCHEMA = "depthscope.record/1"
RECORD = "record.json"
ARMS = ("initialized", "control")
MAX_RECORD_BYTES = 2**22
PARTIAL = ".partial"
STORED_DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}
# The same types as a safetensors header names them.
HEADER_DTYPES = {"float64": "F64", "float32": "F32", "bfloat16": "BF16"}


@dataclass(frozen=True)
class StoredRun:
    """The two arms of a run, with the dtype that their values were stored in."""

    initialized: Decoder
    control: Decoder
    dtype: str


def save_run(folder: str | os.PathLike[str], initialized: Decoder, control: Decoder, dtype: str) -> None:
    """Write a run's three files; the folder is made, and one that holds anything else is refused.

    Each file appears under its name only when whole, the record last and an earlier one removed first, so that a record
    never stands beside the weights of another run. Raises `StorageError`.
    """
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        own = [RECORD, *(f"{arm}.safetensors" for arm in ARMS)]
        foreign = sorted(set(os.listdir(place)) - {*own, *(name + PARTIAL for name in own)})
        if foreign:
            raise StorageError(
                f"The folder {place} holds {foreign[0]!r}; save into an empty folder or an earlier run's."
            )
        (place / RECORD).unlink(missing_ok=True)
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
    if not (place / RECORD).exists():
        raise StorageError(f"The folder {place} has no {RECORD}; restore a whole folder that --save wrote.")
    record, dtype = _read_record(read_json(place / RECORD, max_bytes=MAX_RECORD_BYTES), budget or Budget())
    initialized, control = (
        restore(record, _tensors(place / f"{arm}.safetensors", record.config, dtype)) for arm in ARMS
    )
    return StoredRun(initialized, control, dtype)


def _tensors(path: Path, config: DecoderConfig, dtype: str) -> Mapping[str, torch.Tensor]:
    try:
        if not path.is_file():
            raise StorageError(f"The weights {path} are missing; restore a whole folder that --save wrote.")
        with safe_open(path, framework="pt") as stored:
            _check_header(path, stored, config, dtype)
            return {spec.name: stored.get_tensor(spec.name).to(torch.float64) for spec in layout(config)}
    except (OSError, SafetensorError) as error:
        raise StorageError(f"The weights {path} cannot be read: {_reason(error)}.") from error


def _check_header(path: Path, stored: Any, config: DecoderConfig, dtype: str) -> None:
    """Refuse names, types and shapes that are not the record's, before any tensor is read."""
    wanted = {spec.name: spec.shape for spec in layout(config)}
    names = set(stored.keys())
    for name in (*wanted, *sorted(names)):
        if name not in names or name not in wanted:
            what = "lacks" if name in wanted else "holds the unknown"
            raise LayoutError(f"The file {path} {what} tensor {name[:80]!r}; restore a folder that --save wrote.")
    for name, shape in wanted.items():
        header = stored.get_slice(name)
        if header.get_dtype() != HEADER_DTYPES[dtype]:
            raise StorageError(f"{name} is stored as {header.get_dtype()} in {path}, but the record says {dtype}.")
        if tuple(header.get_shape()) != shape:
            raise LayoutError(f"{name} has shape {header.get_shape()} in {path}; this decoder needs {list(shape)}.")


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


def _read_record(document: JsonValue, budget: Budget) -> tuple[ConstructionRecord, str]:
    try:
        fields: dict[str, Any] = dict(document)  # type: ignore[arg-type]
        if fields.pop("schema") != SCHEMA:
            raise StorageError(f"{RECORD} is not a {SCHEMA} record; restore a folder that --save wrote.")
        dtype = fields["dtype"]
        if dtype not in STORED_DTYPES:
            raise StorageError(f"{RECORD} names an unknown dtype; it may be {', '.join(STORED_DTYPES)}.")
        config = DecoderConfig(**{name: fields["config"][name] for name in DecoderConfig().document()})
        budget.check(config, layout(config).parameters)
        chosen = recipe(fields["recipe"])
        record = ConstructionRecord(
            config=config,
            recipe=chosen.name,
            base_initializer_id=str(fields["base_initializer_id"]),
            factor=None if fields["factor"] is None else float(fields["factor"]),
            initial_rng_state=checked_seed(fields["initial_rng_state"]),
            final_rng_state=checked_seed(fields["final_rng_state"]),
            selected_names=tuple(str(name) for name in fields["selected_names"]),
            transformed_tensors=int(fields["transformed_tensors"]),
            shortcuts=_shortcuts(chosen.graph(config), fields["shortcuts"]),
        )
    except DepthscopeError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StorageError(
            f"{RECORD} is not a whole record ({_reason(error)}); restore a folder that --save wrote."
        ) from error
    return record, dtype


def _shortcuts(graph: Graph, stored: Any) -> Shortcuts | None:
    """The measured shortcuts of a graph that has any: by block, one positive finite number a key."""
    keys = [{addition.shortcut for addition in block if isinstance(addition.shortcut, str)} for block in graph.blocks]
    if not any(keys):
        return None
    found = tuple({key: float(value) for key, value in block.items()} for block in stored)
    if [set(block) for block in found] != keys or not all(0 < v < math.inf for block in found for v in block.values()):
        raise StorageError(
            f"{RECORD} does not hold the shortcut of every addition; restore a folder that --save wrote."
        )
    return found


def _whole(path: Path, write: Any) -> None:
    partial = path.with_name(path.name + PARTIAL)
    try:
        write(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())[:120]
