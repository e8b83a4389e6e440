"""Brings a model's tensors to `[B, T, features]`, whatever the order of rows, positions and features in them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from .flow import Flow, Vertex


@dataclass(frozen=True)
class Layout:
    """The number of rows B and positions T of a stream, and the order of these axes.

    `positions_first` decides where a shape allows both orders. If the stream is longer than the batch (a prompt comes
    before it), `positions` is its length and `picked` holds the indices of the batch's own positions.
    """

    rows: int
    positions: int
    positions_first: bool = False
    picked: tuple[int, ...] | None = None

    def ambiguous(self, shape: tuple[int, ...]) -> bool:
        """Return True if a tensor of this shape could have rows first as well as positions first."""
        if self.rows == 1 or self.positions == 1:
            return False
        return self.flat(shape) or (self.rows == self.positions and len(shape) > 2)

    def flat(self, shape: tuple[int, ...]) -> bool:
        """Return True if rows and positions are flattened into the first axis of this shape."""
        return len(shape) >= 2 and shape[0] == self.rows * self.positions

    def normalized(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return the values as `[B, T, features]`; None where the shape does not hold B x T positions."""
        whole = self._whole(tensor)
        return whole if whole is None or self.picked is None else whole[:, list(self.picked)]

    def _whole(self, tensor: torch.Tensor) -> torch.Tensor | None:
        rows, positions, shape = self.rows, self.positions, tensor.shape
        if self.flat(tuple(shape)):
            if self.positions_first:
                return tensor.reshape(positions, rows, -1).transpose(0, 1)
            return tensor.reshape(rows, positions, -1)
        # The axes of rows and of positions, the likeliest first; of more than four only the first two are tried.
        axes = [(1, 0)] if rows == positions and self.positions_first else [(0, 1), (1, 0)]
        axes += {3: [(0, 2)], 4: [(1, 2), (0, 2)]}.get(tensor.dim(), [])
        for row, position in axes if tensor.dim() >= 3 else ():
            if (shape[row], shape[position]) == (rows, positions):
                return tensor.movedim((row, position), (0, 1)).flatten(2)
        return None

    def spread(self, value: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor | None:
        """`value` broadcast to `shape`, then brought to `[B, T, features]` as `normalized` does.

        None where `value` cannot be broadcast to `shape`, or where `shape` does not hold B x T positions.
        """
        try:
            return self.normalized(value.expand(shape))
        except RuntimeError:
            return None


def layout_at(flow: Flow, layout: Layout, vertex: Vertex) -> Layout:
    """Return the `Layout` of the tensor at one vertex (output of an operation).

    If rows and positions are flattened there, their order is taken from the tensor before flattening.
    """
    shape = flow.shape(vertex)
    if layout.rows == 1 or layout.positions == 1 or not layout.flat(shape):
        return layout
    while layout.flat(shape):
        sources = flow.moving(flow.node(vertex))
        if not sources:
            return layout
        vertex = next((source for source in sources if layout.flat(flow.shape(source))), sources[0])
        shape = flow.shape(vertex)
    if layout.rows == layout.positions:
        return layout
    return replace(layout, positions_first=shape[:2] == (layout.positions, layout.rows))
