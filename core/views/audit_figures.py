"""The figure of an audit that no other page has: the writers' scale over the blocks."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from core.figures.axes import log_axis, whole_ticks
from core.figures.style import (
    PALETTES,
    Theme,
    figure,
    heading,
    layout,
    legend_below,
    legend_entry,
    level,
    strip,
    stroke,
)
from core.views.lines import line

BLOCK_AXIS = "block, from 0"


def writer_profile_figure(profile: pd.DataFrame, rule: str | None, *, theme: Theme = "light") -> go.Figure:
    """Each group of writers over the blocks: std, with its forward factor, over what the rule asks, or over the base.

    The strip is what sampling allows a single matrix; the dotted line is a writer left at the base.
    """
    colors = PALETTES[theme]
    subject = f"std over what {rule} declares" if rule else "std over the base; no rule is declared"
    chart = layout(
        heading("Writers over the blocks", subject), BLOCK_AXIS, "ratio to declared" if rule else "ratio to the base",
        theme=theme, log_y=True,
    )  # fmt: skip
    around = profile["tolerance"].max()
    low, high = (1 / (1 + around), 1 + around) if math.isfinite(around) else (1.0, 1.0)
    chart["shapes"] = [strip(low, high, colors.band), level(1.0, colors.muted, "longdash")]
    groups = list(profile.groupby("group", sort=False))
    traces = [
        line(rows.assign(label=_labels(rows)), "block", "ratio", str(name), stroke(place, theme), log=True)
        for place, (name, rows) in enumerate(groups)
    ]
    traces.append(legend_entry("as declared, ratio 1" if rule else "the base, ratio 1", colors.muted, "longdash"))
    if math.isfinite(around):
        traces.append(legend_entry(f"sampling, ±{around:.0%} at most", colors.band_edge, "dot", colors.band))
    bare = profile.drop_duplicates("block").sort_values("block")
    if len(bare) and bare["unscaled"].notna().all() and (bare["unscaled"] - 1).abs().max() > 0:
        traces.append(_unscaled(bare, colors.ink))
    chart["xaxis"] |= whole_ticks(profile["block"])
    chart["yaxis"] |= log_axis([*profile["ratio"], *bare["unscaled"], low, high])
    legend_below(chart, traces)
    return figure(traces, chart)


def _labels(rows: pd.DataFrame) -> list[str]:
    return [f"{group}, block {block}" for group, block in zip(rows["group"], rows["block"], strict=True)]


def _unscaled(rows: pd.DataFrame, color: str) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "lines", "x": rows["block"].tolist(), "y": rows["unscaled"].tolist(),
        "name": "a writer left at the base", "line": {"color": color, "dash": "dot", "width": 1.5},
        "hovertemplate": "left at the base: %{y:.6g}",
    }  # fmt: skip
