"""Matrices that are drawn tile by tile inside a product, so that a whole matrix is never in memory.

An arm is one recipe; a member is one seed of one arm. All arms of a seed share one random base matrix B. The matrix of
a member is diag(a) B diag(c): the vectors a and c hold a coefficient and, if the recipe normalizes rows or columns, the
reciprocals of their lengths. A product draws each tile of B once, multiplies the rows of all arms by it, and applies a
before and c after. The result equals the dense product up to rounding.
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
    """How one arm (recipe) scales the base matrix.

    Its columns or rows are set to unit length if `unit` is given, then the matrix is multiplied by `coefficient`.
    """

    coefficient: float = 1.0
    unit: Axis | None = None


class DrawnMatrix:
    """A matrix `[G, fan_in, fan_out]` for E members, drawn anew in each product; E = number of seeds * number of arms.

    G is E, or the number of seeds if all arms (recipes) scale the base matrix in the same way. Products are
    differentiable with respect to their input, not to the matrix; use dense weights for gradients of parameters.
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
        """The shape of the tensor it replaces: `(G, fan_in, fan_out)`, or `(G, fan_out, fan_in)` if transposed."""
        fan_in, fan_out = self._draws.shape
        slices = self.slices * (1 if len(set(self._arms)) == 1 else len(self._arms))
        return (slices, fan_out, fan_in) if self._transposed else (slices, fan_in, fan_out)

    @property
    def mT(self) -> DrawnMatrix:
        """This matrix with fan_in and fan_out exchanged, as a `DrawnMatrix`."""
        turned = copy(self)
        turned._transposed = not self._transposed
        return turned

    def product(self, x: torch.Tensor) -> torch.Tensor:
        """Return x W `[E, ..., fan_out]` for `x` `[E, ..., fan_in]` and this matrix W, with a gradient for `x`.

        W is drawn again in the backward pass, so no weight is kept for it.
        """
        result: torch.Tensor = _Product.apply(x, self)  # type: ignore[no-untyped-call]
        return result

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the rows number `ids` of the matrix, `[G, *ids.shape, fan_out]`; no other row is drawn.

        The matrix must not be transposed.
        """
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
        """Return x W `[E, ..., fan_out]` without an autograd graph.

        Tiles of the output's columns are shared among the cores.
        """
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
        """Return an uninitialized NumPy array of `size` numbers for `tile` to draw into: float64 or float32."""
        return np.empty(size, dtype=np.float64 if self.wide == torch.float64 else np.float32)

    def tile(self, room: npt.NDArray[Any], seed: int, rows: slice, columns: slice) -> torch.Tensor:
        """Draw entries `[rows, columns]` of the base matrix of seed number `seed` into `room`; return a tensor.

        The tensor is float64 or float32, and no arm's scaling is applied. It shares memory with `room`, unless the
        matrix is bfloat16.
        """
        drawn = (columns, rows) if self._transposed else (rows, columns)
        height, width = (part.stop - part.start for part in drawn)
        values = room[: height * width].reshape(height, width)
        self._draws.into(values, seed, *drawn)
        tile = torch.from_numpy(values)
        if self._dtype == torch.bfloat16:
            tile = tile.to(self._dtype).to(self.wide)
        return tile.mT if self._transposed else tile

    def before(self) -> torch.Tensor:
        """Return what the input of a product is multiplied by first: `[seeds or 1, arms, 1, fan_in or 1]`."""
        return self._factors("columns" if self._transposed else "rows", np.ones(len(self._arms)))

    def after(self) -> torch.Tensor:
        """Return what a product with unscaled tiles is multiplied by: `[seeds or 1, arms, 1, fan_out or 1]`."""
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
    """Return consecutive slices of at most 512 indices that cover `range(size)`; the last one may be shorter."""
    return [slice(start, min(start + TILE, size)) for start in range(0, size, TILE)]
