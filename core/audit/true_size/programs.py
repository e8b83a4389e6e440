"""Programs: the recorded writes that give a matrix its values, from which any tile of it can be drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

# Values of a tile: it stays in a core's cache while it is drawn, read and forgotten.
TILE = 2**17
# Writes that leave nothing of what was there before, and those that do one thing to every value by itself.
DRAWS = frozenset({"normal_", "uniform_", "exponential_", "log_normal_", "cauchy_", "bernoulli_"})
# Functions of torch.nn.init that do nothing to a tensor of the meta device; each is one write here.
SILENT = ("_no_grad_trunc_normal_", "orthogonal_", "sparse_", "dirac_")
OVERWRITES = DRAWS | {"fill_", "zero_", "copy_", *SILENT}
ELEMENTWISE = DRAWS | {
    SILENT[0],
    *("fill_", "zero_", "mul_", "div_", "add_", "sub_", "clamp_", "clamp_min_", "clamp_max_", "erfinv_", "neg_"),
    *("exp_", "log_", "sqrt_", "abs_", "pow_"),
}
Place = tuple[tuple[int, ...], tuple[int, ...], int]


@dataclass(frozen=True, eq=False)
class Step:
    """One write to a part `place` (size, stride, offset) of a memory: `func(part, *args)`.

    With `first`, the part gets output number `output` of `func(*args)` instead. `counter` is the first of the seeds
    that a draw uses, None where nothing is drawn.
    """

    func: Any
    args: tuple[Any, ...]
    keywords: Mapping[str, Any]
    place: Place
    counter: int | None
    first: bool = False
    output: int = 0

    @property
    def name(self) -> str:
        """The operation's name."""
        return str(getattr(self.func, "overloadpacket", self.func).__name__)


@dataclass(eq=False)
class Memory:
    """The memory that one deferred tensor would have: `size` values, rows of `row` values, the writes so far."""

    size: int
    row: int
    dtype: torch.dtype
    holder: torch.Tensor
    steps: list[Step] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Program:
    """The values of a memory after the writes `steps`, as a function of the seed alone."""

    memory: Memory
    steps: tuple[Step, ...]
    seed: int

    @property
    def size(self) -> int:
        """The number of values."""
        return self.memory.size

    @property
    def tile(self) -> int:
        """The number of values in a tile: whole rows, and a multiple of 8."""
        row = self.memory.row
        rows = max(1, TILE // row)
        return rows * row if rows * row % 8 == 0 else row * max(8, rows - rows % 8)

    @property
    def tiles(self) -> int:
        """The number of tiles."""
        return -(-self.size // self.tile)

    @property
    def elementwise(self) -> bool:
        """True if every write changes each value of a contiguous range by itself; any tile can then be drawn alone."""
        return all(
            not step.first and step.name in ELEMENTWISE and not tensors_in(step) and contiguous(step.place)
            for step in self.steps
        )

    @property
    def written(self) -> bool:
        """True if the first write reaches every value."""
        first = self.steps[0] if self.steps else None
        return first is not None and (first.first or first.name in OVERWRITES) and covers(first.place, self.size)

    def draw_tile(self, number: int, out: torch.Tensor) -> None:
        """Write tile `number` of an elementwise program into the flat tensor `out`; NaN where no write reaches."""
        start = number * self.tile
        if not self.written:
            out.fill_(math.nan)
        for step in self.steps:
            low = max(step.place[2], start)
            high = min(step.place[2] + math.prod(step.place[0]), start + len(out))
            if low < high:
                self._run(step, out[low - start : high - start], number)

    def value(self) -> torch.Tensor:
        """Return all values, as a new flat tensor of `size` values."""
        made = torch.empty(self.size, dtype=self.memory.dtype)
        if self.elementwise:
            for number in range(self.tiles):
                self.draw_tile(number, made[number * self.tile : (number + 1) * self.tile])
            return made
        made.fill_(math.nan)
        for step in self.steps:
            self._run(step, made.as_strided(*step.place), 0)
        return made

    def _run(self, step: Step, out: torch.Tensor, number: int) -> None:
        args, keywords = tree_map(real, (step.args, dict(step.keywords)))
        if step.counter is not None:
            keywords["generator"] = torch.Generator().manual_seed(seed_of(self.seed, step.counter + number))
        if not step.first:
            step.func(out, *args, **keywords)
            return
        made = step.func.overloadpacket(*args, **keywords)
        out.copy_(made[step.output] if isinstance(made, tuple | list) else made)


@dataclass(frozen=True, eq=False)
class Past:
    """A deferred tensor as an operand of a write: the part `place` of a program's values."""

    program: Program
    place: Place


def real(value: Any) -> Any:
    """Return the values of a `Past` as a tensor, and anything else as it is."""
    return value.program.value().as_strided(*value.place) if isinstance(value, Past) else value


def seed_of(seed: int, counter: int) -> int:
    """Return the seed of a generator: different for each counter, in the 32 bits that torch's generator reads."""
    return (seed * 0x9E3779B1 + counter) % 2**32


def contiguous(place: Place) -> bool:
    """Return True if a part (size, stride, offset) is one contiguous range of its memory."""
    wanted = 1
    for size, stride in zip(reversed(place[0]), reversed(place[1]), strict=True):
        if size != 1 and stride != wanted:
            return False
        wanted *= size
    return True


def covers(place: Place, size: int) -> bool:
    """Return True if a part (size, stride, offset) is a whole memory of `size` values."""
    return place[2] == 0 and math.prod(place[0]) == size


def tensors_in(step: Step) -> bool:
    """Return True if a write reads tensors beside the part that it writes to."""
    leaves = tree_flatten((step.args, dict(step.keywords)))[0]
    return any(isinstance(leaf, torch.Tensor | Past) for leaf in leaves)
