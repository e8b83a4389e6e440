"""A cell: one recipe on one seed in one setting (size, dtype, batch and depth), with its key and its row in the store.

A cell is observed, with numbers, or refused, with the reason: its ratios are not finite, or it cannot run. The key is
the SHA-256 of the canonical JSON of all that determines the cell's numbers. The row of a finished cell also has a
digest of its columns, and is used only if the digest is right.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..canonical import canonical_json, engine_version
from ..decoder.base_draw import Distribution
from ..decoder.config import DecoderConfig
from ..decoder.parameters import layout
from ..decoder.splitmix64 import FloatArray
from ..health.columns import OBSERVED, REFUSED
from ..recipes.catalogue import recipe
from .grid import Setting, SweepGrid

COLUMNS = ("key", "recipe", "blocks", "seed", "status", "reason", "numbers", "digest")
NUMBER_BYTES = 8


class Cell(NamedTuple):
    """A finished (recipe, seed) cell; `reason` is empty unless the cell is refused.

    `numbers` are the loss, then the activation RMS of every residual site, then the adjoint (gradient) RMS of every
    site, as bytes; empty if the cell is refused.
    """

    key: bytes
    recipe: str
    blocks: int
    seed: int
    reason: str
    numbers: bytes


class CellResult(NamedTuple):
    """What the store has for one key: the numbers of an observed (recipe, seed) cell, or why it was refused."""

    reason: str
    numbers: FloatArray


def row_of(cell: Cell) -> tuple[Any, ...]:
    """Return the (recipe, seed) cell as a row of the database: its values in the order of `COLUMNS`."""
    key, recipe, blocks, seed, reason, numbers = cell
    values = (key, recipe, blocks, str(seed), REFUSED if reason else OBSERVED, reason, numbers)
    return (*values, _digest(values))


def cell_in(row: Sequence[Any], size: int | None = None) -> CellResult | None:
    """Return the result in one row of the database, or None if the row is damaged.

    `row` has the values of `COLUMNS`, text as bytes. A row is damaged if its digest is wrong or, for an observed cell
    and a given `size`, if it does not have exactly `size` numbers, all finite.
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
    """Return every row of the numbers `[n, k]` as bytes, in the format of the store: little-endian binary64."""
    data = np.ascontiguousarray(numbers, dtype="<f8").tobytes()
    size = NUMBER_BYTES * numbers.shape[1]
    return [data[start : start + size] for start in range(0, len(data), size)]


def _digest(values: Sequence[Any]) -> bytes:
    """Return the SHA-256 of all other columns.

    Each is preceded by its length, so that no byte can move between columns.
    """
    parts = [value if isinstance(value, bytes) else str(value).encode() for value in values]
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "little") + part for part in parts)).digest()


_SEED_PLACE = '"seed":""'


def cell_keys(grid: SweepGrid, setting: Setting, name: str, seeds: Iterable[int]) -> list[bytes]:
    """Return the keys, 32 bytes each, of the cells of one setting and one recipe, in the order of `seeds`.

    Raises `RecipeError` if the recipe cannot run in this setting.
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
    """Return the SHA-256 of a recipe's graph and factors at one size, as hexadecimal text.

    It is part of each key, so a recipe that is changed but keeps its name gets new cells.
    """
    chosen, sizes = recipe(name), layout(config)
    state = hashlib.sha256(repr((chosen.graph(config), chosen.profile)).encode())
    for spec in sizes.stem + sizes.block_template + sizes.tail:
        if law := chosen.laws.get(spec.role):
            std = distribution.base_std(spec)
            factors = [chosen.coefficient(spec, block, config, std) for block in range(config.blocks)]
            state.update(repr((spec.role, law.normalize, factors)).encode())
    return state.hexdigest()
