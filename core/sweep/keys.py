"""The identity of a cell: SHA-256 of the canonical JSON of everything that decides its numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache

from ..decoder.base_draw import Distribution
from ..decoder.config import DecoderConfig
from ..decoder.parameters import layout
from ..recipes.catalogue import recipe
from .canonical import canonical_json, engine_version
from .grid import Setting, SweepGrid

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
