"""Finds the axes of rows, positions and features in a stream: as in the batch, after a prompt, or its own."""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt
import torch

from ..sandbox.guard import Guard
from .branches import branches_of
from .chain import Chain
from .inputs import ModelInputs
from .layout import Layout, own_layout
from .recorder import Replay
from .rerun import replayed

# Additions whose writers are asked for the width of the stream.
ASKED = 8


def placed(guard: Guard, inputs: ModelInputs, chain: Chain) -> Layout:
    """Return the `Layout` of a stream: where its rows, positions and features are.

    Positions of the batch are looked for first, then those of a longer stream that holds them (tokens are changed to
    see where they stand). If the batch holds no tokens, or neither fits, the stream has other positions than the batch.
    """
    layout = Layout(inputs.rows, inputs.positions)
    shape, before = chain.flow.shape(chain.base), chain.flow.value(chain.base)
    if before is None:
        return layout
    own = _own(inputs, chain, shape)
    fits = layout.normalized(before) is not None
    if inputs.targets is None:
        return layout if own is None or (fits and own.positions == layout.positions) else own
    if chain.flow.address(chain.base) is None:
        return layout if fits or own is None else own
    if not fits:
        longer = None
        if chain.main and len(shape) == 3 and shape[0] == layout.rows:
            longer = _longer(guard, inputs, chain, before)
        return longer or own or layout
    if not layout.ambiguous(shape):
        return layout
    swapped = Layout(layout.rows, layout.positions, positions_first=True)
    changed = _changed(guard, inputs, chain, before, layout.positions - 1)
    moved = []
    for candidate in (layout, swapped):
        difference = None if changed is None else candidate.normalized(changed)
        moved.append(difference is not None and bool(difference[0, -1].any()) and not bool(difference[1:].any()))
    return swapped if moved == [False, True] else layout


def valid_positions(inputs: ModelInputs, layout: Layout) -> npt.NDArray[np.bool_]:
    """Return which positions of a stream count, boolean `[B, T]`: the batch's valid ones, or all."""
    if layout.features is None:
        return inputs.valid
    return np.ones((layout.rows, layout.positions), dtype=np.bool_)


def _own(inputs: ModelInputs, chain: Chain, shape: tuple[int, ...]) -> Layout | None:
    """Return the layout on the stream's own axes, by the number of features that most of its writers produce."""
    uses = [
        use
        for addition in chain.additions[:ASKED]
        for branch in branches_of(chain, addition, lambda _: "")
        for use in branch.writers
    ]
    sizes = Counter(use.fan_out for use in uses if use.fan_out in shape)
    features = sizes.most_common(1)[0][0] if sizes else shape[-1] if shape else 0
    channels = any(chain.flow.nodes[use.node].name == "Convolution" for use in uses)
    if not features:
        return None
    # Rows that were joined with others (windows, patches of several images) are one row.
    rows = (inputs.rows, 1)
    found = (own_layout(number, shape, features, channels=channels) for number in rows)
    return next((layout for layout in found if layout is not None), None)


def _longer(guard: Guard, inputs: ModelInputs, chain: Chain, before: torch.Tensor) -> Layout | None:
    """Return the layout of a stream longer than the batch: positions stand where their tokens change state 0."""
    picked: list[int] = []
    for position in range(inputs.positions):
        changed = _changed(guard, inputs, chain, before, position)
        places = [] if changed is None else changed[0].any(dim=-1).nonzero().flatten().tolist()
        if len(places) != 1:
            return None
        picked += places
    return Layout(inputs.rows, int(before.shape[1]), picked=tuple(picked))


def _changed(
    guard: Guard, inputs: ModelInputs, chain: Chain, before: torch.Tensor, position: int
) -> torch.Tensor | None:
    """Return 1.0 where the first state changes with one token of row 0, else 0.0; None if it was not recomputed."""
    address = chain.flow.address(chain.base)
    assert address is not None
    after = replayed(guard, inputs.moved(0, position), Replay([address])).get(address)
    if after is None or after.shape != before.shape:
        return None
    return (after != before).to(torch.float32)
