"""What a sweep found, for a terminal: read from its written folder, so that it needs no store."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from typing import Any

from .output import OutputFolder
from .summary import ALL_RATIOS, SUMMARY_COLUMNS
from .tables import SUMMARY


def readable(folder: OutputFolder, manifest: Mapping[str, Any]) -> str:
    """What was found, for a terminal: medians and shares by depth, then the exponents."""
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
    """The largest ratios of a written summary as a table for a terminal, one line per arm and setting."""
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
    """Recipes of a written summary of which no cell was observed."""
    observed: dict[str, int] = {}
    for row in _summary(folder):
        observed[row["recipe"]] = observed.get(row["recipe"], 0) + int(row["seeds"])
    return [name for name, seeds in observed.items() if not seeds]


def _summary(folder: OutputFolder) -> list[dict[str, str]]:
    with open(folder.path / SUMMARY, encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))
