"""Figures of residual sites. A figure reads a table alone, so whoever has the table can draw it again.

On a logarithmic axis only positive finite values have a place; `undrawn` lists the others, and whoever shows the
figure shows that list beside it.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import plotly.graph_objects as go

from core.decoder.splitmix64 import FloatArray
from core.figures.axes import log_axis, whole_ticks
from core.figures.style import (
    MARKED_POINTS,
    PALETTES,
    Stroke,
    Theme,
    heading,
    layout,
    legend_below,
    legend_entry,
    level,
    plain,
    recipe_stroke,
    strip,
    stroke,
)
from core.figures.style import figure as assembled
from core.health.band import DEFAULT_BAND, Band

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
    "contribution_to_stream": ("Contribution to stream", "RMS(contribution) / RMS(stream)"),
    "contribution_rms": ("Contribution", "RMS of what the stream gains"),
    "raw_rms": ("Raw branch output", "RMS before coefficient and output norm"),
    "cosine": ("Contribution and stream", "cosine, all valid features pooled"),
}
SITE_AXIS = "residual site s (0 is the input)"


def ratio_figure(
    table: pd.DataFrame,
    band: Band = DEFAULT_BAND,
    quantity: Quantity = "activation",
    *,
    log: bool = True,
    theme: Theme = "light",
) -> go.Figure:
    """Ratio of every site and series, with the band and the reference line drawn and named in the legend."""
    colors, column = PALETTES[theme], f"{quantity}_ratio"
    title = heading(RATIO_TITLES[quantity], subject(table))
    chart = layout(title, SITE_AXIS, RATIO_AXES[quantity], theme=theme, log_y=log)
    chart["xaxis"] |= whole_ticks(table["site"])
    chart["yaxis"] |= log_axis([*table[column], band.lower, band.upper]) if log else {}
    chart["shapes"] = [
        strip(band.lower, band.upper, colors.band),
        *(level(limit, colors.band_edge, "dot") for limit in (band.lower, band.upper)),
        level(1.0, colors.muted, "longdash"),
    ]
    traces = site_lines(table, column, log=log, theme=theme)
    traces += [
        legend_entry(f"band {band.lower:g} to {band.upper:g}", colors.band_edge, "dot", colors.band),
        legend_entry(REFERENCE_NAMES[quantity], colors.muted, "longdash"),
    ]
    legend_below(chart, traces)
    return assembled(traces, chart)


def blank_figure(*, theme: Theme = "light") -> go.Figure:
    """Axes alone, shown while what fills them is still computed."""
    chart = layout("", "", "", theme=theme)
    for axis in ("xaxis", "yaxis"):
        chart[axis] |= {"range": [0, 1], "showticklabels": False}
    return assembled([], chart)


def contribution_figure(
    table: pd.DataFrame, column: str = "contribution_to_stream", *, log: bool = True, theme: Theme = "light"
) -> go.Figure:
    """What every addition's branch adds, beside the stream it is added to, or one of the RMS columns."""
    title, axis = CONTRIBUTION_TITLES[column]
    return site_figure(table, column, title=title, y_title=axis, log=log and column != "cosine", theme=theme)


def site_figure(
    table: pd.DataFrame, column: str, *, title: str, y_title: str, log: bool = True, theme: Theme = "light"
) -> go.Figure:
    """One line a series of `column` over the sites, without band or reference."""
    chart = layout(heading(title, subject(table)), SITE_AXIS, y_title, theme=theme, log_y=log)
    chart["xaxis"] |= whole_ticks(table["site"])
    chart["yaxis"] |= log_axis(table[column]) if log else {}
    traces = site_lines(table, column, log=log, theme=theme)
    legend_below(chart, traces)
    return assembled(traces, chart)


def site_lines(table: pd.DataFrame, column: str, *, log: bool = True, theme: Theme = "light") -> list[dict[str, Any]]:
    """The traces of `column`: one line a series of the table."""
    looks = series_strokes(table, theme)
    return [_line(rows, column, name, look, log) for (name, rows), look in zip(series(table), looks, strict=True)]


