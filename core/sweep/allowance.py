"""Limits on the sweep of one visitor of a page; each error is a sentence that the page shows."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import BudgetError
from .grid import SweepGrid
from .plan import SweepEstimate
from .progress import clock


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """How much of a shared server the sweep of one visitor may use.

    `cells` is the number of cells (one recipe on one seed in one setting), `plans` that of settings times recipes,
    since each is planned separately. `seconds` is the time for all missing cells, `pass_seconds` and `pass_bytes` the
    time and memory of one pass; a cancelled sweep still finishes its current pass.
    """

    cells: int = 2**15
    plans: int = 256
    seconds: float = 120.0
    pass_seconds: float = 0.7
    pass_bytes: int = 2**31

    def check(self, grid: SweepGrid) -> None:
        """Raise `BudgetError` if the grid has too many (recipe, seed) cells, or too many settings times recipes.

        This is before anything is planned.
        """
        plans = len(grid.settings) * len(grid.computed)
        for value, limit, what in ((plans, self.plans, "decoders"), (grid.cells, self.cells, "cells")):
            if value > limit:
                raise BudgetError(
                    f"The sweep has {value:,} {what} and a page takes {limit:,}; give fewer depths, sizes, recipes or "
                    "seeds, or run it on the command line."
                )

    def check_work(self, cost: SweepEstimate, longest: float) -> None:
        """Raise `BudgetError` if the missing (recipe, seed) cells need too much time or memory.

        `longest` is the time of the longest pass in seconds.
        """
        for value, limit, sentence in (
            (cost.seconds, self.seconds, f"The missing cells take about {clock(cost.seconds)} and a page computes up "
             f"to {clock(self.seconds)}"),
            (longest, self.pass_seconds, f"One pass takes about {longest:.1f} s and a page computes passes of up to "
             f"{self.pass_seconds:g} s, so that cancelling answers"),
            (cost.peak_bytes, self.pass_bytes, f"A pass needs about {cost.peak_bytes / 2**30:.1f} GiB and a page takes "
             f"{self.pass_bytes / 2**30:g} GiB"),
        ):  # fmt: skip
            if value > limit:
                raise BudgetError(f"{sentence}; give fewer or smaller decoders, or run it on the command line.")
