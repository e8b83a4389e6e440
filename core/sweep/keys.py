"""The identity of a cell: SHA-256 of the canonical JSON of everything that decides its numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from core.decoder.base_draw import Distribution
from core.sweep.canonical import canonical_json, engine_version
from core.sweep.grid import Setting, SweepGrid

_SEED_PLACE = '"seed":""'


def _base_draw(distribution: Distribution) -> list[float | None]:
    """What decides the draws; a part that came later stands only where it is used, so that earlier keys stay."""
    embedding = [] if distribution.embedding_std is None else [distribution.embedding_std]
    return [distribution.std, distribution.cut, *embedding]


def cell_keys(grid: SweepGrid, setting: Setting, recipe: str, seeds: Iterable[int]) -> list[bytes]:
    """Keys of the cells of one setting and recipe, in the order of `seeds`; 32 bytes each."""
    text = canonical_json(
        {
            "base_draw": _base_draw(grid.distribution),
            "batch": setting.batch.digest(),
            "config": setting.config.document(),
            "device": grid.device,
            "dtype": setting.dtype,
            "engine": engine_version(),
            "recipe": recipe,
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
