"""The figure of a site's RMS beside that of its single tokens."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from core.figures.axes import log_axis, whole_ticks
from core.figures.style import Theme, figure, heading, layout, legend_below
from core.views.figures import RMS_AXES, RMS_TITLES, SITE_AXIS, Quantity, series, series_strokes, subject
from core.views.lines import fill, line

DRAWN = ("rms", "median", "q05", "q95")


def token_figure(
    tokens: pd.DataFrame, quantity: Quantity = "activation", *, log: bool = True, theme: Theme = "light"
) -> go.Figure:
    """Absolute RMS of every site and arm, the median of its tokens' RMS beside it and their 5 to 95 % as a strip.

    A page says the loss reduction and the number of valid targets beside it.
    """
    rows = tokens[tokens["quantity"] == quantity]
    chart = layout(heading(RMS_TITLES[quantity], subject(rows)), SITE_AXIS, RMS_AXES[quantity], theme=theme, log_y=log)
    chart["xaxis"] |= whole_ticks(rows["site"])
    chart["yaxis"] |= log_axis(value for column in DRAWN for value in rows[column]) if log else {}
    fills, lines = [], []
    for index, ((name, found), look) in enumerate(zip(series(rows), series_strokes(rows, theme), strict=True)):
        # An arm's three entries stand together in the legend; the name is escaped already.
        rank = 3 * index + 1
        strip = fill(found, "site", "q05", "q95", look.color, log=log)
        fills.append(strip | {"name": f"{name}, 5 to 95 % of tokens", "showlegend": True, "legendrank": rank + 2})
        lines.append(line(found, "site", "rms", "", look, log=log) | {"name": f"{name}, RMS", "legendrank": rank})
        dash = "solid" if look.dash == "dot" else "dot"
        thin = {"mode": "lines", "line": {"color": look.color, "dash": dash, "width": 1.5}}
        lines.append(
            line(found, "site", "median", "", look, log=log)
            | thin
            | {"name": f"{name}, median token", "legendrank": rank + 1}
        )
    legend_below(chart, [*fills, *lines])
    return figure([*fills, *lines], chart)
