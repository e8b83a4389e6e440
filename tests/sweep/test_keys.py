"""A cell's identity: the SHA-256 of everything that decides its numbers, and of nothing else."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest

from core.canonical import engine_version
from core.decoder.base_draw import Distribution
from core.decoder.config import DecoderConfig
from core.health.band import Band
from core.recipes.catalogue import recipe
from core.sweep.cells import cell_keys, law_digest
from core.sweep.grid import SweepGrid
from tests.sweep.support import TWO_ROWS, small_grid

SEEDS = (0, 17, 2**64 - 1)


def keys(grid: SweepGrid, recipe: str = "gpt2") -> list[bytes]:
    return cell_keys(grid, grid.settings[0], recipe, SEEDS)


def test_a_key_is_the_digest_of_canonical_json() -> None:
    grid = small_grid(distribution=Distribution(0.02, 3.0))
    for seed, key in zip(SEEDS, keys(grid), strict=True):
        identity = {
            "base_draw": [0.02, 3.0, None],
            "batch": grid.batches[0].digest(),
            "config": grid.settings[0].config.document(),
            "device": "cpu",
            "dtype": "float64",
            "engine": engine_version(),
            "law": law_digest("gpt2", grid.settings[0].config, grid.distribution),
            "recipe": "gpt2",
            "seed": str(seed),
        }
        text = json.dumps(identity, sort_keys=True, separators=(",", ":"))
        assert key == hashlib.sha256(text.encode()).digest()


def test_whatever_decides_the_numbers_changes_the_key() -> None:
    grids = [
        small_grid(),
        small_grid(blocks=(2,)),
        small_grid(dtypes=("float32",)),
        small_grid(batches=(TWO_ROWS,), sizes=(DecoderConfig(positions=8),)),
        small_grid(sizes=(DecoderConfig(positions=8),)),
        small_grid(sizes=(DecoderConfig(rope_base=500.0),)),
        small_grid(device="cuda"),
        small_grid(distribution=Distribution(0.02)),
        small_grid(distribution=Distribution(embedding_std=0.02)),
        small_grid(distribution=Distribution(0.02, embedding_std=0.02)),
        small_grid(distribution=Distribution(0.02, 0.02)),
    ]
    found = [key for grid in grids for key in keys(grid)] + keys(small_grid(), "lns")
    assert len(set(found)) == len(found)


def test_what_does_not_decide_them_leaves_the_key() -> None:
    other = small_grid(seeds=(5,), blocks=(1, 64), recipes=("lns", "gpt2"), band=Band(0.5, 2.0))
    assert keys(other) == keys(small_grid())


def test_a_recipe_changed_under_its_name_has_other_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    before = keys(small_grid())
    shallower = replace(recipe("gpt2"), laws=recipe("lingua-global").laws)
    monkeypatch.setattr("core.sweep.cells.recipe", lambda name: shallower)
    law_digest.cache_clear()
    assert not set(before) & set(keys(small_grid()))
    law_digest.cache_clear()
