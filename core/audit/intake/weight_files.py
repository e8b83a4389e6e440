"""Checks the weights of a model folder from an untrusted source: safetensors headers and index files.

Only headers are read. Errors are `AuditError`; missing, extra and duplicate tensors are not errors here, but are listed
for the code that loads the files.
"""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ...decoder.config import Budget
from ...errors import AuditError, BudgetError, Remedy, StorageError, shown
from ...strict_json import JsonValue, parse_json, read_json

CONFIG, SINGLE, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib", ".npy", ".npz")
ITEM_BYTES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2,
    "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1,
}  # fmt: skip
FLOATING = ("F64", "F32", "F16", "BF16")
MAX_HEADER_BYTES = 2**25
MAX_INDEX_BYTES = 2**25
MAX_FILES = 1000
MAX_DIMENSIONS = 8
SHARD_NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}\.safetensors")


@dataclass(frozen=True)
class WeightFiles:
    """The checked weight files of a folder.

    `tensors` maps the name of every tensor to (file, shape, type). `twice` has the names of tensors that several files
    hold, `absent` those that the index lists and no file holds.
    """

    folder: Path
    tensors: Mapping[str, tuple[str, tuple[int, ...], str]]
    twice: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def screen_folder(folder: str | os.PathLike[str], budget: Budget, name: str | None = None) -> WeightFiles:
    """Check every weight file of a model folder and return the `WeightFiles`; only headers are read, no tensor.

    Errors call the folder `name`, by default its path. Raises `AuditError`, `BudgetError` or `StorageError`.
    """
    place, called = Path(folder), shown(name or os.fspath(folder))
    if not (place / CONFIG).exists():
        raise AuditError(f"{called} holds no {CONFIG}; give the folder that a model was saved to.")
    _regular(place, CONFIG)
    names, promised = _shards(place, called)
    tensors: dict[str, tuple[str, tuple[int, ...], str]] = {}
    twice: list[str] = []
    for file in names:
        for tensor, (shape, dtype) in read_header(_regular(place, file)).items():
            if tensor in tensors:
                twice.append(tensor)
            tensors[tensor] = (file, shape, dtype)
    total = sum(math.prod(shape) for _, shape, _ in tensors.values())
    if total > budget.max_parameters:
        raise BudgetError(
            f"The weights hold {total:,} values, more than the budget of {budget.max_parameters:,}",
            Remedy.SMALL_WIDTHS,
            Remedy.PARAMETERS,
        )
    absent = tuple(sorted(set(promised) - set(tensors)))
    return WeightFiles(place, tensors, tuple(dict.fromkeys(twice)), absent, tuple(names))


def _shards(place: Path, called: str) -> tuple[list[str], list[str]]:
    """Return the names of the weight files, and those of the tensors that an index lists."""
    if (place / INDEX).exists():
        return _index(read_json(_regular(place, INDEX), name=INDEX, max_bytes=MAX_INDEX_BYTES))
    if (place / SINGLE).exists():
        return [SINGLE], []
    found = sorted(os.listdir(place))
    pickles = [name for name in found if name.lower().endswith(PICKLES)]
    if pickles:
        raise AuditError(
            f"{shown(pickles[0])} is a pickle, which can run code when it is read; save the model as safetensors."
        )
    weights = [name for name in found if name.endswith(".safetensors")]
    if not weights:
        raise AuditError(f"{called} holds no safetensors file; save the model with its weights.")
    if len(weights) > 1:
        raise AuditError(f"{called} holds {len(weights)} safetensors files but no {INDEX}; add the index.")
    return weights, []


def _index(document: JsonValue) -> tuple[list[str], list[str]]:
    entries = document.get("weight_map") if isinstance(document, dict) else None
    if not isinstance(entries, dict) or not entries:
        raise AuditError(f"{INDEX} holds no weight_map; save the model again.")
    for tensor, name in entries.items():
        if not isinstance(name, str) or not SHARD_NAME.fullmatch(name) or ".." in name:
            raise AuditError(
                f"{INDEX} places {shown(tensor)} in {shown(name)}; a shard is a .safetensors file in the same folder."
            )
    names = sorted({str(name) for name in entries.values()})
    if len(names) > MAX_FILES:
        raise AuditError(f"{INDEX} names {len(names):,} files; at most {MAX_FILES:,} are read.")
    return names, list(entries)


