"""Observe up to six recipes on shared base draws, over seeds and depths.

Every arm of a seed transforms the same base draw; `core.compare.comparison_tables` turns the result into long tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..decoder.base_draw import BaseDraw
from ..decoder.config import DecoderConfig
from ..health.arms import Arm, observe_arms
from ..recipes.catalogue import recipe
from .request import ComparisonRequest, runnable_recipes, seed_chunks


@dataclass(frozen=True)
class Chunk:
    """The arms of some seeds at one depth; `refused` maps each recipe that cannot run there to the reason."""

    config: DecoderConfig
    seeds: tuple[int, ...]
    arms: tuple[Arm, ...]
    refused: Mapping[str, str]


@dataclass(frozen=True)
class Comparison:
    """Everything observed for a request; only scalars are kept."""

    request: ComparisonRequest
    chunks: tuple[Chunk, ...]

    def arms(self) -> Iterator[tuple[Chunk, Arm, list[int]]]:
        """Yield every arm with its chunk and the members of the chunk's seeds, ordered by depth, then by recipe."""
        for config in self.request.configs:
            chunks = [chunk for chunk in self.chunks if chunk.config == config]
            for place in range(len(chunks[0].arms)):
                for chunk in chunks:
                    arm = chunk.arms[place]
                    yield chunk, arm, [arm.member(index) for index in range(len(chunk.seeds))]


def compare_recipes(request: ComparisonRequest) -> Comparison:
    """Observe every recipe at every depth and seed of the request, chunk by chunk."""
    request.check()
    chosen = [recipe(name) for name in request.recipes]
    chunks = []
    for config in request.configs:
        runnable, refused = runnable_recipes(chosen, config)
        for seeds in seed_chunks(request, config, len(runnable)):
            draw = BaseDraw(config, seeds, request.distribution)
            arms = observe_arms(draw, runnable, request.batch, dtype=request.dtype, device=request.device)
            chunks.append(Chunk(config, seeds, tuple(arms), refused))
    return Comparison(request, tuple(chunks))
