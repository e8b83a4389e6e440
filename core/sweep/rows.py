"""The long table of a sweep, row by row, without pandas and without ever holding the whole of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy.typing as npt

from core.decoder.splitmix64 import FloatArray
from core.health.columns import OBSERVED, REFUSED, SITE_COLUMNS
from core.recipes.catalogue import recipe
from core.sweep import results
from core.sweep.grid import GridArm, Setting
from core.sweep.quantities import ratios, split_numbers, verdicts

if TYPE_CHECKING:
    import numpy as np

    from core.sweep.run import SweepRun

SEEDS_A_SLICE = 256


@dataclass(frozen=True, eq=False)
class Slice:
    """Cells of one arm and setting: observed ones as arrays `[n, S]`, refused ones by seed with their reasons."""

    arm: GridArm
    setting: Setting
    labels: Sequence[str]
    seeds: Sequence[int]
    loss: FloatArray
    activation: FloatArray
    activation_ratio: FloatArray
    activation_band: npt.NDArray[np.str_]
    adjoint: FloatArray
    adjoint_ratio: FloatArray
    adjoint_band: npt.NDArray[np.str_]
    refused: Sequence[tuple[int, str]]


def columns(run: SweepRun) -> tuple[str, ...]:
    """The contract's columns, then one for each further axis that varies over the grid."""
    return (*SITE_COLUMNS, *run.grid.extra_columns)


def slices(run: SweepRun, name: str | None = None, blocks: int | None = None) -> Iterator[Slice]:
    """Finished cells in the order of the table: arm, size, dtype, batch, depth, seed. Memory stays flat."""
    for arm in run.grid.arms:
        for index, setting in enumerate(run.grid.settings):
            if name in (None, arm.recipe) and blocks in (None, setting.config.blocks):
                for start in range(0, len(run.grid.seeds), SEEDS_A_SLICE):
                    yield _slice(run, arm, index, setting, run.grid.seeds[start : start + SEEDS_A_SLICE])


def csv_lines(part: Slice) -> Iterator[str]:
    """The rows of one slice as CSV, line ends included; floats in full. A refused cell is one row without a site."""
    arm, extra = part.arm, "".join(f",{value}" for _, value in part.setting.columns)
    blocks = part.setting.config.blocks
    sites = [f"{site},{label}," for site, label in enumerate(part.labels)]
    arrays = (
        part.activation, part.activation_ratio, part.activation_band,
        part.adjoint, part.adjoint_ratio, part.adjoint_band,
    )  # fmt: skip
    for seed, loss, *cell in zip(part.seeds, part.loss.tolist(), *(a.tolist() for a in arrays), strict=True):
        head, tail = f"{arm.arm},{arm.recipe},{seed},{blocks},", f",{loss!r},{OBSERVED},{extra}\n"
        for site, a, ratio, band, g, adjoint_ratio, adjoint_band in zip(sites, *cell, strict=True):
            yield f"{head}{site}{a!r},{ratio!r},{band},{g!r},{adjoint_ratio!r},{adjoint_band}{tail}"
    for seed, reason in part.refused:
        quoted = reason.replace('"', '""')
        yield f'{arm.arm},{arm.recipe},{seed},{blocks},,,,,,,,,,{REFUSED},"{quoted}"{extra}\n'


def _slice(run: SweepRun, arm: GridArm, index: int, setting: Setting, seeds: Sequence[int]) -> Slice:
    state = dict(zip(seeds, run.results.states(index, arm.recipe, seeds), strict=True))
    observed = [seed for seed in seeds if state[seed] == results.OBSERVED]
    numbers = run.numbers(index, arm.recipe, observed)
    loss, activation, adjoint = split_numbers(numbers)
    activation_ratio, adjoint_ratio = ratios(numbers)
    return Slice(
        arm=arm,
        setting=setting,
        labels=recipe(arm.recipe).graph(setting.config).site_labels() if observed else (),
        seeds=observed,
        loss=loss,
        activation=activation,
        activation_ratio=activation_ratio,
        activation_band=verdicts(activation_ratio, run.grid.band),
        adjoint=adjoint,
        adjoint_ratio=adjoint_ratio,
        adjoint_band=verdicts(adjoint_ratio, run.grid.band),
        refused=[(s, run.results.reason(index, arm.recipe, s)) for s in seeds if state[s] == results.REFUSED],
    )