def _regular(place: Path, name: str) -> Path:
    """Return the path of a file in the folder, links resolved; they may lead to the folder or the blobs of a hub cache.

    Raises `AuditError` for any other link, and where it is not a regular file.
    """
    path = place / name
    try:
        target = path.resolve(strict=True)
        mode = target.stat().st_mode
    except OSError as error:
        raise AuditError(f"{shown(name)} cannot be read: {error.strerror}.") from error
    home = place.resolve()
    blobs = home.parent.parent / "blobs" if home.parent.name == "snapshots" else home
    if home not in target.parents and target.parent != blobs:
        raise AuditError(f"{shown(name)} is a link that leaves its folder; put the file itself there.")
    if not stat.S_ISREG(mode):
        raise AuditError(f"{shown(name)} is not a regular file.")
    return target


def read_header(path: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return a dict from the name of every tensor in a safetensors file to (shape, type).

    Raises `AuditError` if the header is not valid or does not fit the file's length.
    """
    size = path.stat().st_size
    with open(path, "rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or not 2 <= length <= min(MAX_HEADER_BYTES, size - 8):
            raise AuditError(f"{shown(path.name)} gives its header {length:,} bytes, but holds {size:,}.")
        data = stream.read(length)
    try:
        header = parse_json(data.rstrip(b" "), source=f"The header of {shown(path.name)}", max_bytes=MAX_HEADER_BYTES)
    except StorageError as error:
        raise AuditError(error.sentence, *error.ways) from error
    if not isinstance(header, dict):
        raise AuditError(f"The header of {shown(path.name)} is no object.")
    entries = {name: _entry(path.name, name, value) for name, value in header.items() if name != "__metadata__"}
    _check_spans(path.name, [(begin, end, name) for name, (_, _, begin, end) in entries.items()], size - 8 - length)
    return {name: (shape, dtype) for name, (shape, dtype, _, _) in entries.items()}


def _entry(file: str, name: str, value: JsonValue) -> tuple[tuple[int, ...], str, int, int]:
    trouble = AuditError(f"The header of {shown(file)} describes {shown(name)} in a way no tensor has.")
    if not isinstance(value, dict):
        raise trouble
    dtype = value.get("dtype")
    if not isinstance(dtype, str) or dtype not in ITEM_BYTES:
        raise AuditError(f"{shown(name)} in {shown(file)} has the type {shown(dtype)}, which is not read.")
    shape, offsets = _whole_numbers(value.get("shape")), _whole_numbers(value.get("data_offsets"))
    if shape is None or len(shape) > MAX_DIMENSIONS or offsets is None or len(offsets) != 2:
        raise trouble
    begin, end = offsets
    if end - begin != math.prod(shape) * ITEM_BYTES[dtype]:
        raise AuditError(
            f"{shown(name)} in {shown(file)} gives itself {end - begin:,} bytes, which its shape and type do not fill."
        )
    return tuple(shape), dtype, begin, end


def _whole_numbers(values: JsonValue) -> list[int] | None:
    """Return a list of integers that JSON holds exactly (0 to 2**53 - 1); None for anything else."""
    found = [n for n in values if type(n) is int and 0 <= n < 2**53] if isinstance(values, list) else []
    return found if isinstance(values, list) and len(found) == len(values) else None


def _check_spans(file: str, spans: list[tuple[int, int, str]], data_bytes: int) -> None:
    """Raise `AuditError` unless the tensors follow each other without gaps and fill the file."""
    reached = 0
    for begin, end, name in sorted(spans):
        if begin != reached:
            raise AuditError(f"{shown(name)} in {shown(file)} overlaps another tensor or leaves a gap before it.")
        reached = end
    if reached != data_bytes:
        raise AuditError(f"The tensors of {shown(file)} take {reached:,} bytes, but the file holds {data_bytes:,}.")
