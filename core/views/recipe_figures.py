"""Figures of a comparison of recipes: ratios by site and by depth, shares within the band, contributions, cosines.

Each reads one table of `core.views.recipe_tables` or a sweep's summary.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go

from core.figures.axes import whole_ticks
from core.figures.style import PALETTES, Theme, figure, heading, legend_entry, level, plain, recipe_stroke
from core.health.band import DEFAULT_BAND, Band
from core.views.figures import RATIO_AXES, RATIO_TITLES, REFERENCE_NAMES, SITE_AXIS, Quantity
from core.views.lines import (
    band_entry,
    band_shapes,
    depth_ticks,
    extent,
    fill,
    line,
    lines_layout,
    log_axis,
    near_range,
    quantile_lines,
    titled,
)

DEPTH_AXIS = "depth L, blocks"
BLOCK_AXIS = "block, from 0"
DEPTH_TITLES = {
    "largest_activation_ratio": ("Largest activation ratio", "max over sites of A<sub>s</sub> / A<sub>0</sub>"),
    "largest_adjoint_ratio": ("Largest adjoint ratio", "max over sites of G<sub>s</sub> / G<sub>2L</sub>"),
}
MEASURE_AXES = {
    "contribution_to_stream": "RMS(contribution) / RMS(stream)",
    "cosine": "cosine of contribution and stream",
    "contribution_rms": "RMS of what the stream gains",
    "raw_rms": "RMS before coefficient and output norm",
}
BRANCH_TITLES = {"attention": "Attention", "feed_forward": "Feed-forward"}
TOKEN_FILLS = (("q05", "q95", "5 to 95 % of tokens", 0.14), ("q25", "q75", "middle half of tokens", 0.3))


def profile_figure(
    summary: pd.DataFrame,
    band: Band = DEFAULT_BAND,
    quantity: Quantity = "activation",
    *,
    spread: bool = False,
    theme: Theme = "light",
) -> go.Figure:
    """Ratio of every site as a line a recipe, medians over seeds, with the band and the reference line."""
    rows, muted = summary[summary["quantity"] == quantity], PALETTES[theme].muted
    title = titled(RATIO_TITLES[quantity], rows, spread)
    chart = lines_layout(title, SITE_AXIS, RATIO_AXES[quantity], _recipes(rows) + 2, theme=theme)
    chart["xaxis"] |= whole_ticks(rows["site"])
    chart["yaxis"] |= near_range(extent(rows, spread), band)
    chart["shapes"] = [*band_shapes(band, theme), level(1.0, muted, "longdash")]
    lines = quantile_lines(rows, "site", spread=spread, theme=theme)
    return figure([*lines, band_entry(band, theme), legend_entry(REFERENCE_NAMES[quantity], muted, "longdash")], chart)


def depth_figure(
    summary: pd.DataFrame,
    band: Band = DEFAULT_BAND,
    quantity: str = "largest_activation_ratio",
    *,
    spread: bool = False,
    theme: Theme = "light",
) -> go.Figure:
    """A quantity of a sweep's summary against depth, both axes logarithmic, with the band."""
    rows = summary[summary["quantity"] == quantity]
    title, y_title = DEPTH_TITLES[quantity]
    chart = lines_layout(titled(title, rows, spread), DEPTH_AXIS, y_title, _recipes(rows) + 1, theme=theme)
    chart["xaxis"] |= depth_ticks(rows["blocks"])
    chart["yaxis"] |= near_range(extent(rows, spread), band)
    chart["shapes"] = band_shapes(band, theme)
    lines = quantile_lines(rows, "blocks", spread=spread, theme=theme)
    return figure([*lines, band_entry(band, theme)], chart)


def share_figure(summary: pd.DataFrame, *, order: Sequence[str] = (), theme: Theme = "light") -> go.Figure:
    """Share of seeds whose every ratio lies within the band, against depth."""
    rows = summary[summary["quantity"] == "all_ratios"]
    rows = rows.assign(median=rows["share_within"])
    seeds = int(rows["seeds"].max()) if len(rows) else 0
    title = heading("Seeds wholly within the band", f"share of {seeds} seeds")
    chart = lines_layout(title, DEPTH_AXIS, "share of seeds", _recipes(rows), theme=theme, log_y=False)
    chart["xaxis"] |= depth_ticks(rows["blocks"])
    chart["yaxis"] |= {"range": [-0.05, 1.05], "tickformat": ".0%"}
    return figure(quantile_lines(rows, "blocks", order=order, log=False, theme=theme), chart)


def contribution_figure(
    summary: pd.DataFrame,
    measure: str,
    branch: str,
    *,
    spread: bool = False,
    theme: Theme = "light",
) -> go.Figure:
    """What one kind of branch adds at every block, a line a recipe; the cosine on a plain axis, sizes on a log one."""
    rows = summary[(summary["measure"] == measure) & (summary["branch"] == branch)]
    log = measure != "cosine"
    title = titled(BRANCH_TITLES[branch], rows, spread)
    chart = lines_layout(title, BLOCK_AXIS, MEASURE_AXES[measure], _recipes(rows), theme=theme, log_y=log)
    chart["xaxis"] |= whole_ticks(rows["block"])
    # Both branches share the vertical axis, so that the two figures can be read against each other.
    chart["yaxis"] |= log_axis(extent(summary[summary["measure"] == measure], spread)) if log else _COSINE_RANGE
    if not log:
        chart["shapes"] = [level(0.0, PALETTES[theme].muted, "longdash")]
    return figure(quantile_lines(rows, "block", spread=spread, log=log, theme=theme), chart)


def token_figure(tokens: pd.DataFrame, branch: str, *, theme: Theme = "light") -> go.Figure:
    """Cosine of stream and contribution over the tokens of one recipe: median, middle half and nine tenths."""
    rows = tokens[tokens["branch"] == branch]
    name = str(rows["recipe"].iloc[0]) if len(rows) else ""
    look = recipe_stroke(name, theme=theme)
    count = int(rows["tokens"].max()) if len(rows) else 0
    title = heading(f"{BRANCH_TITLES[branch]}, token by token", f"{plain(name)}, {count} tokens of all seeds a block")
    chart = lines_layout(title, BLOCK_AXIS, MEASURE_AXES["cosine"], 3, theme=theme, log_y=False)
    chart["xaxis"] |= whole_ticks(rows["block"])
    chart["yaxis"] |= _COSINE_RANGE
    chart["shapes"] = [level(0.0, PALETTES[theme].muted, "longdash")]
    fills = [
        fill(rows, "block", low, high, look.color, name=words, opacity=opacity)
        for low, high, words, opacity in TOKEN_FILLS
    ]
    return figure([*fills, line(rows, "block", "median", "median token", look, log=False)], chart)


_COSINE_RANGE = {"range": [-1.05, 1.05], "dtick": 0.5}


def _recipes(rows: pd.DataFrame) -> int:
    return int(rows["recipe"].nunique())
