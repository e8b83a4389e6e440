"""Run up to six recipes on the same seeds and depths.

For one seed and depth, every recipe transforms the same random base weights. `core.compare.comparison_tables` turns the
result into tables.
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
    """The observations of all recipes on some seeds at one depth.

    `arms` has one `Arm` per recipe that runs: the recipe and its observation on these seeds. `refused` maps each recipe
    that cannot run at these sizes to the reason.
    """

    config: DecoderConfig
    seeds: tuple[int, ...]
    arms: tuple[Arm, ...]
    refused: Mapping[str, str]


@dataclass(frozen=True)
class Comparison:
    """The observations of all recipes of a request; only scalars are kept, no tensors."""

    request: ComparisonRequest
    chunks: tuple[Chunk, ...]

    def arms(self) -> Iterator[tuple[Chunk, Arm, list[int]]]:
        """Yield every chunk and arm (one recipe on the chunk's seeds), ordered by depth, then by recipe.

        The third item lists, for each seed of the chunk, its index in the arm's observation.
        """
        for config in self.request.configs:
            chunks = [chunk for chunk in self.chunks if chunk.config == config]
            for place in range(len(chunks[0].arms)):
                for chunk in chunks:
                    arm = chunk.arms[place]
                    yield chunk, arm, [arm.member(index) for index in range(len(chunk.seeds))]


def compare_recipes(request: ComparisonRequest) -> Comparison:
    """Run every recipe of the request at every depth and seed, and return the observations.

    Raises the errors of `request.check`.
    """
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
