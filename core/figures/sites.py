"""Figures over residual sites (states of the stream): ratios, RMS values, single tokens, and branch outputs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pandas as pd

from ..health.band import DEFAULT_BAND, Band
from .chart import Chart, Drawn, Line, Ribbon, Strip
from .style import Style, place_style, recipe_style

Quantity = Literal["activation", "adjoint"]

RATIO_TITLES: dict[Quantity, str] = {"activation": "Activation ratio", "adjoint": "Adjoint ratio"}
RATIO_AXES: dict[Quantity, str] = {
    "activation": "A<sub>s</sub> / A<sub>0</sub>, ratio to the input",
    "adjoint": "G<sub>s</sub> / G<sub>2L</sub>, ratio to the last site",
}
REFERENCE_NAMES: dict[Quantity, str] = {"activation": "input, ratio 1", "adjoint": "last site, ratio 1"}
RMS_TITLES: dict[Quantity, str] = {"activation": "Activation RMS", "adjoint": "Adjoint RMS"}
RMS_AXES: dict[Quantity, str] = {
    "activation": "A<sub>s</sub>, RMS of the residual state",
    "adjoint": "G<sub>s</sub>, RMS, nats per unit of state",
}
CONTRIBUTION_TITLES = {
    "contribution_to_stream": ("Contribution to stream", "RMS ratio to the stream"),
    "contribution_rms": ("Contribution", "RMS of what the stream gains"),
    "raw_rms": ("Raw branch output", "RMS before coefficient and norm"),
    "cosine": ("Contribution and stream", "cosine, all valid features pooled"),
}
SITE_AXIS = "residual site s (0 is the input)"
# What stands above the values of all lines at one site, the value of each, and that of a line that names the site too.
AT_SITE, SITE_HOVER, NAMED_HOVER = "site %{x}", "%{y:.6g}", "%{y:.6g}, %{customdata}"


def _site_chart(table: pd.DataFrame, column: str, *, title: str, y_title: str, log: bool = True) -> Chart:
    """Return one line per series of `column` over the sites, without band or reference."""
    lines = [Line.labelled(rows, "site", column, name, style, hover=SITE_HOVER) for name, rows, style in styled(table)]
    # Series of one graph have the same sites, which are named once.
    lines = [
        line if place and line.labels == lines[0].labels else replace(line, hover=NAMED_HOVER)
        for place, line in enumerate(lines)
    ]
    return Chart(
        title=title,
        subject=subject(table),
        x_title=SITE_AXIS,
        y_title=y_title,
        lines=lines,
        whole_x=True,
        log_y=log,
        places_are=AT_SITE,
    )


site_figure = Drawn(_site_chart)


@Drawn
def ratio_figure(
    table: pd.DataFrame,
    band: Band = DEFAULT_BAND,
    quantity: Quantity = "activation",
    *,
    log: bool = True,
    spread: pd.DataFrame | None = None,
) -> Chart:
    """Plot the ratio at every residual site, one line per series, with the band and the line of ratio 1.

    `quantity` is `activation` or `adjoint` (the gradient with respect to the state). `spread`, if given, has the
    quantiles of the same series over seeds (`ribbon_table`); the range from 5 to 95 % is filled.
    """
    titles = {"title": RATIO_TITLES[quantity], "y_title": RATIO_AXES[quantity]}
    chart = _site_chart(table, f"{quantity}_ratio", log=log, **titles)
    ribbons = [] if spread is None else _ribbons(spread[spread["quantity"] == quantity], table)
    return replace(chart, ribbons=ribbons, strips=[Strip.of(band)], levels=[(1.0, REFERENCE_NAMES[quantity])])


def _ribbons(spread: pd.DataFrame, table: pd.DataFrame) -> list[Ribbon]:
    """Return a ribbon per recipe of the table in its line's style; per arm if its rows name no recipe."""
    key = "recipe" if "recipe" in table else "arm"
    looks: dict[str, Style] = {}
    found = []
    for _, rows, style in styled(table):
        looks.setdefault(str(rows[key].iloc[0]), style)
    for one, rows in spread.groupby(key, sort=False):
        name = str(one)
        if name in looks and rows["q05"].notna().all():
            words = f"{name}, 5 to 95 % of {rows['seeds'].iloc[0]} seeds"
            found.append(Ribbon.of(rows, "site", "q05", "q95", looks[name], name=words))
    return found


