"""What is known of every cell of a grid: its state and its few scalars; sites stay in the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from core.decoder.splitmix64 import FloatArray
from core.sweep.grid import SweepGrid
from core.sweep.quantities import QUANTITIES, quantities

MISSING, OBSERVED, REFUSED = 0, 1, 2


class Results:
    """State and scalars by (setting, recipe, seed), each an index into the grid's settings, recipes and seeds.

    `state` is `[settings, recipes, seeds]`, `values` the same with `QUANTITIES` last, NaN where nothing was observed.
    """

    def __init__(self, grid: SweepGrid, refusals: Mapping[tuple[int, str], str]) -> None:
        self.grid = grid
        shape = (len(grid.settings), len(grid.computed), len(grid.seeds))
        self.state: npt.NDArray[np.int8] = np.zeros(shape, dtype=np.int8)
        self.values: FloatArray = np.full((*shape, len(QUANTITIES)), np.nan)
        self._recipes = {name: index for index, name in enumerate(grid.computed)}
        self._seeds = {seed: index for index, seed in enumerate(grid.seeds)}
        self._refusals = dict(refusals)
        self._reasons: dict[tuple[int, int, int], str] = {}
        for setting, name in refusals:
            self.state[setting, self._recipes[name]] = REFUSED

    @property
    def finished(self) -> int:
        """Cells observed or refused."""
        return int(np.count_nonzero(self.state))

    def recipe(self, name: str) -> int:
        """Index of a computed recipe."""
        return self._recipes[name]

    def missing(self, setting: int, recipe: str, seeds: Sequence[int]) -> list[int]:
        """Those of `seeds` whose cell has not finished."""
        states = self.states(setting, recipe, seeds)
        return [seed for seed, state in zip(seeds, states, strict=True) if state == MISSING]

    def states(self, setting: int, recipe: str, seeds: Sequence[int]) -> list[int]:
        """State of the cell of each seed."""
        places = [self._seeds[seed] for seed in seeds]
        states: list[int] = self.state[setting, self._recipes[recipe], places].tolist()
        return states

    def take(
        self, setting: int, recipe: str, seeds: Sequence[int], numbers: FloatArray, reasons: Mapping[int, str]
    ) -> None:
        """Enter finished cells: stored rows `[len(seeds), 1 + 2 S]`, and the reason of those (by position) refused."""
        row = self._recipes[recipe]
        places = np.array([self._seeds[seed] for seed in seeds])
        sound = np.ones(len(seeds), dtype=bool)
        sound[list(reasons)] = False
        self.state[setting, row, places] = np.where(sound, OBSERVED, REFUSED)
        if sound.any():
            self.values[setting, row, places[sound]] = quantities(numbers[sound])
        for position, reason in reasons.items():
            self._reasons[setting, row, int(places[position])] = reason

    def reason(self, setting: int, recipe: str, seed: int) -> str:
        """Why the cell of a seed was refused; empty where it was not."""
        planned = self._refusals.get((setting, recipe))
        return planned or self._reasons.get((setting, self._recipes[recipe], self._seeds[seed]), "")
