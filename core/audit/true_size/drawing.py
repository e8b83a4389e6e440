"""Draw matrices by their programs, tile by tile and on every core, and read their statistics on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import torch

from ..initialization.sign_hash import sign_hash
from ..initialization.slices import Slice
from ..initialization.weight_stats import WeightStats, weight_stats
from .deferred import Program
from .readings import Reading, TileReading, read_tile, read_whole

Result = TypeVar("Result")
# Values of a table that are drawn before they are used: a few tiles for each core.
STRIPE = 2**22


class Drawing:
    """The matrices of a model by name, each drawn whenever it is asked for, with the same values every time.

    `readings` holds the statistics of every matrix that was drawn whole, `parts` those of its slices where it has
    several, and `digests` those of their signs, for the matrices of a stack too.
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

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()

    def fill(self, targets: Mapping[str, torch.Tensor]) -> None:
        """Draw whole matrices into tensors of their shapes; what was not read yet is read."""
        with torch.no_grad():
            work = [job for name, target in targets.items() for job in self._jobs(name, target.data.view(-1))]
            done = self._each(work)
            for name, target in targets.items():
                tiles = [next(done) for _ in range(self._programs[name].tiles)]
                if name not in self.readings:
                    self._read(name, [tile for tile in tiles if tile is not None], target)

    def rows(self, name: str, wanted: torch.Tensor) -> torch.Tensor:
        """Return rows of a table `[V, D]` by their sorted numbers; the table is read where it was not."""
        program, made = self._programs[name], torch.empty(len(wanted), self.shapes[name][-1], dtype=self.dtype)
        height = program.tile // self.shapes[name][-1]
        needed = range(program.tiles) if name not in self.readings else (wanted // height).unique().tolist()
        tiles: list[TileReading] = []
        for first, values, found in self._stripes(name, list(needed)):
            tiles += [tile for tile in found if tile is not None]
            inside = (wanted >= first) & (wanted < first + len(values))
            made[inside] = values[wanted[inside] - first]
        if name not in self.readings:
            self._read(name, tiles, None)
        return made

    def stripes(self, name: str) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield (first row, rows) of a table, in order; the rows are overwritten by the next ones."""
        tiles: list[TileReading] = []
        for first, values, found in self._stripes(name, list(range(self._programs[name].tiles))):
            tiles += [tile for tile in found if tile is not None]
            yield first, values
        if name not in self.readings:
            self._read(name, tiles, None)

    def tiled(self, name: str) -> bool:
        """Return whether a matrix can be drawn in parts."""
        return len(self.shapes[name]) == 2 and self._tileable(name)

    def _tileable(self, name: str) -> bool:
        program = self._programs[name]
        return program.elementwise and program.memory.row == self.shapes[name][-1]

    def _stripes(
        self, name: str, numbers: Sequence[int]
    ) -> Iterator[tuple[int, torch.Tensor, list[TileReading | None]]]:
        program, width = self._programs[name], self.shapes[name][-1]
        group = max(1, STRIPE // program.tile)
        memory = torch.empty(group * program.tile, dtype=self.dtype)
        while numbers:
            # Neighbours only, so that a stripe is one range of rows.
            count = next((n for n in range(1, len(numbers)) if numbers[n] != numbers[n - 1] + 1), len(numbers))
            taken, numbers = numbers[: min(count, group)], numbers[min(count, group) :]
            start = taken[0] * program.tile
            values = memory[: min(program.size, (taken[-1] + 1) * program.tile) - start]
            with torch.no_grad():
                found = list(self._each(self._jobs(name, values, taken)))
            yield start // width, values.view(-1, width), found

    def _jobs(
        self, name: str, flat: torch.Tensor, numbers: Sequence[int] | None = None
    ) -> list[Callable[[], TileReading | None]]:
        """Return one piece of work for each tile; a matrix that cannot be drawn in tiles is drawn here, whole."""
        program = self._programs[name]
        tiles = range(program.tiles) if numbers is None else numbers
        drawn = not self._tileable(name)
        if drawn:
            flat.copy_(program.value())
        parts = [flat[place * program.tile :][: program.tile] for place in range(len(tiles))]
        shape = None if name in self.readings else self.shapes[name]
        return [partial(_tile, program, n, part, shape, drawn=drawn) for n, part in zip(tiles, parts, strict=True)]

    def _each(self, work: Sequence[Callable[[], Result]]) -> Iterator[Result]:
        """Run the work on all threads, in order, in lots of a few pieces."""
        lot = max(1, -(-len(work) // (8 * self._threads)))
        lots = [work[start : start + lot] for start in range(0, len(work), lot)]
        for found in self._pool.map(lambda pieces: [piece() for piece in pieces], lots):
            yield from found

    def _read(self, name: str, tiles: Sequence[TileReading], whole: torch.Tensor | None) -> None:
        shape = self.shapes[name]
        reading = self.readings[name] = read_whole(tiles, shape)
        if reading.digest is not None:
            self.digests[name] = reading.digest
        self.parts[name] = [(reading.slices[0], reading.weights)]
        if whole is None:
            return
        if len(reading.slices) > 1:
            self.parts[name] = [(part, weight_stats(part.of(whole.data))) for part in reading.slices]
        if len(shape) > 2 and shape[0] > 1:
            found = {f"{name}[{place}]": sign_hash(matrix) for place, matrix in enumerate(whole.data)}
            self.digests |= {key: digest for key, digest in found.items() if digest is not None}


def _tile(
    program: Program, number: int, out: torch.Tensor, shape: tuple[int, ...] | None, *, drawn: bool
) -> TileReading | None:
    """Draw one tile into `out`, unless it is `drawn`; read it where the tensor's shape is given."""
    if not drawn and out.dtype == program.memory.dtype:
        program.draw_tile(number, out)
    elif not drawn:
        exact = torch.empty(len(out), dtype=program.memory.dtype)
        program.draw_tile(number, exact)
        out.copy_(exact)
    return None if shape is None else read_tile(out, number * program.tile, shape)
