"""Up to six recipes on shared base draws, over seeds and depths.

Every arm of a seed transforms the same base draw; `core.recipes.comparison_tables` writes the result as long tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from core.decoder.base_draw import XAVIER, BaseDraw, Distribution
from core.decoder.batch import Batch, chapter_batch
from core.decoder.config import Budget, DecoderConfig
from core.decoder.parameters import layout
from core.decoder.recipe_type import Recipe
from core.decoder.recipes import recipe
from core.decoder.splitmix64 import checked_seed
from core.errors import RecipeError
from core.health.arms import Arm, observe_arms
from core.health.band import DEFAULT_BAND, Band
from core.health.estimate import estimate
from core.health.request import CHAPTER_SEED, ObserveRequest, checked_names

MAX_RECIPES = 6
CHUNK_BYTES = 2**29


@dataclass(frozen=True, kw_only=True)
class ComparisonRequest:
    """What is compared: `recipes` (names, at most six) on `config`'s sizes for every seed, at every one of `depths`.

    `depths` defaults to the depth of `config`.
    """

    recipes: tuple[str, ...]
    config: DecoderConfig = field(default_factory=DecoderConfig)
    seeds: tuple[int, ...] = (CHAPTER_SEED,)
    depths: tuple[int, ...] = ()
    batch: Batch = field(default_factory=chapter_batch)
    distribution: Distribution = XAVIER
    band: Band = DEFAULT_BAND
    dtype: str = "float64"
    device: str = "cpu"
    budget: Budget = field(default_factory=Budget)

    @property
    def configs(self) -> list[DecoderConfig]:
        """The decoder at every depth, in the order given."""
        return [replace(self.config, blocks=blocks) for blocks in self.depths or (self.config.blocks,)]

    def check(self) -> None:
        """Refuse what cannot run before any array exists: counts, names, budget, seeds, batch, dtype and device."""
        if not 1 <= len(self.recipes) <= MAX_RECIPES:
            raise RecipeError(f"{len(self.recipes)} recipes are asked for; compare between 1 and {MAX_RECIPES}.")
        names = [recipe(name).name for name in self.recipes]
        if len(set(names)) != len(names):
            raise RecipeError(f"A recipe stands twice in {', '.join(names)[:120]}; name each one once.")
        if not self.seeds or len(set(self.depths)) != len(self.depths):
            raise RecipeError("A comparison needs at least one seed and each depth once.")
        for seed in self.seeds:
            checked_seed(seed)
        for config in self.configs:
            self.budget.check(config, layout(config).parameters)
            self.batch.check(config)
        checked_names(self.dtype, self.device)


@dataclass(frozen=True)
class Chunk:
    """Arms of some seeds at one depth; `refused` holds the sentence of each recipe that does not run there."""

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
        """Every arm with its chunk and the members of the chunk's seeds, a depth and a recipe at a time."""
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


def runnable_recipes(chosen: Sequence[Recipe], config: DecoderConfig) -> tuple[list[Recipe], dict[str, str]]:
    """The recipes that run on `config`, and the sentence of each that does not."""
    runnable, refused = [], {}
    for known in chosen:
        try:
            known.graph(config)
        except RecipeError as error:
            refused[known.name] = str(error)
        else:
            runnable.append(known)
    return runnable, refused


def seed_chunks(request: ComparisonRequest, config: DecoderConfig, arms: int) -> Iterator[tuple[int, ...]]:
    """Consecutive seeds whose members stay within `CHUNK_BYTES`: a function of the request, not of memory left."""
    pair = estimate(ObserveRequest(config=config, batch=request.batch, dtype=request.dtype)).total_bytes
    size = max(1, int(CHUNK_BYTES // max(1, pair * max(arms, 1) / 2)))
    for start in range(0, len(request.seeds), size):
        yield request.seeds[start : start + size]
