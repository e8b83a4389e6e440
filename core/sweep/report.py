"""Report the result of a sweep from its output folder, without the store: text for a terminal, and the gate.

The gate is a pass or fail check: it fails if a cell (one recipe on one seed in one setting) has a ratio outside the
band or is refused, that is, has no finite ratios or cannot run.
"""

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
from .summary import ALL_RATIOS, SUMMARY_COLUMNS
from .tables import ROWS, SUMMARY


def readable(folder: OutputFolder, manifest: Mapping[str, Any]) -> str:
    """Return the result of a sweep as text for a terminal: medians and shares by depth, then the growth exponents."""
    cells = manifest["cells"]
    lines = [
        f"{cells['total']:,} cells, {cells['observed']:,} observed, {cells['refused']:,} refused",
        *_summary_lines(folder),
        f"{'growth with blocks':<30}{'arm':<13}{'recipe':<20}{'kind':<9}{'exponent':>9}   95% interval",
    ]
    for row in manifest["growth"]:
        exponent = "-" if row["exponent"] is None else f"{row['exponent']:.4f}"
        interval = "" if row["lower95"] is None else f"   [{row['lower95']:.4f}, {row['upper95']:.4f}]"
        lines.append(f"{row['quantity']:<30}{row['arm']:<13}{row['recipe']:<20}{row['kind']:<9}{exponent:>9}{interval}")
    return "\n".join([*lines, f"tables in {folder.path}"])


def _summary_lines(folder: OutputFolder) -> list[str]:
    """Return the largest ratios of a written summary as lines of a table, one per arm and setting."""
    rows = _summary(folder)
    extra = list(rows[0])[len(SUMMARY_COLUMNS) :] if rows else []
    found: dict[tuple[str, ...], dict[str, dict[str, str]]] = {}
    for row in rows:
        key = tuple(row[name] for name in ("arm", "recipe", "blocks", *extra))
        found.setdefault(key, {})[row["quantity"]] = row
    lines = [f"{'arm':<13}{'recipe':<20}{'blocks':>6}{'largest A':>14}{'largest G':>14}{'in band':>9}{'seeds':>7}"]
    for (arm, name, blocks, *rest), quantity in found.items():
        shown = [quantity[kind]["median"] for kind in ("largest_activation_ratio", "largest_adjoint_ratio")]
        medians = "".join(f"{float(value):>14.6g}" if value else f"{'-':>14}" for value in shown)
        share = quantity[ALL_RATIOS]["share_within"]
        band = f"{float(share):>8.1%}" if share else f"{'-':>8}"
        settings = "".join(f"  {column} {value}" for column, value in zip(extra, rest, strict=True))
        lines.append(f"{arm:<13}{name:<20}{blocks:>6}{medians} {band}{quantity[ALL_RATIOS]['seeds']:>7}{settings}")
    return lines


def refused_recipes(folder: OutputFolder) -> list[str]:
    """Return the names of the recipes in the written summary of which no (recipe, seed) cell was observed."""
    observed: dict[str, int] = {}
    for row in _summary(folder):
        observed[row["recipe"]] = observed.get(row["recipe"], 0) + int(row["seeds"])
    return [name for name, seeds in observed.items() if not seeds]


def _summary(folder: OutputFolder) -> list[dict[str, str]]:
    with open(folder.path / SUMMARY, encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A (recipe, seed) cell that fails the gate (pass or fail check).

    A ratio is outside the band, or the cell is refused and has only a `reason`. `kind` is activation or adjoint
    (gradient), `label` names the residual site, and `limit` is the limit of the band that is exceeded.
    """

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
        """How far the ratio is beyond the limit, abs(log(ratio / limit)); 0 for a refused (recipe, seed) cell."""
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
    """The result of the gate (pass or fail check): counts of (recipe, seed) cells, first and worst failure.

    `outside` counts the cells with a ratio outside the band, `refused` those that cannot run or have no finite ratios.
    """

    cells: int
    outside: int
    refused: int
    first: Failure | None
    worst: Failure | None

    @property
    def passes(self) -> bool:
        """True if every (recipe, seed) cell was observed and is within the band."""
        return self.first is None

    def document(self) -> dict[str, Any]:
        """Return the result as a dict for JSON."""
        return {"pass": self.passes, **asdict(self)}

    def __str__(self) -> str:
        counts = f"{self.outside:,} of {self.cells:,} initialized cells leave the band and {self.refused:,} are refused"
        worst = "" if self.worst in (None, self.first) else f"; the worst is {self.worst}"
        return f"{counts}; the first is {self.first}{worst}."


def judge(folder: OutputFolder, band: Band) -> Verdict:
    """Return the result of the gate (pass or fail check) for the table of a finished sweep.

    Only the recipes count, not the unscaled control.
    """
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
    """Yield the failures of one row of the table, the activation before the adjoint."""
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
