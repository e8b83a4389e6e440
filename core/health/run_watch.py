"""How far a block-by-block run has come: the blocks that are done, the time left, and the sites reached so far."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from ..decoder.splitmix64 import FloatArray
from ..recipes.catalogue import CONTROL, recipe
from ..recipes.recipe import Recipe
from .passes import passes
from .request import ObserveRequest

# A block in reverse beside one forward, until the first was timed: from 1 where draws take the time to 3 where products
# do and the block is run again.
REVERSE = 2.0


@dataclass(frozen=True)
class Reached:
    """RMS of states and adjoints of one recipe, `[S]` each, NaN at the sites that the run has not reached."""

    labels: Sequence[str]
    activation: FloatArray
    adjoint: FloatArray


@dataclass(frozen=True)
class RunState:
    """A run after one of its blocks: `done` of `total` blocks, forward and in reverse, over all passes.

    `seconds_left` is by the blocks that this process computed; `reached` has the recipes of the present pass.
    """

    done: int
    total: int
    seconds_left: float
    reached: Mapping[str, Reached]


class RunWatch:
    """The callbacks `told` and `seen` of `kept_document`; `shown` is called with the state after every block."""

    def __init__(
        self, request: ObserveRequest, shown: Callable[[RunState], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        chosen = [recipe(request.recipe), recipe(CONTROL)]
        self._passes = [[chosen[index].name for index in indices] for indices in passes(chosen)]
        self._config, self._shown, self._clock = request.config, shown, clock
        self._done, self._last = 0, clock()
        self._forward: list[float] = []
        self._reverse: list[float] = []

    def told(self, what: str, done: int, total: int) -> None:
        """Time the block that has just been computed."""
        now = self._clock()
        (self._forward if done <= self._config.blocks else self._reverse).append(now - self._last)
        self._done, self._last = done, now

    def seen(self, recipes: Sequence[Recipe], activation: FloatArray, adjoint: FloatArray) -> None:
        """Hand over the state of the run after that block."""
        names = [one.name for one in recipes]
        before, each = self._passes.index(names), 2 * self._config.blocks
        labels = recipes[0].graph(self._config).site_labels()
        reached = {
            name: Reached(labels, *rms) for name, *rms in zip(names, activation, adjoint, strict=True)
        }  # fmt: skip
        state = RunState(before * each + self._done, len(self._passes) * each, self._left(before), reached)
        self._shown(state)

    def _left(self, before: int) -> float:
        """Return the seconds that the remaining blocks take at the median pace of those that were timed."""
        blocks, later = self._config.blocks, len(self._passes) - before - 1
        forward = max(0, blocks - self._done) + later * blocks
        reverse = min(blocks, 2 * blocks - self._done) + later * blocks
        each_forward = median(self._forward or [seconds / REVERSE for seconds in self._reverse])
        each_reverse = median(self._reverse or [seconds * REVERSE for seconds in self._forward])
        return forward * each_forward + reverse * each_reverse
