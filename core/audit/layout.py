"""Bring a foreign model's tensors to `[B, T, features]`, whatever order it keeps rows, positions and features in."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Layout:
    """B rows of T positions. `positions_first` tells which of two readings holds where a shape allows both."""

    rows: int
    positions: int
    positions_first: bool = False

    def ambiguous(self, shape: tuple[int, ...]) -> bool:
        """Whether a tensor of this shape could be read rows first or positions first."""
        rows, positions = self.rows, self.positions
        if rows == 1 or positions == 1 or not shape:
            return False
        flat = shape[0] == rows * positions and not (len(shape) > 2 and shape[:2] == (rows, positions))
        return flat or (rows == positions and len(shape) > 2)

    def normalized(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The same values as `[B, T, features]`; None where the shape does not hold B x T positions."""
        rows, positions = self.rows, self.positions
        shape = tuple(tensor.shape)
        if len(shape) >= 3 and shape[:2] == (rows, positions) and not (rows == positions and self.positions_first):
            return tensor.flatten(2)
        if len(shape) >= 3 and shape[:2] == (positions, rows):
            return tensor.transpose(0, 1).flatten(2)
        if len(shape) >= 2 and shape[0] == rows * positions:
            if self.positions_first:
                return tensor.reshape(positions, rows, -1).transpose(0, 1)
            return tensor.reshape(rows, positions, -1)
        if len(shape) == 4 and shape[1:3] == (rows, positions):
            return tensor.permute(1, 2, 0, 3).flatten(2)
        if len(shape) == 4 and (shape[0], shape[2]) == (rows, positions):
            return tensor.permute(0, 2, 1, 3).flatten(2)
        if len(shape) == 3 and (shape[0], shape[2]) == (rows, positions):
            return tensor.transpose(1, 2)
        return None

    def spread(self, value: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor | None:
        """`value` broadcast to a vertex of this shape, then normalized."""
        try:
            return self.normalized(value.expand(shape))
        except RuntimeError:
            return None