@Drawn
def contribution_figure(table: pd.DataFrame, column: str = "contribution_to_stream", *, log: bool = True) -> Chart:
    """Plot what every branch adds, by default relative to the stream; `column` is one of the contribution table."""
    title, axis = CONTRIBUTION_TITLES[column]
    return _site_chart(table, column, title=title, y_title=axis, log=log and column != "cosine")


@Drawn
def token_figure(tokens: pd.DataFrame, quantity: Quantity = "activation", *, log: bool = True) -> Chart:
    """Plot the RMS at every site over all tokens, the median RMS of single tokens, and their range from 5 to 95 %.

    `quantity` is `activation` or `adjoint`. Adjoints, which are gradients of the mean loss, depend on the number of
    valid targets; the page states it.
    """
    rows = tokens[tokens["quantity"] == quantity]
    ribbons, lines = [], []
    for index, (name, found, style) in enumerate(styled(rows)):
        # An arm's three entries stand together in the legend.
        rank, other = 3 * index + 1, "solid" if style.dash == "dot" else "dot"
        thin: dict[str, Any] = {"look": "thin", "width": 1.5, "rank": rank + 1, "hover": SITE_HOVER}
        lines += [
            Line.labelled(found, "site", "rms", f"{name}, RMS", style, rank=rank, hover=SITE_HOVER),
            Line.labelled(found, "site", "median", f"{name}, median token", replace(style, dash=other), **thin),
        ]
        words = f"{name}, 5 to 95 % of tokens"
        ribbons.append(Ribbon.of(found, "site", "q05", "q95", style, name=words, rank=rank + 2))
    return Chart(
        title=RMS_TITLES[quantity], subject=subject(rows), x_title=SITE_AXIS, y_title=RMS_AXES[quantity],
        ribbons=ribbons, lines=lines, whole_x=True, log_y=log, places_are=AT_SITE,
    )  # fmt: skip


@Drawn
def reached_figure(table: pd.DataFrame, quantity: Quantity = "activation") -> Chart:
    """Plot the RMS at the sites that an unfinished run has reached, on an axis of all sites; `quantity` as above."""
    column = f"{quantity}_rms"
    known = table[table[column].notna()]
    chart = _site_chart(known, column, title=RMS_TITLES[quantity], y_title=RMS_AXES[quantity])
    return replace(chart, subject=subject(table), x_range=(0, int(table["site"].max())))


def styled(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame, Style]]:
    """Return a list of (name, rows, style), one per series of the table.

    The style is that of the series' recipe. Saved runs, and rows without a recipe, have a style by their place.
    """
    found, recipes = [], []
    for place, (name, rows) in enumerate(series(table)):
        recipes.append(str(rows["recipe"].iloc[0]) if "recipe" in rows else "")
        # A run has a colour by its place; anything else that of its recipe.
        by_recipe = recipes[-1] and "pin" not in rows
        own = recipe_style(recipes[-1], recipes[:-1].count(recipes[-1])) if by_recipe else place_style(place)
        found.append((name, rows, own))
    return found


def series(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Return a list of (name, rows), one per series of the table, in order of appearance.

    If the chosen recipe is the unscaled control, both would be the same numbers under one name, and there is one
    series.
    """
    keys = [key for key in ("pin", "arm", "recipe", "branch") if key in table.columns]
    found: dict[str, pd.DataFrame] = {}
    for values, rows in table.groupby(keys, sort=False, dropna=False):
        found.setdefault(_series_name(dict(zip(keys, values, strict=True))), rows)
    return list(found.items())


def subject(table: pd.DataFrame) -> str:
    """Return the text under a title, such as "L = 8 blocks, seed 7": depth and seed, each if the table has only one."""
    parts = []
    for column, words in (("blocks", "L = {} blocks"), ("seed", "seed {}")):
        values = list(dict.fromkeys(table[column])) if column in table.columns else []
        parts += [words.format(values[0])] if len(values) == 1 else []
    return ", ".join(parts)


def _series_name(key: dict[str, object]) -> str:
    name = str(key.get("recipe") or key.get("arm", ""))
    if "branch" in key:
        name += f", {str(key['branch']).replace('_', '-')}"
    return f"{key['pin']}: {name}" if key.get("pin") else name
