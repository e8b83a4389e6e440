"""Bring a model's tensors to `[B, T, features]`, whatever the order of rows, positions and features in them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from .flow import Flow, Vertex


@dataclass(frozen=True)
class Layout:
    """B rows of T positions. `positions_first` is the choice where a shape allows both orders.

    Where a stream is longer than the batch (a prompt before it), `positions` is its length and `picked` holds the
    indices of the batch's own positions. Where a stream has positions of its own (patches of an image, frames of a
    sound), `features` is its width, `axis` that of the features in its first state, and `positions` all the others'.
    """

    rows: int
    positions: int
    positions_first: bool = False
    picked: tuple[int, ...] | None = None
    features: int | None = None
    axis: int = -1

    def ambiguous(self, shape: tuple[int, ...]) -> bool:
        """Return whether a tensor of this shape could have rows first as well as positions first."""
        if self.rows == 1 or self.positions == 1:
            return False
        return self.flat(shape) or (self.rows == self.positions and len(shape) > 2)

    def flat(self, shape: tuple[int, ...]) -> bool:
        """Return whether rows and positions are flattened into the first axis."""
        return len(shape) >= 2 and shape[0] == self.rows * self.positions

    def normalized(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return the values as `[B, T, features]`; None where the shape does not hold B x T positions."""
        whole = self._whole(tensor)
        return whole if whole is None or self.picked is None else whole[:, list(self.picked)]

    def _whole(self, tensor: torch.Tensor) -> torch.Tensor | None:
        rows, positions, shape = self.rows, self.positions, tensor.shape
        if self.features is not None:
            return self._by_features(tensor)
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

    def _by_features(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return `[B, T, features]` of a tensor with this many features at every position, wherever its axes are."""
        shape = tensor.shape
        if tensor.dim() < 2 or tensor.numel() % (self.rows * self.positions):
            return None
        wide = tensor.numel() // (self.rows * self.positions)
        for axis in dict.fromkeys((self.axis, tensor.dim() - 1, 1)):
            if 0 <= axis < tensor.dim() and shape[axis] == wide:
                moved = tensor.movedim(axis, -1)
                if self.positions_first and moved.dim() == 3 and moved.shape[:2] == (self.positions, self.rows):
                    return moved.transpose(0, 1)
                # A view where one is possible, so that callers may mark positions in it.
                return (
                    moved.flatten(1, -2)
                    if moved.shape[0] == self.rows and moved.dim() > 2
                    else moved.reshape(self.rows, self.positions, wide)
                )
        return None

    def spread(self, value: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor | None:
        """`value` broadcast to `shape`, then brought to `[B, T, features]` as `normalized` does.

        None where `value` cannot be broadcast to `shape`, or where `shape` does not hold B x T positions.
        """
        if self.features is not None and value.shape == (self.features,):
            # A vector of features, multiplied in before they were moved to another axis.
            return value.expand(self.rows, self.positions, self.features)
        try:
            return self.normalized(value.expand(shape))
        except RuntimeError:
            return None


def own_layout(rows: int, shape: tuple[int, ...], features: int, *, channels: bool) -> Layout | None:
    """Return the layout of a stream whose positions are not those of the batch; None where its shape has no rows.

    `features` is the number that its writers produce. `channels`: its features are taken to be on axis 1, as after a
    convolution, where the shape allows several.
    """
    axes = [axis for axis in ((1, len(shape) - 1) if channels else (len(shape) - 1, 1)) if 0 < axis < len(shape)]
    axis = next((axis for axis in axes if shape[axis] == features), None)
    if axis is None or not rows:
        return None
    positions, rest = divmod(math.prod(shape), rows * features)
    if rest or not positions:
        return None
    first = len(shape) == 3 and shape[0] != rows and shape[:2] == (positions, rows)
    return Layout(rows, positions, positions_first=first, features=features, axis=axis)


def layout_at(flow: Flow, layout: Layout, vertex: Vertex) -> Layout:
    """Return the layout at one vertex (an output of a node of the flow).

    Where rows and positions are flattened, their order is taken from the tensor that they are unflattened to next, else
    from the one before flattening.
    """
    shape = flow.shape(vertex)
    if layout.features is not None or layout.rows == 1 or layout.positions == 1 or not layout.flat(shape):
        return layout
    both = {(layout.rows, layout.positions): False, (layout.positions, layout.rows): True}
    for reader in flow.readers.get(vertex, ()) if len(both) == 2 else ():
        after = flow.nodes[reader].shapes[0] if flow.nodes[reader].kind == "view" else ()
        if len(after) == 3 and after[:2] in both:
            return replace(layout, positions_first=both[after[:2]])
    while layout.flat(shape):
        sources = flow.moving(flow.node(vertex))
        if not sources:
            return layout
        vertex = next((source for source in sources if layout.flat(flow.shape(source))), sources[0])
        shape = flow.shape(vertex)
    if layout.rows == layout.positions:
        return layout
    return replace(layout, positions_first=shape[:2] == (layout.positions, layout.rows))
