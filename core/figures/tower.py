"""The tower: all residual sites from the input at the bottom to the readout at the top, as horizontal bars.

Activation ratios are on the left, adjoint (gradient) ratios on the right. The width and colour of a bar are the ratio
at that site, and vertical lines mark the limits of the band. The first series is filled; the others are outlines in
their recipe's colour and dash.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from ..health.band import DEFAULT_BAND, Band
from .chart import Drawn, Strip
from .sites import Quantity, subject
from .style import PALETTES, Theme, faded, heading, layout, legend_entry, plain
from .style import figure as assembled
from .tower_rows import (
    FARTHEST,
    QUANTITIES,
    Bars,
    Profile,
    Scale,
    bundles,
    margins,
    per_block,
    places,
    profiles,
    shades,
)

# Blue below the middle of the band, red above; beyond a limit the colours jump, darker in light and lighter in dark.
SHADES: dict[Theme, tuple[str, ...]] = {
    "light": (
        "#062B5F", "#14508F", "#2E7FBF", "#5E9BCB", "#86A9C9", "#93A4B5",
        "#C2A98C", "#D9A15F", "#E08A2E", "#D1451B", "#7A0F1A",
    ),
    "dark": (
        "#DDF1FF", "#9AD2FF", "#4FA9E3", "#4A90BF", "#4F7A9C", "#5F6E7E",
        "#8A7458", "#B07F3E", "#DB8F2A", "#FF5A3C", "#FF2E63",
    ),
}  # fmt: skip
WORDS: dict[Quantity, str] = {"activation": "activations, upward", "adjoint": "gradients, downward"}
TITLE, NAME = "From input to readout", "Tower"
SPREAD = "5 to 95 % of {} seeds"
BUNDLED = "each row {} blocks, drawn at the site nearest to a limit"
# Half of the gutter in the middle, as a part of a half; pixels of a row and of the whole.
GUTTER, PIXELS, LEAST_PIXELS, FOOT, HEAD = 0.12, 5, 420, 118, 64
# What a row leaves free on either side.
EDGE = 0.1
SPREAD_OPACITY = 0.35
# The side of each quantity.
SIDES: tuple[tuple[int, Quantity], ...] = ((-1, "activation"), (1, "adjoint"))
# A rectangle: its widths from the gutter, then its ends along the tower.
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Tower:
    """The tower of a site table, which has one row per series, residual site and, if there are several, seed."""

    table: pd.DataFrame
    band: Band = DEFAULT_BAND

    @cached_property
    def profiles(self) -> list[Profile]:
        """The data of every series, the filled one first."""
        return profiles(self.table)

    @cached_property
    def sites(self) -> int:
        """The largest number of residual sites of a series."""
        return max((one.sites for one in self.profiles), default=0)

    @cached_property
    def blocks(self) -> int:
        """The number of blocks of the deepest series."""
        return int(self.table["blocks"].max()) if "blocks" in self.table and len(self.table) else max(1, self.sites - 1)

    @cached_property
    def rows(self) -> list[tuple[int, int]]:
        """The first and the last residual site of every row of the tower, from the input up."""
        return bundles(self.sites, self.blocks) if self.sites else []

    @cached_property
    def places(self) -> list[tuple[float, float]]:
        """The lower and the upper end of every row, as heights from 0 to 1."""
        return places(self.rows, per_block(self.sites, self.blocks)) if self.rows else []

    @cached_property
    def scale(self) -> Scale:
        """The map from ratios to widths, the same on both sides."""
        return Scale.of([one.ratios[quantity] for one in self.profiles for quantity in QUANTITIES], self.band)

    def bars(self, profile: Profile, quantity: Quantity) -> Bars:
        """Return the bars of one series and quantity, one per row."""
        return Bars.of(profile, quantity, self.rows, self.band)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """The widths and texts of the ticks: the limits of the band, and 1 if it is far enough from them."""
        limits = [(self.width(limit), f"{limit:g}") for limit in (self.band.lower, self.band.upper)]
        one = self.width(1.0)
        return [*limits, *([(one, "1")] if all(abs(one - place) > 0.12 for place, _ in limits) else [])]

    def width(self, ratio: float) -> float:
        """Return the width from 0 to 1 of one ratio."""
        return float(self.scale(np.array([ratio]))[0])

    @cached_property
    def worst(self) -> int:
        """The residual site of the first series that is closest to a limit of the band, or farthest outside."""
        if not self.sites:
            return 0
        found = np.minimum(*(margins(self.profiles[0].ratios[quantity][1], self.band) for quantity in QUANTITIES))
        return int(found.argmin())

    @property
    def subject(self) -> str:
        """The text under the title: depth, seeds, and how many blocks one row shows."""
        seeds = max((one.seeds for one in self.profiles), default=0)
        first, last = self.rows[1] if len(self.rows) > 1 else (1, 1)
        several = (last - first + 1) // per_block(self.sites, self.blocks) if last > first else 0
        parts = [subject(self.table), SPREAD.format(seeds) if seeds > 1 else ""]
        parts += [BUNDLED.format(several) if several > 1 else "a row per block" if several else ""]
        return ", ".join(part for part in parts if part)

    @property
    def key(self) -> str:
        """The figure's legend as one line of text: which series has filled bars, and that the band is dotted."""
        names = [one.name for one in self.profiles]
        bars = [f"bars: {names[0]}"] if len(names) > 1 else []
        return "; ".join([*bars, f"dotted: {Strip.of(self.band).name}"])

    @property
    def alt(self) -> str:
        """The title and, for every series, both ends, the extremes and the count of sites outside the band, as text."""
        words = "; ".join(map(self._told, self.profiles))
        return f"{TITLE} ({self.subject}). {words or 'no value'}."

    @property
    def undrawn(self) -> list[str]:
        """The undefined (NaN) ratios, one text each; ratios of 0 and infinity are drawn at the ends of the scale."""
        return [
            f"{one.name} at {site}, {quantity} ratio undefined"
            for one in self.profiles
            for quantity in QUANTITIES
            for site in np.flatnonzero(np.isnan(one.ratios[quantity][1])).tolist()
        ]

    def _told(self, profile: Profile) -> str:
        parts = []
        for quantity in QUANTITIES:
            values = profile.ratios[quantity][1]
            outside = int(np.isin(self.band.judge(values), ("below", "above")).sum())
            finite = values[np.isfinite(values)]
            extremes = f", least {finite.min():.4g}, greatest {finite.max():.4g}" if finite.size else ""
            ends = f"{quantity} ratio from {values[0]:.4g} at the input to {values[-1]:.4g} at the last site"
            parts.append(f"{ends}{extremes}, {outside} of {len(values)} sites outside the band")
        return f"{profile.name}: {'; '.join(parts)}"

    def __call__(self, *, theme: Theme = "light") -> go.Figure:
        """Return the figure; x is -1 to 1 on both sides of a gutter, y is 0 to 1 from input to readout."""
        height = HEAD + FOOT + max(LEAST_PIXELS, PIXELS * len(self.rows))
        drawn = layout(heading(TITLE, plain(self.subject)), "ratio", "", theme=theme, height=height)
        drawn["margin"] |= {"t": HEAD, "b": FOOT}
        ticks = [(sign * (GUTTER + place), text) for sign in (-1, 1) for place, text in self.ticks]
        edge = 1 + GUTTER + 0.02
        drawn["xaxis"] |= {
            "range": [-edge, edge], "tickvals": [place for place, _ in ticks], "ticktext": [text for _, text in ticks],
            "showgrid": False,
        }  # fmt: skip
        drawn["yaxis"] |= {"range": [-0.01, 1.07], "showgrid": False, **self._block_ticks()}
        drawn["shapes"] = self._references(theme)
        drawn["annotations"] = [_side(quantity, theme) for quantity in QUANTITIES]
        drawn["legend"] |= {"yref": "container", "y": (FOOT - 62) / height}
        outlines = [self._outline(profile, theme) for profile in reversed(self.profiles)]
        return assembled([*self._filled(theme), *outlines, *self._keys(theme)], drawn)

    @property
    def marks(self) -> list[tuple[float, int]]:
        """The heights at which about eight evenly spaced blocks begin, each with the number of the block."""
        each = per_block(self.sites, self.blocks)
        step = 2 ** math.ceil(math.log2(max(1, self.blocks / 8)))
        found: dict[int, float] = {}
        for (first, last), (place, _) in zip(self.rows[1:], self.places[1:], strict=True):
            block = -(-(first - 1) // each // step) * step
            if block * each + 1 <= last:
                found.setdefault(block, place)
        return [(place, block) for block, place in found.items()]

    def _block_ticks(self) -> dict[str, Any]:
        ends = [(0.0, "input"), *((place, f"block {block}") for place, block in self.marks if block)]
        return {"tickvals": [place for place, _ in ends], "ticktext": [text for _, text in ends]}

    def _references(self, theme: Theme) -> list[dict[str, Any]]:
        colors = PALETTES[theme]
        low, high, one = (GUTTER + self.width(ratio) for ratio in (self.band.lower, self.band.upper, 1.0))
        tall = {"yref": "y", "y0": 0, "y1": 1, "layer": "below"}
        found: list[dict[str, Any]] = []
        for sign in (-1, 1):
            strip = {
                "type": "rect",
                "x0": sign * low,
                "x1": sign * high,
                "fillcolor": colors.band,
                "line": {"width": 0},
            }
            found.append({**tall, **strip})
            lines = ((low, colors.band_edge, "dot"), (high, colors.band_edge, "dot"), (one, colors.muted, "longdash"))
            for place, color, dash in lines:
                line = {"color": color, "dash": dash, "width": 1}
                found.append({**tall, "type": "line", "x0": sign * place, "x1": sign * place, "line": line})
        return found

    def _filled(self, theme: Theme) -> list[dict[str, Any]]:
        """The first series: one trace of rectangles per shade, then its spread over them."""
        found = []
        for sign, quantity in SIDES if self.profiles else ():
            solid: dict[int, list[Box]] = {}
            spread: list[Box] = []
            bars = self.bars(self.profiles[0], quantity)
            low, width, high = (self.scale(one).tolist() for one in (bars.low, bars.ratio, bars.high))
            shade = shades(bars.ratio, self.band)
            for row, (start, end) in enumerate(self.places[: len(width)]):
                upright = (start + EDGE * (end - start), end - EDGE * (end - start))
                solid.setdefault(shade[row], []).append((0.0, width[row], *upright))
                if high[row] > low[row]:
                    spread.append((low[row], high[row], *upright))
            colors = SHADES[theme]
            found += [_boxes(sign, boxes, colors[of + FARTHEST], 1.0) for of, boxes in sorted(solid.items())]
            found += [_boxes(sign, spread, PALETTES[theme].ink, SPREAD_OPACITY)] if spread else []
        return found

    def _outline(self, profile: Profile, theme: Theme) -> dict[str, Any]:
        """Return another series as a step line, both sides in one trace."""
        xs: list[float | None] = []
        ys: list[float | None] = []
        for sign, quantity in SIDES:
            widths = self.scale(self.bars(profile, quantity).ratio).tolist()
            xs += [x for width in widths for x in [sign * (GUTTER + width)] * 2] + [None]
            ys += [y for place in self.places[: len(widths)] for y in place] + [None]
        look = profile.style.stroke(theme)
        xs = [None if x is None or math.isnan(x) else x for x in xs]
        return {
            "type": "scatter", "mode": "lines", "x": xs, "y": ys, "name": plain(profile.name), "hoverinfo": "skip",
            "line": {"color": look.color, "dash": look.dash, "width": 1.6},
        }  # fmt: skip

    def _keys(self, theme: Theme) -> list[dict[str, Any]]:
        colors = PALETTES[theme]
        names = [plain(one.name) for one in self.profiles[:1]]
        middle = SHADES[theme][FARTHEST]
        filled = [legend_entry(f"bars: {name}", middle, "solid", middle) for name in names]
        return [*filled, legend_entry(plain(Strip.of(self.band).name), colors.band_edge, "dot", colors.band)]


tower_figure = Drawn(Tower)


def _boxes(sign: int, boxes: list[Box], color: str, opacity: float) -> dict[str, Any]:
    """Rectangles of one side as a single closed line, which leads from each to the next along the gutter."""
    drawn = [box for box in boxes if not any(map(math.isnan, box))]
    xs = [sign * (GUTTER + width) for low, high, _, _ in drawn for width in (0, high, high, low, low, 0)]
    ys = [y for _, _, start, end in drawn for y in (start, start, end, end, start, start)]
    return {
        "type": "scatter", "mode": "lines", "x": xs, "y": ys, "fill": "toself", "fillcolor": faded(color, opacity),
        "line": {"width": 0, "color": color}, "hoverinfo": "skip", "showlegend": False,
    }  # fmt: skip


def _side(quantity: Quantity, theme: Theme) -> dict[str, Any]:
    """Return the title above a side."""
    left = quantity == "activation"
    return {
        "xref": "paper", "x": 0.24 if left else 0.76, "y": 1.01, "yanchor": "bottom", "showarrow": False,
        "text": WORDS[quantity], "font": {"size": 12, "color": PALETTES[theme].muted},
    }  # fmt: skip
