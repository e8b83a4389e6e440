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
    """What one tile, or a run of them, adds: sums, extremes, sums of squares by row and by column, a sample, the signs.

    `products` are those of a few rows or columns with each other, which tell whether they are orthogonal.
    """

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

    def and_then(self, after: TileReading, *, tall: bool) -> TileReading:
        """Return the reading of this run and the next one; `tall`: the products are sums over rows."""
        one, two = self.products, after.products
        return TileReading(
            total=self.total + after.total,
            least=min(self.least, after.least),
            most=max(self.most, after.most),
            tiny=self.tiny or after.tiny,
            by_row=np.concatenate([self.by_row, after.by_row]),
            by_column=self.by_column + after.by_column,
            sample=torch.cat([self.sample, after.sample]),
            negative=self.negative + after.negative,
            signs=self.signs + after.signs,
            products=two if one is None else one + two if two is not None and tall else one,
        )


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


def read_whole(read: TileReading, shape: Sequence[int]) -> Reading:
    """Return the statistics of a tensor from the reading of all its tiles."""
    count, power = math.prod(shape), math.fsum(read.by_row)
    mean = read.total / count
    known = math.isfinite(read.total) and math.isfinite(power)
    std, name = math.nan, "unclear"
    if known:
        std = 0.0 if read.least == read.most else math.sqrt(max(0.0, power / count - mean * mean))
        name = distribution_of(read.sample) if read.least or read.most else "zeros"
    # A nonfinite extreme hides the others.
    largest = max(abs(read.least), abs(read.most)) if known else math.nan
    found = WeightStats(std=std, mean=mean, largest=largest, count=count, distribution=name)
    aligned = known and power > 0 and read.products is not None
    orthogonal = aligned and orthogonal_products(read.products, max(shape[-2:]))  # type: ignore[arg-type]
    signed = known and count >= FEWEST and 0 < read.negative < count
    return Reading(
        weights=completed(found, orthogonal=orthogonal),
        slices=_slices(read.by_row, read.by_column, shape) if known and len(shape) > 1 else [Slice(0, 0, shape[0], "")],
        digest=digest_of(tuple(shape), [read.signs]) if signed else None,
        odd=not known or largest > HUGE or read.tiny,
        blank=math.isnan(read.total),
    )


def _slices(by_row: FloatArray, by_column: FloatArray, shape: Sequence[int]) -> list[Slice]:
    stacked = by_row.reshape(shape[:-1])
    axes = range(stacked.ndim)
    leading = [stacked.sum(axis=tuple(other for other in axes if other != axis)) for axis in axes]
    return slices_by_power([*leading, by_column])
