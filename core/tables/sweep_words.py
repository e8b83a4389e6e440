"""The sentences of a sweep: what it computes, its cost, its progress, and its result at the largest depth."""

from __future__ import annotations

import pandas as pd

from ..health.band import Band
from ..lab.view import plural
from ..sweep.grid import SweepGrid
from ..sweep.interactive import SLICE_SECONDS, InteractiveSweep, Pace
from ..sweep.plan import SweepEstimate
from ..sweep.progress import clock
from ..sweep.ranges import seed_text
from ..sweep.summary import ALL_RATIOS
from .recipe_words import size_words

MOST_TEXT, MOST_SENTENCES = 80, 8


def grid_sentence(grid: SweepGrid) -> str:
    """Return a sentence with depths, seeds, recipes, sizes, dtypes and inputs of a grid."""
    sizes = "; ".join(map(size_words, grid.sizes[:3]))
    more = f"; and {len(grid.sizes) - 3} more sizes" if len(grid.sizes) > 3 else ""
    inputs = "one input" if len(grid.batches) == 1 else f"{len(grid.batches)} inputs"
    return (
        f"L = {_cropped(', '.join(map(str, grid.blocks)))} blocks; seeds {_cropped(seed_text(grid.seeds))}; "
        f"{', '.join(grid.recipes)} and the unscaled control of the same base draw; {sizes}{more}; "
        f"{', '.join(grid.dtypes)}; {inputs}."
    )


def cost_figures(total: int, cost: SweepEstimate, rows: int) -> dict[str, str]:
    """Return the estimated cost as a dict from label to text."""
    return {
        "Cells": f"{total:,}",
        "In the store": f"{total - cost.cells:,}",
        "To compute": f"{cost.cells:,}",
        "Time, one core": short_clock(cost.seconds),
        "Peak memory": f"{cost.peak_bytes / 2**20:,.0f} MiB",
        "Table rows": f"{rows:,}",
    }


def short_clock(seconds: float) -> str:
    """Return a time in seconds as text like `clock`, but with tenths below 10 seconds."""
    return f"{seconds:.1f} s" if 0 < seconds < 10 else clock(seconds)


def pace_sentence(pace: Pace) -> str:
    """Return finished (recipe, seed) cells, cells per second and time left as text."""
    rate = f", {pace.cells_per_second:,.0f} cells a second" if pace.cells_per_second else ""
    left = f", about {short_clock(pace.seconds_left)} left" if pace.seconds_left and pace.done < pace.total else ""
    return f"{pace.done:,} of {pace.total:,} cells{rate}{left}"


def allowance_sentence(sweep: InteractiveSweep) -> str:
    """Return sentences on how much a page computes for one visitor."""
    allowed = sweep.allowance
    return (
        f"A sweep has up to {allowed.cells:,} cells here, {clock(allowed.seconds)} and passes of "
        f"{allowed.pass_seconds:g} s. It is computed in slices of {SLICE_SECONDS:g} s on one core, which leaves "
        "another one free. It goes on while this page is open; finished cells are stored at once and never computed "
        "again, here or on the command line."
    )


def verdict_sentences(summary: pd.DataFrame, band: Band) -> list[str]:
    """Return a sentence per series on how many seeds have all ratios within the band at the largest depth.

    `summary` is a series table; after eight series only their number follows.
    """
    rows = summary[(summary["quantity"] == ALL_RATIOS) & (summary["seeds"] > 0)]
    found = []
    for name, group in rows.groupby("recipe", sort=False):
        shares = group.sort_values("blocks")
        last = shares.iloc[-1]
        seeds = int(last["seeds"])
        kept = round(float(last["share_within"]) * seeds)
        safe = shares["blocks"][(shares["share_within"] == 1.0).cummin()]
        deep = f"; every seed does up to {plural(int(safe.max()), 'block')}" if len(safe) and kept < seeds else ""
        found.append(
            f"{name}: {kept} of {seeds} seeds keep every ratio within [{band.lower:g}, {band.upper:g}] at "
            f"{plural(int(last['blocks']), 'block')}{deep}."
        )
    more = len(found) - MOST_SENTENCES
    return found if more <= 0 else [*found[:MOST_SENTENCES], f"{more} more series: see Within the band."]


def _cropped(text: str) -> str:
    return text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 1] + "…"
