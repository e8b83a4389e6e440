"""Figures that compare recipes: ratios by residual site and by depth, shares within the band, branch outputs, cosines.

Each figure is made from one table of `core.tables.recipes`, or from the summary of a sweep.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from ..health.band import DEFAULT_BAND, Band
from .chart import Chart, Drawn, Line, Ribbon, Strip
from .series import OVER_BLOCKS, OVER_DEPTH, TALL, quantile_marks, seeds_of, told
from .sites import RATIO_AXES, RATIO_TITLES, REFERENCE_NAMES, SITE_AXIS, Quantity
from .style import recipe_style

DEPTH_TITLES = {
    "largest_activation_ratio": ("Largest activation ratio", "max over sites of A<sub>s</sub> / A<sub>0</sub>"),
    "largest_adjoint_ratio": ("Largest adjoint ratio", "max over sites of G<sub>s</sub> / G<sub>2L</sub>"),
}
MEASURE_AXES = {
    "contribution_to_stream": "RMS ratio to the stream",
    "cosine": "cosine of contribution and stream",
    "contribution_rms": "RMS of what the stream gains",
    "raw_rms": "RMS before coefficient and norm",
}
BRANCH_TITLES = {"attention": "Attention", "feed_forward": "Feed-forward"}
TOKEN_RIBBONS = (("q05", "q95", "5 to 95 % of tokens", 0.14), ("q25", "q75", "middle half of tokens", 0.3))
# Fields of a chart whose vertical axis is a cosine.
COSINE: dict[str, Any] = {
    "log_y": False, "y_range": (-1.05, 1.05), "y_ticks": {-1: "-1", -0.5: "-0.5", 0: "0", 0.5: "0.5", 1: "1"},
    "levels": ((0.0, ""),),
}  # fmt: skip


@Drawn
def profile_figure(
    summary: pd.DataFrame,
    band: Band = DEFAULT_BAND,
    quantity: Quantity = "activation",
    *,
    spread: bool = False,
    order: Sequence[str] = (),
) -> Chart:
    """Plot the ratio at every residual site, one line per recipe: the median over seeds, with the band.

    `quantity` is `activation` or `adjoint`. `spread` adds the range from 5 to 95 % of the seeds. `order` lists the
    series of the page, which fixes their styles.
    """
    rows = summary[summary["quantity"] == quantity]
    return Chart(
        title=RATIO_TITLES[quantity], subject=told(rows, spread), x_title=SITE_AXIS, y_title=RATIO_AXES[quantity],
        strips=[Strip.of(band, near=True)], levels=[(1.0, REFERENCE_NAMES[quantity])], whole_x=True,
        **quantile_marks(rows, "site", spread=spread, order=order), **TALL,
    )  # fmt: skip


@Drawn
def depth_figure(
    summary: pd.DataFrame,
    band: Band = DEFAULT_BAND,
    quantity: str = "largest_activation_ratio",
    *,
    spread: bool = False,
) -> Chart:
    """Plot the median over seeds of a quantity against depth, one line per recipe, on logarithmic axes.

    `summary` is that of a sweep and `quantity` a key of `DEPTH_TITLES`. `band`, the range that ratios must lie in, is
    shaded. `spread` adds the range from 5 to 95 % of the seeds.
    """
    rows = summary[summary["quantity"] == quantity]
    title, y_title = DEPTH_TITLES[quantity]
    marks = quantile_marks(rows, "blocks", spread=spread)
    return Chart(
        title=title, subject=told(rows, spread), y_title=y_title, strips=[Strip.of(band, near=True)], **marks,
        **OVER_DEPTH,
    )  # fmt: skip


@Drawn
def share_figure(summary: pd.DataFrame, *, order: Sequence[str] = ()) -> Chart:
    """Plot the share of seeds whose ratios are all within the band against depth, one line per recipe."""
    rows = summary[summary["quantity"] == "all_ratios"]
    marks = quantile_marks(rows, "blocks", order=order, column="share_within")
    return Chart(
        title="Seeds wholly within the band", subject=f"share of {seeds_of(rows)} seeds", y_title="share of seeds",
        log_y=False, y_range=(-0.05, 1.05), y_format=".0%", **marks, **OVER_DEPTH,
    )  # fmt: skip


@Drawn
def branch_figure(summary: pd.DataFrame, measure: str, branch: str, *, spread: bool = False) -> Chart:
    """Plot what one kind of branch (`attention` or `feed_forward`) adds in each block, one line per recipe.

    `measure` is a key of `MEASURE_AXES`; a cosine has a linear axis, a size a logarithmic one.
    """
    both = summary[summary["measure"] == measure]
    rows = both[both["branch"] == branch]
    # Both branches share the vertical axis, so that the two figures can be read against each other.
    drawn = both[["median", "q05", "q95"] if spread else ["median"]].to_numpy(dtype=float).ravel().tolist()
    axis = COSINE if measure == "cosine" else {"y_spans": drawn}
    return Chart(
        title=BRANCH_TITLES[branch], subject=told(rows, spread), y_title=MEASURE_AXES[measure],
        **quantile_marks(rows, "block", spread=spread), **axis, **OVER_BLOCKS,
    )  # fmt: skip


@Drawn
def cosine_figure(tokens: pd.DataFrame, branch: str) -> Chart:
    """Plot the cosine between stream and branch output over the tokens of one recipe, in each block.

    The line is the median token; the areas hold the middle 50 % and 90 % of the tokens.
    """
    rows = tokens[tokens["branch"] == branch]
    name = str(rows["recipe"].iloc[0]) if len(rows) else ""
    style, count = recipe_style(name), int(rows["tokens"].max()) if len(rows) else 0
    return Chart(
        title=f"{BRANCH_TITLES[branch]}, token by token", subject=f"{name}, {count} tokens of all seeds a block",
        y_title=MEASURE_AXES["cosine"], lines=[Line.labelled(rows, "block", "median", "median token", style)],
        ribbons=[
            Ribbon.of(rows, "block", low, high, style, name=words, opacity=opacity)
            for low, high, words, opacity in TOKEN_RIBBONS
        ],
        **COSINE, **OVER_BLOCKS,
    )  # fmt: skip
