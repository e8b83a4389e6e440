"""Turn a grid into chunks of cells that run in one pass each, find the cells that cannot run, and estimate the cost.

The formulas for seconds on one core and peak bytes are those of `core.health.estimate`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from ..canonical import engine_version
from ..decoder.base_draw import Distribution
from ..decoder.batch import Batch
from ..decoder.config import DecoderConfig
from ..errors import DepthscopeError, SweepError
from ..health.chunks import pass_bytes, seed_chunks, seeds_per_chunk
from ..health.estimate import call_seconds, check_run, draw_seconds, member_seconds
from ..health.pace import REFERENCE, Pace, machine_pace
from ..health.passes import passes
from ..health.request import ObserveRequest
from ..recipes.catalogue import recipe
from .grid import Setting, SweepGrid


@dataclass(frozen=True, kw_only=True)
class SweepEstimate:
    """The estimated cost of the missing (recipe, seed) cells: their number, seconds on one core, and peak bytes."""

    cells: int
    seconds: float
    peak_bytes: int


def pass_seconds(config: DecoderConfig, batch: Batch, dtype: str, members: int, pace: Pace = REFERENCE) -> float:
    """Return the seconds of forward and backward for `members` models in one batched pass, without drawing weights."""
    return call_seconds(config, pace) + members * member_seconds(config, batch, dtype, pace)


@dataclass(frozen=True, kw_only=True, eq=False)
class Chunk:
    """The (recipe, seed) cells of one setting that run in one batched pass: all pairs of `recipes` and `seeds`.

    It has all that another process needs to compute it. `setting` is the index of the setting in the grid. `deepest` is
    the largest depth that shares the same random base weights. `engine` is the version of the code that must compute
    it.
    """

    setting: int
    config: DecoderConfig
    dtype: str
    batch: Batch
    device: str
    distribution: Distribution
    recipes: tuple[str, ...]
    seeds: tuple[int, ...]
    deepest: int
    engine: str

    @property
    def seconds(self) -> float:
        """The estimated cost in seconds on one core, without drawing weights."""
        members = len(self.seeds) * len(self.recipes)
        return pass_seconds(self.config, self.batch, self.dtype, members, machine_pace())

    @property
    def peak_bytes(self) -> int:
        """The estimated peak memory in bytes, without that of the process itself."""
        return pass_bytes(self.config, self.batch, self.dtype, len(self.seeds), len(self.recipes))


@dataclass(frozen=True, eq=False)
class ChunkGroup:
    """Chunks (batched passes) that share random base weights: of one size and the same seeds.

    They may differ in depth, recipe, dtype and batch.
    """

    chunks: tuple[Chunk, ...]

    @property
    def draw_seconds(self) -> float:
        """The estimated cost of drawing the base weights, in seconds on one core."""
        first = self.chunks[0]
        deepest = replace(first.config, blocks=first.deepest)
        return draw_seconds(deepest, len(first.seeds), first.distribution, machine_pace())

    @property
    def seconds(self) -> float:
        """The estimated cost in seconds on one core; the base weights are counted once."""
        return self.draw_seconds + sum(chunk.seconds for chunk in self.chunks)


class SweepPlan:
    """The chunks (batched passes) of a grid, and the (recipe, seed) cells that cannot run.

    They depend on the grid only, not on what is stored. `refusals` maps (setting, recipe) of cells that cannot run to
    the reason. Raises `SweepError`, with the first reason, if no cell can run.
    """

    def __init__(self, grid: SweepGrid) -> None:
        self.grid = grid
        refused = {
            (index, name): error
            for index, setting in enumerate(grid.settings)
            for name in grid.computed
            if (error := _refusal(grid, setting, name)) is not None
        }
        if len(refused) == len(grid.settings) * len(grid.computed):
            first = next(iter(refused.values()))
            raise SweepError(first.sentence, *first.ways)
        self.refusals = {cell: str(error) for cell, error in refused.items()}

    @cached_property
    def groups(self) -> tuple[ChunkGroup, ...]:
        """All chunks (batched passes), grouped by shared random base weights."""
        return tuple(group for size in range(len(self.grid.sizes)) for group in self._of_size(size))

    @property
    def seconds(self) -> float:
        """The estimated cost of the whole grid in seconds on one core, as if nothing were stored."""
        return sum(group.seconds for group in self.groups)

    def _of_size(self, size: int) -> Iterator[ChunkGroup]:
        grid = self.grid
        each = len(grid.settings) // len(grid.sizes)
        found = [(index, names) for index in range(size * each, (size + 1) * each) for names in self._passes(index)]
        if not found:
            return
        found.sort(key=lambda one: -grid.settings[one[0]].config.blocks)
        deepest = grid.settings[found[0][0]].config.blocks
        step = min(self._seeds_per_chunk(index, len(names)) for index, names in found)
        for part in seed_chunks(sorted(grid.seeds), step):
            seeds = tuple(part)
            yield ChunkGroup(tuple(self._chunk(index, names, seeds, deepest) for index, names in found))

    def _seeds_per_chunk(self, index: int, arms: int) -> int:
        setting = self.grid.settings[index]
        return seeds_per_chunk(setting.config, setting.batch, setting.dtype, arms)

    def _passes(self, index: int) -> list[tuple[str, ...]]:
        """Return the recipes of every pass of a setting, without those that cannot run."""
        names = [name for name in self.grid.computed if (index, name) not in self.refusals]
        return [tuple(names[place] for place in places) for places in passes([recipe(name) for name in names])]

    def _chunk(self, index: int, names: tuple[str, ...], seeds: tuple[int, ...], deepest: int) -> Chunk:
        setting = self.grid.settings[index]
        return Chunk(
            setting=index,
            config=setting.config,
            dtype=setting.dtype,
            batch=setting.batch,
            device=self.grid.device,
            distribution=self.grid.distribution,
            recipes=names,
            seeds=seeds,
            deepest=deepest,
            engine=engine_version(),
        )


def _refusal(grid: SweepGrid, setting: Setting, name: str) -> DepthscopeError | None:
    request = ObserveRequest(
        config=setting.config,
        recipe=name,
        dtype=setting.dtype,
        device=grid.device,
        batch=setting.batch,
        budget=grid.budget,
        distribution=grid.distribution,
    )
    try:
        check_run(request)
    except DepthscopeError as error:
        return error
    return None
