"""A finished cell as the store keeps it: a row with a digest of all its columns, trusted only where that fits."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..decoder.splitmix64 import FloatArray
from ..health.columns import OBSERVED, REFUSED

COLUMNS = ("key", "recipe", "blocks", "seed", "status", "reason", "numbers", "digest")
NUMBER_BYTES = 8


class Cell(NamedTuple):
    """A finished cell. `numbers` packs the loss, then every site's activation and adjoint RMS; empty where refused."""

    key: bytes
    recipe: str
    blocks: int
    seed: int
    reason: str
    numbers: bytes


class CellResult(NamedTuple):
    """What the store says of a key: numbers, or the reason of a refusal."""

    reason: str
    numbers: FloatArray


def row_of(cell: Cell) -> tuple[Any, ...]:
    """The cell's values of `COLUMNS`."""
    key, recipe, blocks, seed, reason, numbers = cell
    values = (key, recipe, blocks, str(seed), REFUSED if reason else OBSERVED, reason, numbers)
    return (*values, _digest(values))


def cell_in(row: Sequence[Any], size: int | None = None) -> CellResult | None:
    """What a row of `COLUMNS` says, its text as bytes; None where it is damaged.

    `size` is how many numbers, all finite, an observed cell must have; any count and value will do without it.
    """
    *values, digest = row
    reason, numbers = values[-2:]
    if digest != _digest(values) or len(numbers) % NUMBER_BYTES:
        return None
    cell = CellResult(reason.decode(), np.frombuffer(numbers, dtype="<f8"))
    if size is not None and not reason and not (len(cell.numbers) == size and np.isfinite(cell.numbers).all()):
        return None
    return cell


def packed(numbers: FloatArray) -> list[bytes]:
    """Every row of `[n, k]` numbers as a cell holds them: little-endian binary64."""
    data = np.ascontiguousarray(numbers, dtype="<f8").tobytes()
    size = NUMBER_BYTES * numbers.shape[1]
    return [data[start : start + size] for start in range(0, len(data), size)]


def _digest(values: Sequence[Any]) -> bytes:
    """SHA-256 of all other columns, each led by its length, so that nothing can move from one to the next."""
    parts = [value if isinstance(value, bytes) else str(value).encode() for value in values]
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "little") + part for part in parts)).digest()
