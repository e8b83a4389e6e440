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
        # Products of bfloat16 numbers are summed in float32, as dense ones are.
        self._wide = torch.float64 if dtype == torch.float64 else torch.float32
        self._norms: dict[Axis, FloatArray] = {}
        self._transposed = False

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of the tensor that this matrix stands for."""
        fan_in, fan_out = self._draws.shape
        slices = self._draws.seeds * (1 if len(set(self._arms)) == 1 else len(self._arms))
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
        arms = self._arms[:1] if self.shape[0] == self._draws.seeds else self._arms
        values = np.empty((self._draws.seeds, len(arms), len(numbers), self._draws.shape[1]))
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
        before: Axis = "columns" if self._transposed else "rows"
        after: Axis = "rows" if self._transposed else "columns"
        seeds, arms, fan_out = self._draws.seeds, len(self._arms), self.shape[2]
        rows = x.detach().to(self._wide).reshape(seeds, arms, -1, x.shape[-1])
        rows = self._scaled(rows, before).reshape(seeds, -1, x.shape[-1])
        out = rows.new_empty(*rows.shape[:2], fan_out)

        def fill(task: tuple[int, slice]) -> None:
            seed, columns = task
            total = rows.new_zeros(rows.shape[1], columns.stop - columns.start)
            room = np.empty(TILE * TILE, dtype=np.float64 if self._wide == torch.float64 else np.float32)
            for part in tiles(x.shape[-1]):
                total.addmm_(rows[seed, :, part], self._tile(room, seed, part, columns))
            out[seed, :, columns] = total

        on_all_cores(fill, [(seed, columns) for seed in range(seeds) for columns in tiles(fan_out)])
        scaled = self._scaled(out.view(seeds, arms, -1, fan_out), after, coefficient=True)
        return scaled.view(*x.shape[:-1], fan_out).to(x.dtype)

    def _tile(self, room: npt.NDArray[Any], seed: int, rows: slice, columns: slice) -> torch.Tensor:
        """Draw a tile `[rows, columns]` of the base matrix, transposed if this matrix is, into `room`."""
        drawn = (columns, rows) if self._transposed else (rows, columns)
        height, width = (part.stop - part.start for part in drawn)
        values = room[: height * width].reshape(height, width)
        self._draws.into(values, seed, *drawn)
        tile = torch.from_numpy(values)
        if self._dtype == torch.bfloat16:
            tile = tile.to(self._dtype).to(self._wide)
        return tile.mT if self._transposed else tile

    def _scaled(self, rows: torch.Tensor, axis: Axis, coefficient: bool = False) -> torch.Tensor:
        """Return rows `[seeds, arms, rows, size]`, divided by the norms along `axis` for the arms that ask for it."""
        factors = np.array([arm.coefficient if coefficient else 1.0 for arm in self._arms])[None, :, None]
        if any(arm.unit == axis for arm in self._arms):
            with np.errstate(all="ignore"):
                reciprocal = 1.0 / self._norms_along(axis)
            asked = np.array([arm.unit == axis for arm in self._arms])[None, :, None]
            factors = np.where(asked, reciprocal[:, None], 1.0) * factors
        if (factors == 1.0).all():
            return rows
        return rows * torch.from_numpy(factors).to(rows.dtype)[:, :, None]

    def _norms_along(self, axis: Axis) -> FloatArray:
        """Return the norm of every column or row of the base matrices, `[seeds, size]`; drawn once, then kept."""
        if axis not in self._norms:
            self._norms[axis] = self._drawn_norms(axis)
        return self._norms[axis]

    def _drawn_norms(self, axis: Axis) -> FloatArray:
        fan_in, fan_out = self._draws.shape
        own, other = (fan_out, fan_in) if axis == "columns" else (fan_in, fan_out)
        squares = np.zeros((self._draws.seeds, own))

        def add(task: tuple[int, slice]) -> None:
            seed, mine = task
            for part in tiles(other):
                rows, columns = (part, mine) if axis == "columns" else (mine, part)
                values = np.empty((rows.stop - rows.start, columns.stop - columns.start))
                self._draws.into(values, seed, rows, columns)
                squares[seed, mine] += np.square(values, out=values).sum(axis=0 if axis == "columns" else 1)

        on_all_cores(add, [(seed, mine) for seed in range(self._draws.seeds) for mine in tiles(own)])
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
