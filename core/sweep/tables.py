"""The tables of a sweep, as pandas frames and as files; files are written in pieces and without pandas.

A refused cell, which cannot run or whose ratios are not finite, has a reason in place of numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from ..health.columns import OBSERVED, REFUSED, SITE_TYPES
from ..health.sites import Columns, site_rows, site_values
from .grid import GridArm, SweepGrid
from .results import EXTREMES, QUANTITIES, Results, ratios, site_labels, split_numbers
from .summary import SUMMARY_TYPES, summary_rows

if TYPE_CHECKING:
    import pandas as pd

ROWS, SUMMARY, PARQUET = "sweep.csv", "summary.csv", "sweep.parquet"
SEEDS_PER_PART = 256
CELL_TYPES = {
    "arm": "str", "recipe": "str", "seed": "str", "blocks": "int64", **dict.fromkeys(QUANTITIES, "float64"),
    "within_band": "bool", "status": "str", "reason": "str",
}  # fmt: skip


def row_types(grid: SweepGrid) -> dict[str, str]:
    """Return a dict from the names of the long table's columns to their types; further axes that vary come last."""
    return {**SITE_TYPES, **grid.axis_types}


def row_parts(results: Results, recipe: str | None = None, blocks: int | None = None) -> Iterator[Columns]:
    """Yield the long table of the finished (recipe, seed) cells in pieces, each a dict from column to list.

    There is one row per residual site, or one row without a site for a refused cell. The order is arm (recipe or
    control), size, dtype, batch, depth, seed, site. `recipe` and `blocks` select one of each.
    """
    for arm in results.grid.arms:
        for index, setting in enumerate(results.grid.settings):
            if recipe in (None, arm.recipe) and blocks in (None, setting.config.blocks):
                for start in range(0, len(results.grid.seeds), SEEDS_PER_PART):
                    yield _part(results, arm, index, slice(start, start + SEEDS_PER_PART))


def write_table(stream: IO[bytes], name: str, results: Results) -> None:
    """Write the table `name` (`ROWS`, `SUMMARY` or `PARQUET`) to a binary stream; floats keep all their digits."""
    if name == PARQUET:
        _write_parquet(stream, results)
    elif name == ROWS:
        _write_csv(stream, tuple(row_types(results.grid)), row_parts(results))
    else:
        names = (*SUMMARY_TYPES, *results.grid.extra_columns)
        rows = list(summary_rows(results))
        _write_csv(stream, names, [{name: [row[name] for row in rows] for name in names}])


def _part(results: Results, arm: GridArm, index: int, places: slice) -> Columns:
    setting, row, seeds = results.grid.settings[index], results.recipe(arm.recipe), results.grid.seeds[places]
    states = (results.observed[index, row, places].tolist(), results.refused[index, row, places].tolist())
    observed, refused = ([seed for seed, holds in zip(seeds, state, strict=True) if holds] for state in states)
    numbers = results.numbers(index, arm.recipe, observed)
    loss, *rms = split_numbers(numbers)
    labels = site_labels(arm.recipe, setting.config) if observed else ()
    columns = site_rows(
        arm.arm,
        arm.recipe,
        setting.config.blocks,
        list(zip(observed, loss.tolist(), strict=True)),
        site_values(labels, rms, ratios(numbers), results.grid.band),
        [(seed, results.reason(index, arm.recipe, seed)) for seed in refused],
    )
    count = len(columns["arm"])
    return {**columns, **{name: [value] * count for name, value in setting.columns}}


def _write_csv(stream: IO[bytes], names: Sequence[str], parts: Iterator[Columns] | list[Columns]) -> None:
    stream.write((",".join(names) + "\n").encode())
    for part in parts:
        texts = [_texts(name, part[name]) for name in names]
        stream.writelines((",".join(row) + "\n").encode() for row in zip(*texts, strict=True))


def _texts(name: str, values: Sequence[Any]) -> list[str]:
    """Return a column as CSV text: empty for None, and reasons, which are sentences, in quotation marks."""
    if name == "reason":
        return [value and '"' + value.replace('"', '""') + '"' for value in values]
    return ["" if value is None else str(value) for value in values]


def _write_parquet(stream: IO[bytes], results: Results) -> None:
    """Write the long table as Parquet. Numbers of refused cells are null, their bands empty; seeds are text."""
    import pyarrow as pa  # slow to import, and asked for by few
    import pyarrow.parquet as pq

    kinds: Mapping[str, Any] = {
        "str": pa.string(), "int64": pa.int64(), "Int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_(),
    }  # fmt: skip
    schema = pa.schema([(name, kinds[kind]) for name, kind in row_types(results.grid).items()])
    with pq.ParquetWriter(stream, schema) as writer:
        for part in row_parts(results):
            if part["arm"]:
                writer.write_table(pa.Table.from_pydict(part, schema=schema))


def cell_frame(results: Results) -> pd.DataFrame:
    """Return one row per finished (recipe, seed) cell, in the order of the long table.

    The numbers of refused cells are NaN.
    """
    grid, seeds, parts = results.grid, [str(seed) for seed in results.grid.seeds], []
    for arm in grid.arms:
        row = results.recipe(arm.recipe)
        for index, setting in enumerate(grid.settings):
            finished = np.flatnonzero(results.observed[index, row] | results.refused[index, row])
            values = results.values[index, row, finished]
            part: dict[str, Any] = {
                "arm": arm.arm,
                "recipe": arm.recipe,
                "seed": [seeds[place] for place in finished],
                "blocks": setting.config.blocks,
                **dict(zip(QUANTITIES, values.T, strict=True)),
                "within_band": (grid.band.judge(values[:, EXTREMES]) == "within").all(axis=1),
                "status": np.where(results.observed[index, row, finished], OBSERVED, REFUSED),
                "reason": [results.reason(index, arm.recipe, grid.seeds[place]) for place in finished.tolist()],
            }
            parts.append({**part, **dict(setting.columns)})
    return frame(parts, {**CELL_TYPES, **grid.axis_types})


def frame(parts: Iterable[Any], types: Mapping[str, str]) -> pd.DataFrame:
    """Concatenate tables into one frame with the columns and types in `types`; undefined numbers are NaN.

    Each of `parts` is a dict of columns or a list of rows.
    """
    import pandas as pd  # the written tables need none

    tables = [pd.DataFrame(part, columns=list(types)).astype(types) for part in parts]
    kept = [table for table in tables if len(table)] or tables[:1]
    return pd.concat(kept, ignore_index=True) if kept else pd.DataFrame(columns=list(types)).astype(types)