def series_strokes(table: pd.DataFrame, theme: Theme = "light") -> list[Stroke]:
    """The look of each series of the table: its recipe's own, or one by its place where the rows name no recipe."""
    rows = [found for _, found in series(table)]
    if "recipe" not in table.columns:
        return [stroke(place, theme) for place in range(len(rows))]
    recipes = [str(found["recipe"].iloc[0]) for found in rows]
    return [recipe_stroke(name, recipes[:place].count(name), theme) for place, name in enumerate(recipes)]


def subject(table: pd.DataFrame) -> str:
    """What the table observes, for the line under a title: depth and seed where the table has one of each."""
    parts = []
    for column, words in (("blocks", "L = {} blocks"), ("seed", "seed {}")):
        values = list(dict.fromkeys(table[column])) if column in table.columns else []
        parts += [words.format(plain(values[0]))] if len(values) == 1 else []
    return ", ".join(parts)


def series(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The table's rows by legend name, in order of appearance.

    Where the recipe is the control's own, both arms are the same numbers under the same name: one series.
    """
    keys = [key for key in ("pin", "arm", "recipe", "branch") if key in table.columns]
    groups = table.groupby(keys, sort=False, dropna=False)
    found: dict[str, pd.DataFrame] = {}
    for values, rows in groups:
        found.setdefault(_series_name(dict(zip(keys, values, strict=True))), rows)
    return list(found.items())


def undrawn(table: pd.DataFrame, column: str, *, log: bool = True) -> list[str]:
    """The points that a figure of `column` cannot show, each as text: missing, infinite, and on a log axis <= 0."""
    values = table[column].to_numpy(dtype=float)
    hidden = np.flatnonzero(~_drawable(values, log))
    names = ["recipe" if "recipe" in table.columns else "arm", "label" if "label" in table.columns else "site"]
    names = [name for name in names if name in table.columns]
    return [", ".join([*(str(table[name].iloc[row]) for name in names), f"{values[row]:g}"]) for row in hidden]


def alternative_text(table: pd.DataFrame, column: str, what: str) -> str:
    """One sentence that says of a figure what it shows: each series' first, last, least and greatest value."""
    parts = []
    for name, rows in series(table):
        values = rows[column].to_numpy(dtype=float)
        finite = values[np.isfinite(values)]
        if len(finite):
            parts.append(
                f"{name} starts at {values[0]:.4g}, ends at {values[-1]:.4g}, least {finite.min():.4g}, greatest "
                f"{finite.max():.4g}"
            )
    return f"{what} over {table['site'].nunique()} residual sites: {'; '.join(parts) or 'no finite value'}."


def _series_name(key: dict[str, object]) -> str:
    name = str(key.get("recipe") or key.get("arm", ""))
    if "branch" in key:
        name += f", {str(key['branch']).replace('_', '-')}"
    return plain(f"{key['pin']}: {name}" if key.get("pin") else name)


def _line(rows: pd.DataFrame, column: str, name: str, look: Stroke, log: bool) -> dict[str, Any]:
    values = rows[column].to_numpy(dtype=float)
    drawn = _drawable(values, log)
    return {
        "type": "scatter",
        "x": rows["site"].tolist(),
        "y": [value if shown else None for value, shown in zip(values.tolist(), drawn, strict=True)],
        "customdata": [plain(label) for label in rows["label"]],
        "name": name,
        "mode": "lines+markers",
        "line": {"color": look.color, "dash": look.dash, "width": 2},
        "marker": {"symbol": look.marker, "size": 7, "color": look.color, "maxdisplayed": MARKED_POINTS},
        "hovertemplate": "site %{x}: %{customdata}<br>%{y:.6g}",
    }


def _drawable(values: FloatArray, log: bool) -> npt.NDArray[np.bool_]:
    finite: npt.NDArray[np.bool_] = np.isfinite(values)
    return finite & (values > 0) if log else finite
