"""The statistics of a matrix that is never held whole, read tile by tile in one pass.

They equal those that `core.audit.initialization` takes of a whole tensor, to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from ..initialization.checks_integrity import HUGE, TINY
from ..initialization.sign_hash import FEWEST, digest_of
from ..initialization.slices import Slice, slices_by_power
from ..initialization.weight_stats import (
    ROWS,
    WeightStats,
    completed,
    distribution_of,
    orthogonal_products,
    sample_step,
)

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TileReading:
    """What one tile adds: sums, extremes, sums of squares by row and column, a sample, signs, products of vectors."""

    total: float
    least: float
    most: float
    tiny: bool
    by_row: FloatArray
    by_column: FloatArray
    sample: torch.Tensor
    negative: int
    signs: bytes
    products: torch.Tensor | None


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The statistics of one parameter. `slices` are its parts with different standard deviations, `digest` its signs'.

    `odd`: it holds values that no initializer draws. `blank`: it holds values that none wrote.
    """

    weights: WeightStats
    slices: list[Slice]
    digest: str | None
    odd: bool
    blank: bool


def read_tile(tile: torch.Tensor, start: int, shape: Sequence[int]) -> TileReading:
    """Read the flat values of a tile of whole rows, which begins at value `start` of a tensor of this shape."""
    rows = tile.view(-1, shape[-1])
    squares = rows.to(torch.float64).square_()
    least, most = torch.aminmax(tile)
    step = sample_step(math.prod(shape), shape[-1])
    negative = (tile < 0).numpy()
    small = tile.abs() < TINY
    return TileReading(
        total=float(tile.sum(dtype=torch.float64)),
        least=float(least),
        most=float(most),
        tiny=bool(small.any()) and bool((small & (tile != 0)).any()),
        by_row=squares.sum(1).numpy(),
        by_column=squares.sum(0).numpy(),
        sample=tile[-start % step :: step].clone(),
        negative=int(np.count_nonzero(negative)),
        signs=np.packbits(negative).tobytes(),
        products=_products(rows, start, shape),
    )


def _products(rows: torch.Tensor, start: int, shape: Sequence[int]) -> torch.Tensor | None:
    """Return the products of the first rows of a wide matrix, or this tile's part of those of a tall one's columns.

    Of a stack, only the first matrix counts. None where there is nothing to add.
    """
    height, width = (*shape[-2:],) if len(shape) > 1 else (1, shape[-1])
    first = start // width
    rows = rows[: max(0, height - first)]
    if min(height, width) < ROWS or not len(rows):
        return None
    if height > width:
        columns = rows[:, :ROWS].to(torch.float64)
        return columns.T @ columns
    leading = rows[:ROWS].to(torch.float64)
    return leading @ leading.T if first == 0 else None


def read_whole(tiles: Sequence[TileReading], shape: Sequence[int]) -> Reading:
    """Return the statistics of a tensor from all its tiles, in order."""
    count = math.prod(shape)
    by_row, by_column = np.concatenate([t.by_row for t in tiles]), np.sum([t.by_column for t in tiles], axis=0)
    least, most = min(t.least for t in tiles), max(t.most for t in tiles)
    total, power = math.fsum(t.total for t in tiles), math.fsum(by_row)
    mean = total / count
    known = math.isfinite(total) and math.isfinite(power)
    std = math.nan if not known else 0.0 if least == most else math.sqrt(max(0.0, power / count - mean * mean))
    name = "unclear"
    if known:
        name = distribution_of(torch.cat([t.sample for t in tiles])) if least or most else "zeros"
    # A nonfinite extreme hides the others.
    largest = max(abs(least), abs(most)) if known else math.nan
    found = WeightStats(std=std, mean=mean, largest=largest, count=count, distribution=name)
    products = [t.products for t in tiles if t.products is not None]
    orthogonal = bool(products) and known and power > 0
    if orthogonal:
        together = products[0] if shape[-2] <= shape[-1] else torch.stack(products).sum(0)
        orthogonal = orthogonal_products(together, max(shape[-2:]))
    negative = sum(t.negative for t in tiles)
    signed = known and count >= FEWEST and 0 < negative < count
    return Reading(
        weights=completed(found, orthogonal=orthogonal),
        slices=_slices(by_row, by_column, shape) if known and len(shape) > 1 else [Slice(0, 0, shape[0], "")],
        digest=digest_of(tuple(shape), [t.signs for t in tiles]) if signed else None,
        odd=not known or largest > HUGE or any(t.tiny for t in tiles),
        blank=math.isnan(total),
    )


def _slices(by_row: FloatArray, by_column: FloatArray, shape: Sequence[int]) -> list[Slice]:
    stacked = by_row.reshape(shape[:-1])
    axes = range(stacked.ndim)
    leading = [stacked.sum(axis=tuple(other for other in axes if other != axis)) for axis in axes]
    return slices_by_power([*leading, by_column])
