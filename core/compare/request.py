"""The request for a comparison of recipes; it is checked without torch, before any weights are drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ..decoder.base_draw import XAVIER, Distribution
from ..decoder.batch import Batch, chapter_batch
from ..decoder.config import Budget, DecoderConfig
from ..decoder.parameters import layout
from ..errors import RecipeError
from ..health.band import DEFAULT_BAND, Band
from ..health.estimate import estimate
from ..health.request import CHAPTER_SEED, ObserveRequest, checked_names
from ..numerals import checked_seed
from ..recipes.catalogue import recipe
from ..recipes.recipe import Recipe

MAX_RECIPES = 6
CHUNK_BYTES = 2**29


@dataclass(frozen=True, kw_only=True)
class ComparisonRequest:
    """What to compare: up to six recipes by name, on one decoder and batch, for every seed at each depth.

    `depths` are numbers of blocks, by default that of `config`.
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
        """Raise an error if the comparison cannot run.

        `RecipeError` for unknown, repeated or too many recipes and for missing seeds, `BudgetError`, `BatchError` or
        `ConfigError` for the decoder, batch, seeds, dtype or device.
        """
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


def comparison_of(base: ObserveRequest, names: Sequence[str], seeds: int = 1) -> ComparisonRequest:
    """Return the request that compares the recipes `names` on the decoder and batch of `base`.

    There are `seeds` consecutive seeds, from the seed of `base` on; after 2^64 - 1 comes 0.
    """
    return ComparisonRequest(
        recipes=tuple(names),
        config=base.config,
        seeds=tuple((base.seed + index) % 2**64 for index in range(seeds)),
        batch=base.batch,
        distribution=base.distribution,
        band=base.band,
        dtype=base.dtype,
        device=base.device,
        budget=base.budget,
    )


def runnable_recipes(chosen: Sequence[Recipe], config: DecoderConfig) -> tuple[list[Recipe], dict[str, str]]:
    """Return the recipes that can run on `config`, and a dict from the name of each other recipe to the reason."""
    refused = {known.name: reason for known in chosen if (reason := known.refused(config)) is not None}
    return [known for known in chosen if known.name not in refused], refused


def seed_chunks(request: ComparisonRequest, config: DecoderConfig, arms: int) -> Iterator[tuple[int, ...]]:
    """Yield parts of the request's seeds, in order, whose runs of `arms` recipes together stay within `CHUNK_BYTES`.

    The parts depend on the request only, not on the memory that is free.
    """
    pair = estimate(ObserveRequest(config=config, batch=request.batch, dtype=request.dtype)).total_bytes
    size = max(1, int(CHUNK_BYTES // max(1, pair * max(arms, 1) / 2)))
    for start in range(0, len(request.seeds), size):
        yield request.seeds[start : start + size]
