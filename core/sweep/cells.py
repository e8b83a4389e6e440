"""A cell: its identity, and its row in the store.

The key is SHA-256 of the canonical JSON of everything that decides the cell's numbers. The row of a finished cell has a
digest of all its columns, and is trusted only where that fits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..decoder.base_draw import Distribution
from ..decoder.config import DecoderConfig
from ..decoder.parameters import layout
from ..decoder.splitmix64 import FloatArray
from ..health.columns import OBSERVED, REFUSED
from ..recipes.catalogue import recipe
from .canonical import canonical_json, engine_version
from .grid import Setting, SweepGrid

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


_SEED_PLACE = '"seed":""'


def cell_keys(grid: SweepGrid, setting: Setting, name: str, seeds: Iterable[int]) -> list[bytes]:
    """Keys of the cells of one setting and recipe, in the order of `seeds`; 32 bytes each.

    Raises `RecipeError` for a recipe that does not run there.
    """
    text = canonical_json(
        {
            "base_draw": [grid.distribution.std, grid.distribution.cut, grid.distribution.embedding_std],
            "batch": setting.batch.digest(),
            "config": setting.config.document(),
            "device": grid.device,
            "dtype": setting.dtype,
            "engine": engine_version(),
            "law": law_digest(name, setting.config, grid.distribution),
            "recipe": name,
            "seed": "",
        }
    )
    # Keys are sorted and "seed" comes last, so only its digits differ from cell to cell.
    assert text.endswith(_SEED_PLACE + "}")
    head = hashlib.sha256(text[: -len('"}')].encode())
    keys = []
    for seed in seeds:
        state = head.copy()
        state.update(f'{seed}"}}'.encode())
        keys.append(state.digest())
    return keys


@lru_cache(maxsize=4096)
def law_digest(name: str, config: DecoderConfig, distribution: Distribution) -> str:
    """SHA-256 of what a recipe does at one size, so that a recipe changed under its name has other cells."""
    chosen, sizes = recipe(name), layout(config)
    state = hashlib.sha256(repr((chosen.graph(config), chosen.profile)).encode())
    for spec in sizes.stem + sizes.block_template + sizes.tail:
        if law := chosen.laws.get(spec.role):
            std = distribution.base_std(spec)
            factors = [chosen.coefficient(spec, block, config, std) for block in range(config.blocks)]
            state.update(repr((spec.role, law.normalize, factors)).encode())
    return state.hexdigest()
