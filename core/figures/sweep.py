"""Figures of a sweep: quantiles and differences against depth, and the distribution over seeds at one depth.

Each is made from a table of `core.tables.sweep`. Its column `recipe` names the series, and `order` fixes their styles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from ..health.band import DEFAULT_BAND, Band
from .axes import symmetric_log, symmetric_ticks
from .chart import Chart, Drawn, Line, Ribbon, Strip
from .recipes import DEPTH_TITLES
from .series import MEDIAN, OUTER, OVER_DEPTH, TALL, seeds_of, styled_series

TITLES = {
    **DEPTH_TITLES,
    "smallest_activation_ratio": ("Smallest activation ratio", "min over sites of A<sub>s</sub> / A<sub>0</sub>"),
    "smallest_adjoint_ratio": ("Smallest adjoint ratio", "min over sites of G<sub>s</sub> / G<sub>2L</sub>"),
    "last_activation_ratio": ("Activation ratio of the last site", "A<sub>2L</sub> / A<sub>0</sub>"),
    "input_adjoint_ratio": ("Adjoint ratio of the input", "G<sub>0</sub> / G<sub>2L</sub>"),
}
INNER = ("q25", "q75")
OPACITY = {OUTER: 0.12, INNER: 0.2}
BOTH, HALF = f"{MEDIAN}, 25 to 75 and 5 to 95 % filled", f"{MEDIAN}, 25 to 75 % filled"
# With more series the wide ribbons lie over everything, and only the middle halves are drawn.
MOST_WIDE = 4


@Drawn
def ribbon_figure(
    summary: pd.DataFrame,
    band: Band = DEFAULT_BAND,
    quantity: str = "largest_activation_ratio",
    *,
    order: Sequence[str] = (),
    spread: bool = True,
) -> Chart:
    """Plot a ratio against depth on logarithmic axes, with the band: the median over seeds, one line per recipe.

    The middle 50 % and 90 % of the seeds are filled; with more than four recipes only the middle 50 %, and nothing if
    `spread` is False.
    """
    rows = summary[(summary["quantity"] == quantity) & (summary["seeds"] > 0)]
    title, y_title = TITLES[quantity]
    return Chart(
        title=title, subject=_told(rows, spread), y_title=y_title, strips=[Strip.of(band, near=True)],
        **_marks(rows, order, spread), **OVER_DEPTH,
    )  # fmt: skip


@Drawn
def difference_figure(
    differences: pd.DataFrame,
    quantity: str = "largest_activation_ratio",
    *,
    order: Sequence[str] = (),
    spread: bool = True,
) -> Chart:
    """Plot the difference between a recipe and the unscaled control, for the same seed, against depth.

    The line is the median over seeds. The axis is linear near 0 and logarithmic far from it.
    """
    rows = differences[differences["quantity"] == quantity]
    labels = [f"L {blocks}: {value:.6g}" for blocks, value in zip(rows["blocks"], rows["median"], strict=True)]
    turned = rows.assign(
        label=labels,
        untransformed=rows["median"],
        **{name: symmetric_log(rows[name]) for name in ("median", *OUTER, *INNER)},
    )
    drawn = ["median", *(name for pair in _pairs(rows, spread) for name in pair)]
    places = turned[drawn].to_numpy(dtype=float)
    seen = [0.0, *places[abs(places) < math.inf].tolist()]
    room = max(0.1, (max(seen) - min(seen)) / 16)
    return Chart(
        title=f"{TITLES[quantity][0]}, recipe minus control", subject=_told(rows, spread),
        y_title="difference, same seed", log_y=False, y_ticks=symmetric_ticks(places), levels=((0.0, ""),),
        y_range=(min(seen) - room, max(seen) + room), **_marks(turned, order, spread, "%{customdata}"), **OVER_DEPTH,
    )  # fmt: skip


@Drawn
def distribution_figure(
    distribution: pd.DataFrame,
    quantity: str = "largest_activation_ratio",
    band: Band = DEFAULT_BAND,
    *,
    order: Sequence[str] = (),
) -> Chart:
    """Plot a histogram over seeds of one ratio at one depth, one step line per series, with the band."""
    title, axis = TITLES[quantity]
    lines = [
        Line.labelled(_closed(rows), "centre", "share", name, style, "steps", hover="%{customdata}")
        for name, rows, style in styled_series(distribution, order)
    ]
    return Chart(
        title=title, subject=f"L = {distribution['blocks'].iloc[0]} blocks" if len(distribution) else "", x_title=axis,
        y_title="share of seeds", lines=lines, log_x=True, log_y=False, y_format=".0%",
        strips=[Strip.of(band, near=True, upright=True)], **TALL,
    )  # fmt: skip


def _told(rows: pd.DataFrame, spread: bool) -> str:
    seeds = seeds_of(rows)
    words = (BOTH if OUTER in _pairs(rows, spread) else HALF) if spread and seeds > 1 else MEDIAN
    return words.format(seeds)


def _pairs(rows: pd.DataFrame, spread: bool) -> list[tuple[str, str]]:
    """Return the pairs of columns with a ribbon between them, the widest first."""
    return [*([OUTER] if rows["recipe"].nunique() <= MOST_WIDE else []), INNER] if spread else []


def _marks(rows: pd.DataFrame, order: Sequence[str], spread: bool, hover: str = "") -> dict[str, Any]:
    """Return ribbons and medians; at a single depth, bars show the middle 50 % instead of ribbons."""
    known, alone = list(styled_series(rows, order)), rows["blocks"].nunique() < 2
    return {
        "ribbons": [
            Ribbon.of(found, "blocks", *pair, style, group=name, opacity=OPACITY[pair])
            for pair in ([] if alone else _pairs(rows, spread))
            for name, found, style in known
        ],
        "lines": [
            Line.labelled(
                found, "blocks", "median", name, style, group=name, hover=hover,
                error=_halves(found) if spread and alone else None, values=found.get("untransformed"),
            )
            for name, found, style in known
        ],
    }  # fmt: skip


def _halves(rows: pd.DataFrame) -> tuple[list[float], list[float]]:
    """Return how far the middle 50 % of the seeds reaches below and above the median."""
    return (rows["median"] - rows["q25"]).tolist(), (rows["q75"] - rows["median"]).tolist()


def _closed(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the steps of a histogram with an empty bin on both sides, so that the line returns to 0."""
    first, last = rows.iloc[0], rows.iloc[-1]
    below = float(first["lower"]) * float(first["lower"] / first["centre"])
    above = float(last["upper"]) * float(last["upper"] / last["centre"])
    ends = [below or float(first["lower"]), above if math.isfinite(above) else float(last["upper"])]
    labels = [
        f"{lower:.4g} to {upper:.4g}<br>{seeds} seeds"
        for lower, upper, seeds in zip(rows["lower"], rows["upper"], rows["seeds"], strict=True)
    ]
    return pd.DataFrame(
        {"centre": [ends[0], *rows["centre"], ends[1]], "share": [0.0, *rows["share"], 0.0], "label": ["", *labels, ""]}
    )
