"""The state of every cell of a grid and a few scalars of each, from which all summaries are made.

A cell is observed, refused (its ratios are not finite, or it cannot run) or not finished. The numbers of every site
stay in the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from ..decoder.config import DecoderConfig
from ..decoder.splitmix64 import FloatArray
from ..errors import StorageError
from ..health.sites import site_ratios
from ..recipes.catalogue import recipe
from .cells import CellResult, cell_keys
from .grid import SweepGrid
from .store import Store

RATIOS = (
    "largest_activation_ratio", "smallest_activation_ratio", "last_activation_ratio",
    "largest_adjoint_ratio", "smallest_adjoint_ratio", "input_adjoint_ratio",
)  # fmt: skip
QUANTITIES = (*RATIOS, "loss_nats")
# Indices of the quantities that decide whether every ratio of a cell lies within the band.
EXTREMES = [QUANTITIES.index(name) for name in RATIOS if name.startswith(("largest", "smallest"))]


def split_numbers(numbers: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Split stored rows `[n, 1 + 2 S]` into loss `[n]`, activation RMS `[n, S]` and adjoint (gradient) RMS `[n, S]`."""
    sites = (numbers.shape[1] - 1) // 2
    return numbers[:, 0], numbers[:, 1 : 1 + sites], numbers[:, 1 + sites :]


def ratios(numbers: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the activation ratios and the adjoint (gradient) ratios of stored rows, `[n, S]` each.

    The RMS of a residual site is divided by that of the input for activations, and of the last site for adjoints.
    """
    _, activation, adjoint = split_numbers(numbers)
    return site_ratios(activation, adjoint)


def quantities(numbers: FloatArray) -> FloatArray:
    """Return the scalars named in `QUANTITIES` for every stored row, `[n, len(QUANTITIES)]`."""
    activation, adjoint = ratios(numbers)
    columns = [
        activation.max(axis=1), activation.min(axis=1), activation[:, -1],
        adjoint.max(axis=1), adjoint.min(axis=1), adjoint[:, 0],
        numbers[:, 0],
    ]  # fmt: skip
    return np.stack(columns, axis=1)


class Results:
    """The state and scalars of all cells, by the indices of setting, recipe and seed in the grid.

    `observed` and `refused` are boolean masks `[settings, recipes, seeds]`; a cell in neither is not finished. `values`
    is `[settings, recipes, seeds, len(QUANTITIES)]`, NaN where nothing was observed. `refusals` maps (setting, recipe)
    of cells that cannot run to the reason.
    """

    def __init__(self, grid: SweepGrid, refusals: Mapping[tuple[int, str], str], store: Store) -> None:
        self.grid, self._refusals, self._store = grid, refusals, store
        shape = (len(grid.settings), len(grid.computed), len(grid.seeds))
        self.observed, self.refused = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
        self.values: FloatArray = np.full((*shape, len(QUANTITIES)), np.nan)
        self._recipes = {name: index for index, name in enumerate(grid.computed)}
        self._seeds = {seed: index for index, seed in enumerate(grid.seeds)}
        self._reasons: dict[tuple[int, int, int], str] = {}
        for setting, name in refusals:
            self.refused[setting, self._recipes[name]] = True

    @property
    def finished(self) -> int:
        """The number of (recipe, seed) cells that are observed or refused."""
        return int(np.count_nonzero(self.observed | self.refused))

    def recipe(self, name: str) -> int:
        """Return the index of a recipe of the grid."""
        return self._recipes[name]

    def missing(self, setting: int, recipe: str, seeds: Sequence[int]) -> list[int]:
        """Return those of `seeds` whose (recipe, seed) cell is not finished."""
        row, places = self._recipes[recipe], [self._seeds[seed] for seed in seeds]
        finished = (self.observed[setting, row, places] | self.refused[setting, row, places]).tolist()
        return [seed for seed, known in zip(seeds, finished, strict=True) if not known]

    def reason(self, setting: int, recipe: str, seed: int) -> str:
        """Return the sentence that says why a (recipe, seed) cell is refused; an empty string if it is not."""
        planned = self._refusals.get((setting, recipe))
        return planned or self._reasons.get((setting, self._recipes[recipe], self._seeds[seed]), "")

    def record(
        self, setting: int, recipe: str, seeds: Sequence[int], numbers: FloatArray, reasons: Mapping[int, str]
    ) -> None:
        """Record finished (recipe, seed) cells of one setting and recipe, without storing them.

        `numbers` are rows `[len(seeds), 1 + 2 S]`; `reasons` maps the positions of refused seeds to the reason.
        """
        row = self._recipes[recipe]
        places = np.array([self._seeds[seed] for seed in seeds])
        sound = np.ones(len(seeds), dtype=bool)
        sound[list(reasons)] = False
        self.observed[setting, row, places], self.refused[setting, row, places] = sound, ~sound
        if sound.any():
            self.values[setting, row, places[sound]] = quantities(numbers[sound])
        for position, reason in reasons.items():
            self._reasons[setting, row, int(places[position])] = reason

    def read(self, setting: int, recipe: str, seeds: Sequence[int]) -> None:
        """Record those (recipe, seed) cells of `seeds` that are in the store."""
        pairs = self._stored(setting, recipe, seeds)
        if pairs:
            cells = [cell for _, cell in pairs]
            reasons = {position: cell.reason for position, cell in enumerate(cells) if cell.reason}
            self.record(setting, recipe, [seed for seed, _ in pairs], _stacked(cells), reasons)

    def numbers(self, setting: int, recipe: str, seeds: Sequence[int]) -> FloatArray:
        """Return the stored rows `[len(seeds), 1 + 2 S]` of observed (recipe, seed) cells, for S residual sites.

        They are the loss, the activation RMS and the adjoint (gradient) RMS. Raises `StorageError` if the store no
        longer has them.
        """
        cells = [cell for _, cell in self._stored(setting, recipe, seeds)]
        if len(cells) < len(seeds):
            raise StorageError(
                f"The store {self._store.path} no longer has {len(seeds) - len(cells)} finished cells, which another "
                "process deleted or damage hides; run the sweep again, and with another store where that does not help."
            )
        return _stacked(cells)

    def _stored(self, setting: int, recipe: str, seeds: Sequence[int]) -> list[tuple[int, CellResult]]:
        if not seeds:
            return []
        group = self.grid.settings[setting]
        keys = cell_keys(self.grid, group, recipe, seeds)
        known = self._store.lookup(keys, 1 + 2 * len(site_labels(recipe, group.config)))
        return [(seed, known[key]) for seed, key in zip(seeds, keys, strict=True) if key in known]


@lru_cache(maxsize=4096)
def site_labels(name: str, config: DecoderConfig) -> tuple[str, ...]:
    """Return the labels of all sites (states of the residual stream) of `config` under the recipe `name`, in order."""
    return tuple(recipe(name).graph(config).site_labels())


def _stacked(cells: Sequence[CellResult]) -> FloatArray:
    """Return the numbers `[n, 1 + 2 S]` of stored cells of one setting, NaN for refused cells."""
    numbers = np.full((len(cells), max((len(cell.numbers) for cell in cells), default=1)), np.nan)
    for position, cell in enumerate(cells):
        if not cell.reason:
            numbers[position] = cell.numbers
    return numbers
