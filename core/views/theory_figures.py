"""Theory beside measurement: a recipe's medians, what each law derives for them, and by how much it misses."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from core.figures.style import PALETTES, Stroke, Theme, figure, heading, level, plain, recipe_stroke, stroke
from core.views.lines import fill, line, lines_layout, log_axis, place_axis

AXES = {"site": "residual site s (0 is the input)", "blocks": "depth L, blocks"}
MEASURED = {
    "site": ("Activation RMS", "A<sub>s</sub>, RMS of the residual state"),
    "blocks": ("Terminal adjoint", "G<sub>2L</sub>, RMS, nats per unit of state"),
}


def overlay_figure(overlay: pd.DataFrame, x: str, *, theme: Theme = "light") -> go.Figure:
    """Measured medians of one recipe beside every law's prediction; `x` is `site` or `blocks`."""
    laws, looks = _laws(overlay, theme)
    name = plain(overlay["recipe"].iloc[0]) if len(overlay) else ""
    title, y_title = MEASURED[x]
    title = heading(f"{title} beside theory", f"{name}: measured medians, and derived without a free parameter")
    # A law's name is a sentence and takes a legend row of its own.
    chart = lines_layout(title, AXES[x], y_title, 2 * len(laws) + 1, theme=theme)
    chart["xaxis"] |= place_axis(overlay, x)
    chart["yaxis"] |= log_axis([*overlay["measured"], *overlay["predicted"]])
    traces = []
    for (law, rows), look in zip(laws, looks[1:], strict=False):
        trace = line(rows, x, "predicted", f"derived: {law}", look, log=True)
        traces.append(trace | {"mode": "lines"})
    if laws:
        measured = line(laws[0][1], x, "measured", "measured", looks[0], log=True)
        measured["line"] |= {"width": 3, "dash": "solid"}
        traces.insert(0, measured)
    return figure(traces, chart)


def error_figure(overlay: pd.DataFrame, x: str, *, theme: Theme = "light") -> go.Figure:
    """Relative error of every law, predicted / measured - 1: median over seeds, 5 to 95 % filled."""
    laws, looks = _laws(overlay, theme)
    name = plain(overlay["recipe"].iloc[0]) if len(overlay) else ""
    title = heading("Residual error of what is derived", f"{name}: medians over seeds, 5 to 95 % filled")
    chart = lines_layout(title, AXES[x], "predicted / measured - 1", 2 * len(laws) + 1, theme=theme, log_y=False)
    chart["xaxis"] |= place_axis(overlay, x)
    chart["yaxis"] |= {"tickformat": "+.3~p"}
    chart["shapes"] = [level(0.0, PALETTES[theme].muted, "longdash")]
    traces = []
    for (law, rows), look in zip(laws, looks[1:], strict=False):
        traces.append(fill(rows, x, "q05", "q95", look.color, group=str(law)))
        traces.append(line(rows, x, "median", f"derived: {law}", look, log=False) | {"legendgroup": plain(law)})
    return figure(traces, chart)


def _laws(overlay: pd.DataFrame, theme: Theme) -> tuple[list[tuple[str, pd.DataFrame]], list[Stroke]]:
    """The rows of every law, and looks: the recipe's own first, then others that differ from it."""
    laws = [(str(law), rows) for law, rows in overlay.groupby("law", sort=False)]
    own = recipe_stroke(str(overlay["recipe"].iloc[0]) if len(overlay) else "", theme=theme)
    others = [look for index in range(6) if (look := stroke(index, theme)).color != own.color]
    return laws, [own, *others]
