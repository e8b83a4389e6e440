"""The gate of a sweep: which cells of its written table leave the band or are refused, and which is worst."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby
from typing import Any

from ..health.band import Band
from ..health.columns import INITIALIZED, REFUSED
from .output import OutputFolder
from .tables import ROWS


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A cell outside the band at `site`, by the ratio of one `kind`; or a refused one, with its reason alone."""

    recipe: str
    seed: str
    blocks: int
    settings: str = ""
    label: str | None = None
    kind: str | None = None
    ratio: float | None = None
    limit: float | None = None
    reason: str | None = None

    @property
    def factor(self) -> float:
        """How far the ratio is beyond the limit, as a logarithm; 0 for a refused cell."""
        if self.ratio is None or self.limit is None:
            return 0.0
        return abs(math.log(self.ratio / self.limit)) if self.ratio > 0 else math.inf

    def __str__(self) -> str:
        blocks = f"{self.blocks} block{'s' * (self.blocks != 1)}"
        cell = f"{self.recipe}, seed {self.seed}, {blocks}{self.settings}"
        if self.ratio is None or self.limit is None:
            return f"{cell}, refused: {(self.reason or '').rstrip('.')}"
        side = "above" if self.ratio > self.limit else "below"
        return f"{cell}, {self.kind} ratio {self.ratio:.6g} at {self.label}, {side} the limit {self.limit:g}"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Cells of the initialized arm that fail: counts, the first ratio of the table, the worst of all."""

    cells: int
    outside: int
    refused: int
    first: Failure | None
    worst: Failure | None

    @property
    def passes(self) -> bool:
        """Whether every cell was observed and lies in the band."""
        return self.first is None

    def document(self) -> dict[str, Any]:
        """The verdict as plain JSON."""
        return {"pass": self.passes, **asdict(self)}

    def __str__(self) -> str:
        counts = f"{self.outside:,} of {self.cells:,} initialized cells leave the band and {self.refused:,} are refused"
        worst = "" if self.worst in (None, self.first) else f"; the worst is {self.worst}"
        return f"{counts}; the first is {self.first}{worst}."


def judge(folder: OutputFolder, band: Band) -> Verdict:
    """Judge the table of a finished sweep."""
    cells, counts = 0, Counter[bool]()
    first: Failure | None = None
    worst: Failure | None = None
    with open(folder.path / ROWS, encoding="utf-8", newline="") as stream:
        table = csv.DictReader(stream)
        names = list(table.fieldnames or ())
        extra = names[names.index("reason") + 1 :]
        rows = (row for row in table if row["arm"] == INITIALIZED)
        for _, cell in groupby(rows, lambda row: [row[name] for name in ("recipe", "seed", "blocks", *extra)]):
            cells += 1
            failures = [failure for row in cell for failure in _failures(row, extra, band)]
            if failures:
                counts[failures[0].reason is None] += 1
                first = first or failures[0]
                worst = max(failures if worst is None else [worst, *failures], key=lambda failure: failure.factor)
    return Verdict(cells=cells, outside=counts[True], refused=counts[False], first=first, worst=worst)


def _failures(row: Mapping[str, str], extra: Sequence[str], band: Band) -> Iterator[Failure]:
    """What is wrong with one row of the table, the activation before the adjoint."""
    cell = partial(
        Failure,
        recipe=row["recipe"],
        seed=row["seed"],
        blocks=int(row["blocks"]),
        settings="".join(f", {name} {row[name]}" for name in extra),
    )
    if row["status"] == REFUSED:
        yield cell(reason=row["reason"])
    limits = {"below": band.lower, "above": band.upper}
    for kind in ("activation", "adjoint"):
        if (limit := limits.get(row[f"{kind}_band"])) is not None:
            yield cell(label=row["label"], kind=kind, ratio=float(row[f"{kind}_ratio"]), limit=limit)
