"""How much a reduced twin's ratios change with its width and with the length of the rows.

A reduced twin is a narrower decoder whose ratios stand for those of a wide one (see `core.decoder.twin`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..decoder.base_draw import BaseDraw
from ..decoder.batch import Batch
from ..decoder.parameters import layout
from ..decoder.progress import Told, silent
from ..decoder.splitmix64 import FloatArray
from ..decoder.twin import twin_for_rows
from ..errors import ConfigError
from ..recipes.catalogue import recipe
from .arms import observe_arms
from .request import ObserveRequest


@dataclass(frozen=True, kw_only=True)
class TwinRatios:
    """The ratios of one twin on one batch, medians over the seeds.

    `activation` is the activation RMS at the last site over that at the input, `adjoint` the gradient RMS at the input
    over that at the last site. `depth_activation` and `depth_adjoint` are the same with the end of the first block in
    place of the input. All are None if no seed has finite ratios; the latter two are also None for a single block.
    """

    width: int
    positions: int
    activation: float | None
    adjoint: float | None
    depth_activation: float | None
    depth_adjoint: float | None


@dataclass(frozen=True, kw_only=True)
class TwinDrift:
    """The ratios of every twin width on every batch.

    `by_width` is the largest quotient of two end-to-end ratios on the same batch at different widths, `by_positions`
    that at the same width on different batches; None if there is nothing to compare.
    """

    rows: tuple[TwinRatios, ...]
    by_width: float | None
    by_positions: float | None


def twin_drift(
    request: ObserveRequest, widths: Sequence[int], batches: Sequence[Batch], seeds: Sequence[int], *,
    told: Told = silent,
) -> TwinDrift:  # fmt: skip
    """Observe the request's recipe on the twins of all `widths` and `batches`, and return the `TwinDrift`.

    Base draw, recipe, dtype and budget are the request's; its batch, seed and band are not used. `told(what, done,
    total)` is the progress callback. Raises `ConfigError` without widths, batches or seeds, and the errors of a twin or
    of an observation.
    """
    if not widths or not batches:
        raise ConfigError("A twin's ratios move between widths and row lengths; give at least one of each.")
    chosen, rows = recipe(request.recipe), []
    for width in widths:
        for batch in batches:
            config = twin_for_rows(request.config, width, batch)
            request.budget.check(config, layout(config).parameters)
            draw = BaseDraw(config, seeds, request.distribution)
            (arm,) = observe_arms(
                draw, [chosen], batch, dtype=request.dtype, device=request.device, contributions=False, told=told
            )
            first = len(chosen.graph(config).blocks[0])
            sound = arm.observation.sound
            ratios = (arm.observation.activation_ratio[sound], arm.observation.adjoint_ratio[sound])
            rows.append(_row(width, batch.longest, *ratios, first))
    return TwinDrift(
        rows=tuple(rows),
        by_width=_moved([[row for row in rows if row.positions == batch.longest] for batch in batches]),
        by_positions=_moved([[row for row in rows if row.width == width] for width in widths]),
    )


def _row(width: int, positions: int, activation: FloatArray, adjoint: FloatArray, first: int) -> TwinRatios:
    """Return the medians of one twin on one batch; `first` is the site at the end of the first block."""
    row = TwinRatios(
        width=width, positions=positions, activation=_median(activation[:, -1]), adjoint=_median(adjoint[:, 0]),
        depth_activation=None, depth_adjoint=None,
    )  # fmt: skip
    if first == activation.shape[1] - 1:
        return row
    return replace(
        row,
        depth_activation=_median(activation[:, -1] / activation[:, first]),
        depth_adjoint=_median(adjoint[:, first]),
    )


def _median(values: FloatArray) -> float | None:
    return float(np.median(values)) if len(values) else None


def _moved(groups: Sequence[Sequence[TwinRatios]]) -> float | None:
    """Return the largest quotient of two end-to-end ratios within one group; None if no group has two to compare."""
    found = []
    for group in groups:
        for name in ("activation", "adjoint"):
            values = [value for row in group if (value := getattr(row, name))]
            if len(values) > 1:
                found.append(max(values) / min(values))
    return max(found, default=None)
