"""A fixed sample of cells, as the store keeps them, beside what this engine number has always given.

Run `python -m tests.sweep.golden_cells` after raising `core.canonical.ENGINE`; it writes no other numbers under
the same number. Values and not digests, for kernels of other processors round differently: 1e-12 in float64 is some
thousand times that rounding, and far below what any change of a formula, an order of draws or a column does. The narrow
types are held to what their own rounding leaves. Statuses and reasons are exact.
"""

from __future__ import annotations

import json
import sqlite3
import struct
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.canonical import ENGINE
from core.decoder.base_draw import Distribution
from core.decoder.config import DecoderConfig
from core.recipes.catalogue import RECIPES
from core.sweep.cells import cell_keys
from core.sweep.grid import SweepGrid
from core.sweep.process import use_one_thread
from core.sweep.run import SweepRun
from core.sweep.store import Store
from tests.sweep.support import TWO_ROWS, finish

PLACE = Path(__file__).parents[1] / "golden" / "cells.json"
TOLERANCES = {"float64": 1e-12, "float32": 1e-4, "bfloat16": 0.1}
RUNNABLE = tuple(known.name for known in RECIPES if known.refusal is None)
ROOMY = DecoderConfig(width=12, heads=4, kv_heads=2, head_dim=2, ff_width=20, positions=6)
OTHER_FAMILY = replace(ROOMY, norm="layernorm", mlp="gelu", position_encoding="learned", tied=False, bias=True)


def grids() -> dict[str, SweepGrid]:
    """Every recipe once, then depths, families, head counts, types, base draws and a refusal."""
    some = ("depth-scaled", "admin", "deepnorm", "lns+gpt2")
    shared = (ROOMY, replace(ROOMY, heads=6, kv_heads=1))
    families = ("gpt2", "peri-norm", "post-norm")
    return {
        "every recipe": SweepGrid(blocks=(2,), seeds=(4701,), recipes=RUNNABLE),
        "depths and seeds": SweepGrid(blocks=(1, 3, 20), seeds=(0, 2**64 - 1), recipes=("gpt2", "layerscale")),
        "rows and shared heads": SweepGrid(blocks=(2,), seeds=(7,), recipes=some, sizes=shared, batches=(TWO_ROWS,)),
        "other family": SweepGrid(
            blocks=(2,), seeds=(7,), recipes=families, sizes=(OTHER_FAMILY,), batches=(TWO_ROWS,)
        ),
        "types": SweepGrid(blocks=(4,), seeds=(3,), recipes=some, dtypes=("float64", "float32", "bfloat16")),
        "normal draws": SweepGrid(blocks=(2,), seeds=(5,), recipes=some, distribution=Distribution(0.02)),
        "truncated draws": SweepGrid(blocks=(2,), seeds=(5,), distribution=Distribution(0.02, 2.5)),
        "refused": SweepGrid(blocks=(2,), seeds=(0, 1), dtypes=("float32",), distribution=Distribution(1e30)),
    }


def computed() -> list[dict[str, Any]]:
    """The sample, computed now; numbers are unpacked here as little-endian binary64 from the bytes in the file."""
    found = []
    for label, grid in grids().items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "cells.sqlite"
            with Store.open(path) as store:
                finish(SweepRun(grid, store))
            connection = sqlite3.connect(path)
            found += [{"sample": label, **cell} for cell in _stored(connection, grid)]
            connection.close()
    return found


def differences(golden: list[dict[str, Any]], ours: list[dict[str, Any]]) -> list[str]:
    """Names of the cells of which anything differs."""
    if len(golden) != len(ours):
        return [f"{len(golden)} cells and {len(ours)}"]
    return [_name(old) for old, new in zip(golden, ours, strict=True) if not _agree(old, new)]


def _stored(connection: sqlite3.Connection, grid: SweepGrid) -> Iterator[dict[str, Any]]:
    for setting in grid.settings:
        for name in grid.computed:
            for seed, key in zip(grid.seeds, cell_keys(grid, setting, name, grid.seeds), strict=True):
                (status, reason, numbers) = connection.execute(
                    "SELECT status, reason, numbers FROM cells WHERE key = ?", (key,)
                ).fetchone()
                yield {
                    "width": setting.config.width, "heads": setting.config.heads, "blocks": setting.config.blocks,
                    "dtype": setting.dtype, "recipe": name, "seed": str(seed), "status": status, "reason": reason,
                    "numbers": list(struct.unpack(f"<{len(numbers) // 8}d", numbers)),
                }  # fmt: skip


def _name(cell: dict[str, Any]) -> str:
    return " ".join(str(value) for name, value in cell.items() if name != "numbers")


def _agree(old: dict[str, Any], new: dict[str, Any]) -> bool:
    tolerance = TOLERANCES[old["dtype"]]
    pairs = zip(old["numbers"], new["numbers"], strict=False)
    return (
        _name(old) == _name(new)
        and len(old["numbers"]) == len(new["numbers"])
        and all(abs(a - b) <= tolerance * abs(a) for a, b in pairs)
    )


def main() -> None:
    """Write the sample, unless that would change it under an engine number that already has one."""
    use_one_thread()
    ours = computed()
    if PLACE.exists():
        golden = json.loads(PLACE.read_text())
        if golden["engine"] == ENGINE and (changed := differences(golden["cells"], ours)):
            sys.exit(f"{len(changed)} cells differ, {changed[0]} first; raise core.canonical.ENGINE.")
    lines = ",\n".join(json.dumps(cell) for cell in ours)
    PLACE.write_text(f'{{"engine": {ENGINE}, "cells": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
