"""The data of a tower: medians over seeds at each residual site, groups of blocks, widths and shades of ratios.

A width is a number from 0 to 1, linear in log10 of a ratio. A shade is an integer that stands for a colour: 0 in the
middle of the band, negative below and positive above; `OUTSIDE` or more in size is outside the band.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..decoder.splitmix64 import FloatArray
from ..health.band import Band
from .sites import Quantity, styled
from .style import Style

QUANTITIES: tuple[Quantity, ...] = ("activation", "adjoint")
LEVELS = (0.05, 0.5, 0.95)
# Rows that fit the height of a screen: every site of 64 blocks with two additions, else 128 bundles.
MOST_ROWS, MOST_BUNDLES = 129, 128
# The gap between two blocks, and the room beyond the band on either side, as parts of a row and of the band's width.
BLOCK_GAP, ROOM = 0.5, 0.125
# The first shade outside the band, the last one, and how many half widths of the band beyond its middle that begins.
OUTSIDE, FARTHEST, FAR = 4, 5, 1.5


@dataclass(frozen=True)
class Profile:
    """One series at S residual sites: `ratios[quantity]` is `[3, S]`, the 5 %, 50 % and 95 % quantiles over seeds."""

    name: str
    style: Style
    labels: tuple[str, ...]
    ratios: dict[Quantity, FloatArray]
    seeds: int

    @property
    def sites(self) -> int:
        """The number of residual sites S."""
        return len(self.labels)


def profiles(table: pd.DataFrame) -> list[Profile]:
    """Return the data of every series of a site table, in order of appearance.

    If a residual site has rows of several seeds, quantiles over these are computed. The table may also have quantiles
    already: either in columns such as `activation_ratio_q05` and `activation_ratio_q95` beside the medians, with
    `seeds`, or as one row per `quantity` and site with `q05`, `median` and `q95`. Rows without a site are left out.
    """
    return [_profile(name, rows[rows["site"].notna()], style) for name, rows, style in styled(table)]


def _profile(name: str, rows: pd.DataFrame, style: Style) -> Profile:
    by_site = rows.groupby(rows["site"].astype(int), sort=True)
    labels = tuple(map(str, by_site["label"].first()))
    told = int(rows["seeds"].max()) if "seeds" in rows and len(rows) else int(by_site.size().max() if len(rows) else 0)
    return Profile(name, style, labels, {one: _levels(rows, one) for one in QUANTITIES}, told)


def _levels(rows: pd.DataFrame, quantity: Quantity) -> FloatArray:
    """`[3, S]` quantiles of a ratio by site."""
    column = f"{quantity}_ratio"
    own = [f"{column}_q05", column, f"{column}_q95"]
    ordered = rows.sort_values("site", kind="stable")
    if "quantity" in rows:
        return ordered.loc[ordered["quantity"] == quantity, ["q05", "median", "q95"]].to_numpy(dtype=float).T
    if set(own) <= set(rows):
        return ordered[own].to_numpy(dtype=float).T
    values = ordered[column].to_numpy(dtype=float)
    sites, counts = np.unique(ordered["site"].to_numpy(dtype=int), return_counts=True)
    if len(values) == len(sites):
        return np.tile(values, (3, 1))
    with np.errstate(invalid="ignore"):
        if len(set(counts.tolist())) == 1:
            found: FloatArray = np.quantile(values.reshape(len(sites), -1), LEVELS, axis=1)
            return found
        return np.stack([np.quantile(one, LEVELS) for one in np.split(values, counts.cumsum()[:-1])], axis=1)


def per_block(sites: int, blocks: int) -> int:
    """Return the number of additions per block if it is the same for all blocks, else 1."""
    each, rest = divmod(sites - 1, max(1, blocks))
    return each if each and not rest else 1


def bundles(sites: int, blocks: int) -> list[tuple[int, int]]:
    """Return the first and the last site of every row: the input alone, then one site or, if deep, whole blocks."""
    each = per_block(sites, blocks)
    step = 1 if sites <= MOST_ROWS else each * math.ceil((sites - 1) / each / MOST_BUNDLES)
    return [(0, 0), *((first, min(first + step, sites) - 1) for first in range(1, sites, step))]


def places(rows: Sequence[tuple[int, int]], each: int) -> list[tuple[float, float]]:
    """Return the lower and the upper end of every row, as heights from 0 (the input) to 1.

    `each` is the number of sites per block. If every row is a single site, there is a gap before each block.
    """
    alone = each > 1 and all(first == last for first, last in rows)
    gaps = [BLOCK_GAP * (alone and first % each == 1) for first, _ in rows]
    ends = np.cumsum([1.0 + gap for gap in gaps])
    return [(float((end - 1) / ends[-1]), float(end / ends[-1])) for end in ends]


@dataclass(frozen=True)
class Scale:
    """The map from ratios to widths, linear in log10 of the ratio; log10 = `low` has width 0, `high` has width 1."""

    low: float
    high: float

    @classmethod
    def of(cls, ratios: Iterable[FloatArray], band: Band) -> Scale:
        """Return the scale that shows the band, the ratio 1 and all finite ratios."""
        limits = [0.0, math.log10(band.lower), math.log10(band.upper)]
        seen = np.concatenate([np.ravel(one) for one in ratios] or [np.empty(0)])
        inner = np.log10(seen[np.isfinite(seen) & (seen > 0)])
        room = max(0.25, ROOM * (max(limits) - min(limits)))
        low, high = min(limits) - room, max(limits) + room
        if inner.size:
            low = min(low, math.floor(2 * inner.min()) / 2)
            high = max(high, math.ceil(2 * inner.max()) / 2)
        return cls(low, high)

    def __call__(self, ratios: FloatArray) -> FloatArray:
        """Return widths: 0 for a ratio of 0, 1 for an infinite one, NaN for an undefined one."""
        with np.errstate(divide="ignore", invalid="ignore"):
            widths = (np.log10(ratios) - self.low) / (self.high - self.low)
        return np.clip(widths, 0.0, 1.0)


def margins(ratios: FloatArray, band: Band) -> FloatArray:
    """Return min(log2(r / lower), log2(upper / r)) for every ratio r and the limits of the band.

    It is negative outside the band, and -inf for an undefined ratio.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.minimum(np.log2(ratios / band.lower), np.log2(band.upper / ratios))
    return np.where(np.isnan(found), -np.inf, found)


