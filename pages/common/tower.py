"""The tower, drawn by `tower.js`, and linked with the figures and the table of residual sites on the page.

The tower shows the ratios of all residual sites (states of the stream) as bars. The site under the pointer is known to
the browser only; the site that was clicked is known to the server, which draws its block.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from core.decoder.splitmix64 import FloatArray
from core.figures.style import PALETTES, Theme
from core.figures.tower import SHADES, TITLE, Tower, tower_figure
from core.figures.tower_rows import QUANTITIES, Profile, per_block, shades
from core.health.band import DEFAULT_BAND, Band
from pages.common.outputs import Sheet
from pages.common.panels import theme

HERE = Path(__file__).parent
SCRIPTS = ("link.js", "table_link.js", "tower.js")
# Digits of what is read off, and of a width, whose pixels are a thousandth.
TOLD, DRAWN = 6, 5

_mount = st.components.v2.component(
    "depthscope.tower",
    css=(HERE / "tower.css").read_text(encoding="utf-8"),
    js="\n".join((HERE / name).read_text(encoding="utf-8") for name in SCRIPTS),
    isolate_styles=False,
)


def tower(
    sheet: Sheet,
    table: pd.DataFrame,
    band: Band = DEFAULT_BAND,
    *,
    site: int | None = None,
    select: Callable[[int | None], None] | None = None,
    follow: str | None = None,
    preview: Callable[[int], pd.DataFrame | None] | None = None,
    key: str = "tower",
) -> None:
    """Draw the tower of a site table at full width, and add it to the figures of the sheet.

    `table` has one row per series, residual site and seed, or per series and site with columns of quantiles (see
    `profiles`); the first series is filled. `site` is the chosen site. `select` is called with the site that the
    visitor clicks, or with None if that one was chosen already. While the slider with the key `follow` is dragged, the
    tower shows the table that `preview` returns for its value, or no change for None. Tables of the page whose first
    column is the site are linked too.
    """
    picture = tower_figure.chart(table, band)
    if not picture.sites:
        st.caption("There is no site to draw a tower of.")
        return
    sheet.pictures[key] = picture
    _standing(picture, site, select, follow, preview, key)


@st.fragment
def _standing(
    picture: Tower,
    site: int | None,
    select: Callable[[int | None], None] | None,
    follow: str | None,
    preview: Callable[[int], pd.DataFrame | None] | None,
    key: str,
) -> None:
    """Draw the component. While the slider is dragged only this fragment runs; a click on a site runs the page."""
    asked = _trigger(key, "depth")
    found = preview(int(asked)) if preview is not None and asked is not None else None
    shown = picture if found is None else tower_figure.chart(found, picture.band)
    _mount(
        key=key,
        data={
            "tower": json.dumps(_parts(shown, theme()), allow_nan=False), "site": site, "asked": asked,
            "follow": follow if preview is not None else None,
        },
        on_depth_change=_nothing,
        on_site_change=lambda: _chosen(key, select),
    )  # fmt: skip
    if _trigger(key, "site") is not None:
        st.rerun()


def _nothing() -> None:
    """Do nothing: the callback is needed only so that the fragment runs."""


def _chosen(key: str, select: Callable[[int | None], None] | None) -> None:
    clicked = _trigger(key, "site")
    if clicked is not None and select is not None:
        select(int(clicked) if clicked >= 0 else None)


def _trigger(key: str, name: str) -> Any:
    return getattr(st.session_state.get(key), name, None)


def _parts(picture: Tower, theme: Theme) -> dict[str, Any]:
    """Return what the script draws; every number is finite, None or text."""
    colors = PALETTES[theme]
    main = {quantity: _bars(picture, picture.profiles[0], quantity) for quantity in QUANTITIES}
    longest = max(picture.profiles, key=lambda one: one.sites)
    return {
        "title": TITLE, "subject": picture.subject, "alt": picture.alt, "sites": picture.sites, "worst": picture.worst,
        "each": per_block(picture.sites, picture.blocks), "rows": picture.rows, "places": picture.places,
        "blocks": [(place, str(block)) for place, block in picture.marks], "ticks": picture.ticks,
        "labels": [words(label) for label in longest.labels], "main": main,
        "outlines": [_outline(picture, profile, theme) for profile in reversed(picture.profiles)],
        "series": [_told(profile, theme) for profile in picture.profiles],
        "band": [picture.band.lower, picture.band.upper], "key": picture.key, "shades": SHADES[theme],
        "limits": {"lower": picture.width(picture.band.lower), "upper": picture.width(picture.band.upper),
                   "one": picture.width(1.0)},
        "colors": {"paper": colors.paper, "ink": colors.ink, "muted": colors.muted, "band": colors.band,
                   "band_edge": colors.band_edge, "accent": colors.series[0]},
    }  # fmt: skip


def words(label: str) -> str:
    """Return the label of a residual site for display, such as "block 2, after attention"."""
    parts = label.replace("_", " ").split(".")
    return f"{' '.join(parts[:-1])}, {parts[-1]}" if len(parts) > 1 else label


def _bars(picture: Tower, profile: Profile, quantity: Any) -> dict[str, Any]:
    bars = picture.bars(profile, quantity)
    sizes = {name: _numbers(picture.scale(getattr(bars, name)), DRAWN) for name in ("ratio", "low", "high")}
    return {
        "width": sizes["ratio"], "low": sizes["low"], "high": sizes["high"], "site": bars.site,
        "shade": shades(bars.ratio, picture.band),
    }  # fmt: skip


def _outline(picture: Tower, profile: Profile, theme: Theme) -> dict[str, Any]:
    look = profile.style.stroke(theme)
    found: dict[str, Any] = {"color": look.color, "dash": look.dash}
    return found | {one: _numbers(picture.scale(picture.bars(profile, one).ratio), DRAWN) for one in QUANTITIES}


def _told(profile: Profile, theme: Theme) -> dict[str, Any]:
    """Return the numbers of every site: median, 5 % and 95 % over seeds, or the value alone if there is one seed."""
    look = profile.style.stroke(theme)
    order = (1, 0, 2) if profile.seeds > 1 else (1,)
    found: dict[str, Any] = {"name": profile.name, "color": look.color, "dash": look.dash}
    return found | {one: [_numbers(profile.ratios[one][level], TOLD) for level in order] for one in QUANTITIES}


def _numbers(values: FloatArray, digits: int) -> list[float | str | None]:
    return [
        None if math.isnan(value) else float(f"{value:.{digits}g}") if math.isfinite(value) else str(value)
        for value in values.tolist()
    ]
