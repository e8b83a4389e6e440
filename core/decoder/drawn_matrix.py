"""Matrices that are drawn tile by tile inside a product, and never stand whole in memory.

All arms of a seed share one base matrix B: member e has diag(r_e) B diag(c_e), with a coefficient and, where its recipe
normalizes rows or columns, their reciprocal norms in r_e or c_e. The rows of all arms are multiplied by the same tile;
r_e and c_e are applied to the rows before and after. This equals the dense product up to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from .matrix_draws import MatrixDraws
from .splitmix64 import FloatArray
from .threads import on_all_cores

Axis = Literal["columns", "rows"]
# Rows and columns of a tile: it stays in a core's cache while the rows of all arms are multiplied by it.
TILE = 512


class Scaling(NamedTuple):
    """What one arm does to the base matrix: columns or rows set to unit norm, if asked, then times a coefficient."""

    coefficient: float = 1.0
    unit: Axis | None = None


class DrawnMatrix:
    """A matrix `[G, fan_in, fan_out]` of E members that a product draws; E = seeds x arms.

    G is E, or the number of seeds where all arms scale alike. It has no gradient: dense weights serve that.
    """

    def __init__(self, draws: MatrixDraws, arms: Sequence[Scaling], dtype: torch.dtype) -> None:
        self._draws, self._arms, self._dtype = draws, tuple(arms), dtype
        self.slices = draws.seeds
        # Products of bfloat16 numbers are summed in float32, as dense ones are.
        self.wide = torch.float64 if dtype == torch.float64 else torch.float32
        self._norms: dict[Axis, FloatArray] = {}
        self._transposed = False

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of the tensor that this matrix stands for."""
        fan_in, fan_out = self._draws.shape
        slices = self.slices * (1 if len(set(self._arms)) == 1 else len(self._arms))
        return (slices, fan_out, fan_in) if self._transposed else (slices, fan_in, fan_out)

    @property
    def mT(self) -> DrawnMatrix:
        """The transposed matrix."""
        turned = copy(self)
        turned._transposed = not self._transposed
        return turned

    def product(self, x: torch.Tensor) -> torch.Tensor:
        """Return x W for `x` `[E, ..., fan_in]`, differentiable with respect to `x`; no weight is kept for it."""
        result: torch.Tensor = _Product.apply(x, self)  # type: ignore[no-untyped-call]
        return result

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the rows of these ids, `[G, *ids.shape, fan_out]`; no other row is drawn."""
        assert not self._transposed
        numbers, places = np.unique(ids.numpy(), return_inverse=True)
        arms = self._arms[:1] if self.shape[0] == self.slices else self._arms
        values = np.empty((self.slices, len(arms), len(numbers), self._draws.shape[1]))
        with np.errstate(all="ignore"):
            for seed, of_seed in enumerate(values):
                base = self._draws.rows(seed, numbers)
                for out, arm in zip(of_seed, arms, strict=True):
                    unit = base
                    if arm.unit == "rows":
                        unit = base / np.sqrt(np.square(base).sum(axis=1, keepdims=True))
                    elif arm.unit == "columns":
                        unit = base / self._norms_along("columns")[seed]
                    np.multiply(unit, arm.coefficient, out=out)
        found = torch.from_numpy(values.reshape(-1, *values.shape[2:])).to(self._dtype)
        return found[:, torch.from_numpy(places.reshape(ids.shape))]

    def multiplied(self, x: torch.Tensor) -> torch.Tensor:
        """Return x W without a graph. Tiles of the output's columns are shared among the cores."""
        fan_out, arms = self.shape[2], len(self._arms)
        rows = x.detach().to(self.wide).reshape(self.slices, arms, -1, x.shape[-1])
        rows = (rows * self.before()).flatten(1, 2)
        # A part of W^T is the left factor of its product: as a right one it would take half as long again.
        rows = rows.mT.contiguous() if self._transposed else rows
        out = rows.new_empty(self.slices, x[..., 0].numel() // self.slices, fan_out)

        def fill(task: tuple[int, slice]) -> None:
            seed, columns = task
            total = torch.zeros_like(out[seed, :, columns], memory_format=torch.contiguous_format)
            total = total.mT.contiguous() if self._transposed else total
            room = self.room()
            for part in tiles(x.shape[-1]):
                tile = self.tile(room, seed, part, columns)
                if self._transposed:
                    total.addmm_(tile.mT, rows[seed, part])
                else:
                    total.addmm_(rows[seed, :, part], tile)
            out[seed, :, columns] = total.mT if self._transposed else total

        on_all_cores(fill, [(seed, columns) for seed in range(self.slices) for columns in tiles(fan_out)])
        scaled = out.view(self.slices, arms, -1, fan_out) * self.after()
        return scaled.view(*x.shape[:-1], fan_out).to(x.dtype)

    def room(self, size: int = TILE * TILE) -> npt.NDArray[Any]:
        """Return memory for tiles of up to `size` numbers."""
        return np.empty(size, dtype=np.float64 if self.wide == torch.float64 else np.float32)

    def tile(self, room: npt.NDArray[Any], seed: int, rows: slice, columns: slice) -> torch.Tensor:
        """Draw the tile `[rows, columns]` of seed number `seed`, before any scaling, into `room`."""
        drawn = (columns, rows) if self._transposed else (rows, columns)
        height, width = (part.stop - part.start for part in drawn)
        values = room[: height * width].reshape(height, width)
        self._draws.into(values, seed, *drawn)
        tile = torch.from_numpy(values)
        if self._dtype == torch.bfloat16:
            tile = tile.to(self._dtype).to(self.wide)
        return tile.mT if self._transposed else tile

    def before(self) -> torch.Tensor:
        """Return what scales the rows of a product with plain tiles: `[slices, arms, 1, fan_in]`, or 1 for a size."""
        return self._factors("columns" if self._transposed else "rows", np.ones(len(self._arms)))

    def after(self) -> torch.Tensor:
        """Return what scales such a product to that with this matrix: `[slices, arms, 1, fan_out]`, or 1 for a size."""
        coefficients = np.array([arm.coefficient for arm in self._arms])
        return self._factors("rows" if self._transposed else "columns", coefficients)

    def _factors(self, axis: Axis, coefficients: FloatArray) -> torch.Tensor:
        """Return a coefficient for each arm, divided by the norms along `axis` for the arms that ask for it."""
        factors = coefficients[None, :, None]
        asked = np.array([arm.unit == axis for arm in self._arms])
        if asked.any():
            with np.errstate(all="ignore"):
                factors = np.where(asked[None, :, None], factors / self._norms_along(axis)[:, None], factors)
        return torch.from_numpy(factors).to(self.wide)[:, :, None]

    def _norms_along(self, axis: Axis) -> FloatArray:
        """Return the norm of every column or row of the base matrices, `[seeds, size]`; drawn once, then kept."""
        if axis not in self._norms:
            self._norms[axis] = self._drawn_norms(axis)
        return self._norms[axis]

    def _drawn_norms(self, axis: Axis) -> FloatArray:
        fan_in, fan_out = self._draws.shape
        own, other = (fan_out, fan_in) if axis == "columns" else (fan_in, fan_out)
        squares = np.zeros((self.slices, own))

        def add(task: tuple[int, slice]) -> None:
            seed, mine = task
            for part in tiles(other):
                rows, columns = (part, mine) if axis == "columns" else (mine, part)
                values = np.empty((rows.stop - rows.start, columns.stop - columns.start))
                self._draws.into(values, seed, rows, columns)
                squares[seed, mine] += np.square(values, out=values).sum(axis=0 if axis == "columns" else 1)

        on_all_cores(add, [(seed, mine) for seed in range(self.slices) for mine in tiles(own)])
        return np.asarray(np.sqrt(squares))


class _Product(torch.autograd.Function):
    """x W, whose reverse pass draws W again: the adjoint of x is g W^T."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, matrix: DrawnMatrix) -> torch.Tensor:
        ctx.matrix = matrix
        return matrix.multiplied(x)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return ctx.matrix.mT.multiplied(gradients[0]), None


def tiles(size: int) -> list[slice]:
    """Return the slices that divide `size` into tiles; the last one may be shorter."""
    return [slice(start, min(start + TILE, size)) for start in range(0, size, TILE)]