def shades(ratios: FloatArray, band: Band) -> list[int]:
    """Return one shade per ratio, negative below the middle of the band and positive above.

    A ratio is outside the band exactly if its shade is at least `OUTSIDE` in size.
    """
    middle = (math.log10(band.lower) + math.log10(band.upper)) / 2
    half = max((math.log10(band.upper) - math.log10(band.lower)) / 2, np.finfo(float).tiny)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        turned = np.nan_to_num(np.clip((np.log10(ratios) - middle) / half, -2 * FAR, 2 * FAR))
    verdicts, size = band.judge(ratios), np.abs(turned)
    inner = np.minimum(np.floor(size * OUTSIDE), OUTSIDE - 1) * np.sign(turned)
    outer = np.where(size > FAR, FARTHEST, OUTSIDE) * np.where(verdicts == "below", -1, 1)
    return [int(one) for one in np.where((verdicts == "within") | (verdicts == ""), inner, outer)]


@dataclass(frozen=True)
class Bars:
    """The bars of one series and quantity, one per row of the tower.

    A row of several residual sites shows the `site` that is closest to a limit of the band, with its median `ratio`.
    `low` and `high` are the smallest and largest quantiles over all sites of the row.
    """

    site: list[int]
    ratio: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, profile: Profile, quantity: Quantity, rows: Sequence[tuple[int, int]], band: Band) -> Bars:
        """Return the bars of those rows that the series reaches."""
        below, median, above = profile.ratios[quantity]
        margin = margins(median, band)
        reached = [(first, min(last, len(median) - 1)) for first, last in rows if first < len(median)]
        worst = [first + int(margin[first : last + 1].argmin()) for first, last in reached]
        low = [np.min(np.minimum(below, median)[first : last + 1]) for first, last in reached]
        high = [np.max(np.maximum(above, median)[first : last + 1]) for first, last in reached]
        return cls(worst, median[worst], np.array(low), np.array(high))
