"""Draws matrices by their programs (recorded writes), tile by tile on every core, and measures them on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial, reduce

import torch

from ..initialization.sign_hash import sign_hash
from ..initialization.slices import Slice
from ..initialization.weight_stats import WeightStats, weight_stats
from .programs import Program
from .readings import Reading, TileReading, read_tile, read_whole

# Values of a table that are drawn before they are used: a few tiles for each core.
STRIPE = 2**22
# Runs of tiles that a core draws of one matrix, and readings that are held before they are joined.
RUNS, JOINED = 4, 8


class Drawing:
    """The matrices of a model by name, each drawn whenever it is asked for, with the same values every time.

    `readings` holds the statistics of every matrix that was drawn whole. `parts` holds those of its slices if it has
    several. `digests` identify the draws by their signs, for each matrix of a stack too.
    """

    def __init__(
        self,
        programs: Mapping[str, Program],
        shapes: Mapping[str, tuple[int, ...]],
        *,
        dtype: torch.dtype,
        threads: int,
    ) -> None:
        self.shapes = shapes
        self.dtype = dtype
        self.readings: dict[str, Reading] = {}
        self.parts: dict[str, list[tuple[Slice, WeightStats]]] = {}
        self.digests: dict[str, str] = {}
        self._programs = programs
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))

    def __enter__(self) -> Drawing:
        return self

    def __exit__(self, *_: object) -> None:
        """End the threads."""
        self._pool.shutdown()

    def fill(self, targets: Mapping[str, torch.Tensor]) -> None:
        """Draw whole matrices into the tensors `targets`, by name, and measure those that were not measured yet."""
        with torch.no_grad():
            runs = {name: self._runs(name, target.data.view(-1)) for name, target in targets.items()}
            for name, found in runs.items():
                self._read(name, [run.result() for run in found], targets[name])

    def rows(self, name: str, wanted: torch.Tensor) -> torch.Tensor:
        """Return the rows `wanted` (sorted numbers) of a table `[V, D]`, as `[len(wanted), D]`.

        The whole table is drawn and measured if it was not before.
        """
        program, made = self._programs[name], torch.empty(len(wanted), self.shapes[name][-1], dtype=self.dtype)
        height = program.tile // self.shapes[name][-1]
        known = name in self.readings
        tiles = sorted(set((wanted // height).tolist())) if known else range(program.tiles)
        for first, values in self._stripes(name, tiles):
            inside = (wanted >= first) & (wanted < first + len(values))
            made[inside] = values[wanted[inside] - first]
        return made

    def stripes(self, name: str) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield (number of the first row, rows as a tensor) of a table, in order.

        The same memory is used again for the next rows.
        """
        yield from self._stripes(name, range(self._programs[name].tiles))

    def tiled(self, name: str) -> bool:
        """Return True if a matrix can be drawn in parts."""
        return len(self.shapes[name]) == 2 and self._tileable(name)

    def _tileable(self, name: str) -> bool:
        program = self._programs[name]
        return program.elementwise and program.memory.row == self.shapes[name][-1]

    def _stripes(self, name: str, numbers: Sequence[int]) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield (first row, rows) of the tiles with these ascending numbers, a stripe at a time, and read them."""
        program, width = self._programs[name], self.shapes[name][-1]
        group = max(1, STRIPE // program.tile)
        memory = torch.empty(group * program.tile, dtype=self.dtype)
        read: list[TileReading | None] = []
        while numbers:
            # Neighbours only, so that a stripe is one range of rows.
            count = next((n for n in range(1, len(numbers)) if numbers[n] != numbers[n - 1] + 1), len(numbers))
            taken, numbers = numbers[: min(count, group)], numbers[min(count, group) :]
            start = taken[0] * program.tile
            values = memory[: min(program.size, (taken[-1] + 1) * program.tile) - start]
            with torch.no_grad():
                read += [run.result() for run in self._runs(name, values, taken[0])]
            yield start // width, values.view(-1, width)
        self._read(name, read, None)

    def _runs(self, name: str, flat: torch.Tensor, first: int = 0) -> list[Future[TileReading | None]]:
        """Begin to draw the tiles from number `first` on into `flat`, and return the runs of tiles that it takes.

        A matrix that cannot be drawn in tiles is drawn here, whole.
        """
        program = self._programs[name]
        drawn = not self._tileable(name)
        if drawn:
            flat.copy_(program.value())
        tiles = -(-len(flat) // program.tile)
        lot = max(1, -(-tiles // (RUNS * self._threads))) * program.tile
        shape = None if name in self.readings else self.shapes[name]
        run = partial(_run, program, shape=shape, drawn=drawn)
        starts = range(0, len(flat), lot)
        return [self._pool.submit(run, flat[at : at + lot], first + at // program.tile) for at in starts]

    def _read(self, name: str, runs: Sequence[TileReading | None], whole: torch.Tensor | None) -> None:
        found = [run for run in runs if run is not None]
        if name in self.readings or not found:
            return
        shape = self.shapes[name]
        reading = self.readings[name] = read_whole(_joined(found, shape), shape)
        if reading.digest is not None:
            self.digests[name] = reading.digest
        self.parts[name] = [(reading.slices[0], reading.weights)]
        if whole is None:
            return
        if len(reading.slices) > 1:
            self.parts[name] = [(part, weight_stats(part.of(whole.data))) for part in reading.slices]
        if len(shape) > 2 and shape[0] > 1:
            stacked = {f"{name}[{place}]": sign_hash(matrix) for place, matrix in enumerate(whole.data)}
            self.digests |= {key: digest for key, digest in stacked.items() if digest is not None}


def _run(
    program: Program, out: torch.Tensor, first: int, *, shape: tuple[int, ...] | None, drawn: bool
) -> TileReading | None:
    """Draw the tiles from number `first` on into `out`, unless it is `drawn`; read them where the shape is given."""
    found: list[TileReading] = []
    for place, part in enumerate(torch.split(out, program.tile)):
        if not drawn and out.dtype == program.memory.dtype:
            program.draw_tile(first + place, part)
        elif not drawn:
            exact = torch.empty(len(part), dtype=program.memory.dtype)
            program.draw_tile(first + place, exact)
            part.copy_(exact)
        if shape is not None:
            found.append(read_tile(part, (first + place) * program.tile, shape))
            found = [_joined(found, shape)] if len(found) == JOINED else found
    return None if shape is None else _joined(found, shape)


def _joined(runs: Sequence[TileReading], shape: Sequence[int]) -> TileReading:
    tall = len(shape) > 1 and shape[-2] > shape[-1]
    return reduce(lambda one, two: one.and_then(two, tall=tall), runs)
