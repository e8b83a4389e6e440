"""The engine of a sweep: it computes chunks of cells, each chunk in one batched pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ..canonical import engine_version
from ..decoder.base_draw import BaseDraw
from ..decoder.splitmix64 import FloatArray
from ..errors import ObservationError, SweepError
from ..health.arms import Arm, checked_device, observe_arms
from ..health.seeds import rows_of
from ..recipes.catalogue import recipe
from .plan import Chunk


@dataclass(frozen=True)
class ChunkResult:
    """The numbers of a chunk (batched pass), by recipe.

    `values` is `[seeds, 1 + 2 S]` for S residual sites: the loss, the activation RMS of every site, then the adjoint
    (gradient) RMS of every site. `reasons` maps the position of each refused seed to the reason; the values of that
    seed have no meaning.
    """

    values: Mapping[str, FloatArray]
    reasons: Mapping[str, Mapping[int, str]]


class Engine:
    """Computes chunks (batched passes) one after another in this process.

    It keeps the last random base weights for the next chunk.
    """

    def __init__(self) -> None:
        self._draw: BaseDraw | None = None
        self._drawn_for: Any = None

    def run(self, chunk: Chunk) -> ChunkResult:
        """Compute every seed and recipe of `chunk`.

        Raises `SweepError` if torch does not run on one thread, if the chunk is of another version, or if memory runs
        out.
        """
        _check_process(chunk)
        try:
            arms = observe_arms(
                self._draw_of(chunk),
                [recipe(name) for name in chunk.recipes],
                chunk.batch,
                dtype=chunk.dtype,
                device=checked_device(chunk.device),
                contributions=False,
            )
        except ObservationError as refusal:
            # What makes a tape unusable lies in the graph that all members of the chunk share.
            return _refused(chunk, str(refusal))
        except (MemoryError, RuntimeError) as error:
            if isinstance(error, MemoryError) or "allocate memory" in str(error):
                raise SweepError(
                    f"This machine's memory does not hold {len(chunk.seeds)} seeds of {chunk.config.blocks} blocks at "
                    "once; make the decoder or the batch smaller, or run fewer workers."
                ) from error
            raise
        scalars = [_scalars(arm, len(chunk.seeds)) for arm in arms]
        return ChunkResult(
            values={name: values for name, (values, _) in zip(chunk.recipes, scalars, strict=True)},
            reasons={name: reasons for name, (_, reasons) in zip(chunk.recipes, scalars, strict=True)},
        )

    def _draw_of(self, chunk: Chunk) -> BaseDraw:
        deepest = replace(chunk.config, blocks=chunk.deepest)
        wanted = (deepest, chunk.seeds, chunk.distribution)
        if self._draw is None or self._drawn_for != wanted:
            self._draw, self._drawn_for = None, wanted
            self._draw = BaseDraw(deepest, chunk.seeds, chunk.distribution)
        return self._draw.at_depth(chunk.config.blocks)


def _refused(chunk: Chunk, reason: str) -> ChunkResult:
    seeds = len(chunk.seeds)
    return ChunkResult(
        values={name: np.full((seeds, 1), np.nan) for name in chunk.recipes},
        reasons={name: dict.fromkeys(range(seeds), reason) for name in chunk.recipes},
    )


def _check_process(chunk: Chunk) -> None:
    threads = torch.get_num_threads()
    if threads != 1:
        raise SweepError(
            f"Torch runs on {threads} threads here, and stored numbers are those of one thread; call "
            "core.sweep.process.use_one_thread at the start of the program."
        )
    if chunk.engine != engine_version():
        raise SweepError(
            f"This process has the engine {engine_version()} and the sweep wants {chunk.engine}; run the same version "
            "of the code and of torch everywhere."
        )


def _scalars(arm: Arm, seeds: int) -> tuple[FloatArray, dict[int, str]]:
    rows = rows_of(arm, seeds)
    return np.concatenate([rows.loss[:, None], rows.activation, rows.adjoint], axis=1), rows.reasons
