"""Saves and restores a run bit for bit: `record.json` and two safetensors files in the run's dtype.

One file has the weights with the recipe (`initialized`), the other those without (`control`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from ..decoder.config import Budget, DecoderConfig
from ..decoder.parameters import layout
from ..errors import ConstructionError, Remedy, StorageError
from ..files import file_digest, replacing
from .record import (
    ARMS,
    HEADER_DTYPES,
    RECORD,
    check_run_folder,
    one_line,
    read_record,
    record_document,
    weights_name,
)
from .states import Decoder, restore


@dataclass(frozen=True)
class StoredRun:
    """The two decoders of a run, with a recipe (`initialized`) and without (`control`), and their stored dtype.

    `changed` has the names of those whose file is not the one that was saved, for example because it was edited.
    """

    initialized: Decoder
    control: Decoder
    dtype: str
    changed: tuple[str, ...] = ()


def save_run(folder: str | os.PathLike[str], initialized: Decoder, control: Decoder, dtype: str) -> None:
    """Write a run's three files into `folder`, which is created if missing.

    An earlier run in it is replaced only once the new files are complete, and the record is moved last, so that it is
    never beside the weights of another run. Raises `StorageError` if the folder holds anything but a run or cannot be
    written.
    """
    place = Path(folder)
    check_run_folder(place)
    weights = [place / weights_name(arm) for arm in ARMS]
    try:
        place.mkdir(parents=True, exist_ok=True)
        with replacing(*weights, place / RECORD, seal=place / RECORD) as (*asides, record):
            for aside, decoder in zip(asides, (initialized, control), strict=True):
                kind = getattr(torch, dtype)
                save_file(
                    {name: leaf.detach().to(kind).contiguous() for name, leaf in decoder.parameters.items()}, aside
                )
            digests = {arm: file_digest(aside) for arm, aside in zip(ARMS, asides, strict=True)}
            document = record_document(initialized.record, dtype, digests)
            record.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n")
    except (OSError, SafetensorError) as error:
        raise StorageError(f"The run cannot be saved in {place}: {one_line(error)}.") from error


def load_run(folder: str | os.PathLike[str], budget: Budget | None = None) -> StoredRun:
    """Return the `StoredRun` in `folder` with the values exactly as stored; sizes are checked against `budget` first.

    Weights may be edited on purpose, so a file with another digest is restored and named in `changed`. Raises
    `StorageError` for missing or damaged files, `ConstructionError` for tensors that do not fit the record, and the
    errors of `read_record`.
    """
    record, dtype, digests = read_record(folder, budget)
    files = {arm: Path(folder) / weights_name(arm) for arm in ARMS}
    initialized, control = (restore(record, _tensors(path, record.config, dtype)) for path in files.values())
    changed = tuple(arm for arm, path in files.items() if arm in digests and file_digest(path) != digests[arm])
    return StoredRun(initialized, control, dtype, changed)


def _tensors(path: Path, config: DecoderConfig, dtype: str) -> Mapping[str, torch.Tensor]:
    try:
        if not path.is_file():
            raise StorageError(f"The weights {path} are missing", Remedy.RESTORED)
        with safe_open(path, framework="pt") as stored:
            _check_header(path, stored, config, dtype)
            return {spec.name: stored.get_tensor(spec.name).to(torch.float64) for spec in layout(config)}
    except (OSError, SafetensorError) as error:
        raise StorageError(f"The weights {path} cannot be read: {one_line(error)}.") from error


def _check_header(path: Path, stored: Any, config: DecoderConfig, dtype: str) -> None:
    """Raise an error if names, dtypes or shapes are not those of the record, before any tensor is read."""
    wanted = {spec.name: spec.shape for spec in layout(config)}
    names = set(stored.keys())
    for name in (*wanted, *sorted(names)):
        if name not in names or name not in wanted:
            what = "lacks" if name in wanted else "holds the unknown"
            raise ConstructionError(f"The file {path} {what} tensor {name[:80]!r}", Remedy.RESTORED)
    for name, shape in wanted.items():
        header = stored.get_slice(name)
        if header.get_dtype() != HEADER_DTYPES[dtype]:
            raise StorageError(f"{name} is stored as {header.get_dtype()} in {path}, but the record says {dtype}.")
        if tuple(header.get_shape()) != shape:
            raise ConstructionError(
                f"{name} has shape {header.get_shape()} in {path}; this decoder needs {list(shape)}."
            )
