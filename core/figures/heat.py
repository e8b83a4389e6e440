"""A heat map of one ratio by depth and seed; its colours jump at the limits of the band."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from ..health.band import DEFAULT_BAND, Band
from .chart import Drawn
from .style import PALETTES, Theme, heading, layout, plain
from .style import figure as assembled
from .sweep import TITLES

# Blue below 1, red above, and a jump at each limit of the band: (below, within below 1, 1, within above 1, above).
COLORS_OF: dict[Theme, tuple[tuple[str, str], tuple[str, str], tuple[str, str], tuple[str, str]]] = {
    "light": (("#053061", "#2E77B5"), ("#9CC8E2", "#F4F6F8"), ("#F4F6F8", "#F6B795"), ("#D9583F", "#67001F")),
    "dark": (("#BFE3FF", "#56B4E9"), ("#1F4E6E", "#20252E"), ("#20252E", "#7A4A12"), ("#F09B2D", "#FFF0C2")),
}
CELL_PIXELS, HEAD = 30, 64
# Below the cells, in pixels: the axis title, the bar of colours with its numbers and words, the legend.
AXIS_ROOM, FOOT = 52, 150
OUTSIDE = "outside the band"


@dataclass(frozen=True)
class Heat:
    """The heat map: one row per depth, one column per seed, and a cross where the ratio is outside the band.

    Every cell is also a point whose `customdata` begins with seed, depth and recipe, so that a click identifies the
    cell.
    """

    cells: pd.DataFrame
    band: Band = DEFAULT_BAND
    quantity: str = "largest_activation_ratio"

    def __call__(self, *, theme: Theme = "light") -> go.Figure:
        """Return the Plotly figure."""
        colors, category = PALETTES[theme], {"type": "category", "showgrid": False}
        name = plain(self.cells["recipe"].iloc[0]) if len(self.cells) else ""
        plot = CELL_PIXELS * max(2, len(self.depths))
        chart = layout(heading(self.title, name), "seed", "depth L, blocks", theme=theme, height=HEAD + plot + FOOT)
        chart["xaxis"] |= {**category, **_edges(self.seeds), "nticks": 12, "tickangle": 0}
        chart["yaxis"] |= {**category, **_edges([str(blocks) for blocks in self.depths])}
        chart["margin"] |= {"t": HEAD, "b": FOOT}
        chart["legend"] |= {"yref": "container", "y": 0.01, "yanchor": "bottom"}
        outside = self.cells[self.cells["band"].isin(("below", "above"))]
        squares = _points(self.cells, {"symbol": "square", "color": colors.paper, "size": 12}, 0.0)
        thin = {"symbol": "x-thin", "color": colors.ink, "size": 5, "line": {"width": 1.2, "color": colors.paper}}
        key = {
            "type": "scatter", "mode": "markers", "x": [None], "y": [None], "name": OUTSIDE, "hoverinfo": "skip",
            "marker": {"symbol": "x-thin", "size": 8, "line": {"width": 2, "color": colors.ink}},
        }  # fmt: skip
        crosses = _points(outside, thin, 1.0) | {"name": OUTSIDE}
        return assembled([self._map(theme, -AXIS_ROOM / plot), squares, crosses, key], chart)

    @property
    def title(self) -> str:
        """The name of the ratio, such as "Largest activation ratio"."""
        return TITLES[self.quantity][0]

    @property
    def depths(self) -> list[int]:
        """The depths in blocks, one per row, from the bottom."""
        return sorted({int(blocks) for blocks in self.cells["blocks"]})

    @property
    def seeds(self) -> list[str]:
        """The seeds as text, one per column."""
        return list(dict.fromkeys(self.cells["seed"]))

    @property
    def undrawn(self) -> list[str]:
        """The cells without a positive finite ratio, as text."""
        rows = self.cells[~((self.cells["ratio"] > 0) & (self.cells["ratio"] < math.inf))]
        return [f"seed {seed}, L = {blocks}" for seed, blocks in zip(rows["seed"], rows["blocks"], strict=True)]

    @property
    def alt(self) -> str:
        """The counts of cells below and above the band and the largest ratio, as text."""
        seen = self.cells[self.cells["ratio"].notna()].sort_values("ratio")
        if not len(seen):
            return f"{self.title} by depth and seed: no value."
        worst, counts = seen.iloc[-1], self.cells["band"].value_counts()
        return (
            f"{self.title} of {worst['recipe']} by depth and seed: {len(seen)} cells, {counts.get('below', 0)} "
            f"below and {counts.get('above', 0)} above the band; the largest is {worst['ratio']:.4g} at seed "
            f"{worst['seed']} and {worst['blocks']} blocks."
        )

    def _map(self, theme: Theme, bar: float) -> dict[str, Any]:
        drawn = self.cells[(self.cells["ratio"] > 0) & (self.cells["ratio"] < math.inf)]
        columns = zip(drawn["blocks"], drawn["seed"], drawn["ratio"], strict=True)
        exponents = {(int(blocks), seed): math.log10(ratio) for blocks, seed, ratio in columns}
        low, high = math.log10(self.band.lower), math.log10(self.band.upper)
        least, most = min([*exponents.values(), low]), max([*exponents.values(), high])
        ticks = sorted({low, high, *range(math.ceil(least), math.floor(most) + 1)})
        return {
            "type": "heatmap", "x": self.seeds, "y": [str(blocks) for blocks in self.depths],
            "z": [[exponents.get((blocks, seed)) for seed in self.seeds] for blocks in self.depths],
            "zmin": least, "zmax": most, "colorscale": _scale(least, low, high, most, theme), "xgap": 1, "ygap": 1,
            "hoverinfo": "skip",
            "colorbar": {
                "orientation": "h", "y": bar, "yanchor": "top", "yref": "paper", "thickness": 12, "len": 1,
                "outlinewidth": 0, "tickvals": ticks,
                "ticktext": [f"<b>{10**tick:g}</b>" if tick in (low, high) else f"{10**tick:g}" for tick in ticks],
                "title": {"text": "ratio; <b>the band's limits</b> in bold", "side": "bottom", "font": {"size": 12}},
            },
        }  # fmt: skip


heat_figure = Drawn(Heat)


def _scale(least: float, low: float, high: float, most: float, theme: Theme) -> list[list[Any]]:
    """Return colours from 0 to 1 with a jump at each limit; a ratio of 1 has the middle colour if it is in the band."""
    below, under, over, above = COLORS_OF[theme]
    middle = min(max(0.0, low), high)
    stops = [(least, below[0]), (low, below[1]), (low, under[0]), (middle, under[1]), (middle, over[0]),
             (high, over[1]), (high, above[0]), (most, above[1])]  # fmt: skip
    # Stops of no width are left out at the ends, where a scale must begin at 0 and end at 1.
    stops = stops[2 * (least == low) : len(stops) - 2 * (most == high)]
    span = most - least or 1.0
    scale: list[list[Any]] = [[(place - least) / span, color] for place, color in stops]
    scale[0][0], scale[-1][0] = 0.0, 1.0
    return scale


def _points(cells: pd.DataFrame, marker: dict[str, Any], opacity: float) -> dict[str, Any]:
    labels = [
        [seed, blocks, plain(name), "refused" if math.isnan(ratio) else f"{ratio:.6g}, {verdict}"]
        for seed, blocks, name, ratio, verdict in zip(
            cells["seed"], cells["blocks"].tolist(), cells["recipe"], cells["ratio"], cells["band"], strict=True
        )
    ]
    same = {"marker": {"opacity": opacity}}
    return {
        "type": "scatter", "mode": "markers", "x": cells["seed"].tolist(), "y": [str(b) for b in cells["blocks"]],
        "customdata": labels, "marker": {**marker, "opacity": opacity}, "selected": same, "unselected": same,
        "name": "", "showlegend": False,
        "hovertemplate": "seed %{customdata[0]}, L = %{customdata[1]}<br>%{customdata[3]}<extra></extra>",
    }  # fmt: skip


def _edges(names: Sequence[str]) -> dict[str, Any]:
    """Return a categorical axis without margin before the first and after the last category."""
    return {"categoryarray": list(names), "range": [-0.5, max(len(names), 1) - 0.5]}
