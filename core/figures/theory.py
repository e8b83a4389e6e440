"""Figures of predictions beside measurements: medians of one recipe, the prediction of each law, and its error."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from .chart import Chart, Drawn, Line, Ribbon
from .series import OVER_DEPTH, TALL
from .sites import SITE_AXIS
from .style import COLORS, Style, place_style, recipe_style

AXES: dict[str, dict[str, Any]] = {"site": {"x_title": SITE_AXIS, "whole_x": True, **TALL}, "blocks": OVER_DEPTH}
MEASURED = {
    "site": ("Activation RMS", "A<sub>s</sub>, RMS of the residual state"),
    "blocks": ("Terminal adjoint", "G<sub>2L</sub>, RMS, nats per unit of state"),
}


@Drawn
def overlay_figure(overlay: pd.DataFrame, x: str) -> Chart:
    """Plot the measured medians of one recipe and the prediction of every law; `x` is `site` or `blocks`."""
    (own, name), laws = _recipe(overlay), _laws(overlay)
    title, y_title = MEASURED[x]
    thick = replace(own, dash="solid")
    measured = [Line.labelled(rows, x, "measured", "measured", thick, width=3) for _, rows, _ in laws[:1]]
    derived = [Line.labelled(rows, x, "predicted", f"derived: {law}", style, "thin") for law, rows, style in laws]
    return Chart(
        title=f"{title} beside theory", subject=f"{name}: measured medians, and derived without a free parameter",
        y_title=y_title, lines=[*measured, *derived], **AXES[x],
    )  # fmt: skip


@Drawn
def error_figure(overlay: pd.DataFrame, x: str) -> Chart:
    """Plot the relative error of every law, predicted / measured - 1: median over seeds, 5 to 95 % filled."""
    (_, name), laws = _recipe(overlay), _laws(overlay)
    return Chart(
        title="Residual error of what is derived", subject=f"{name}: medians over seeds, 5 to 95 % filled",
        y_title="predicted / measured - 1", log_y=False, y_format="+.3~p", levels=((0.0, ""),),
        lines=[Line.labelled(rows, x, "median", f"derived: {law}", style, group=law) for law, rows, style in laws],
        ribbons=[Ribbon.of(rows, x, "q05", "q95", style, group=law) for law, rows, style in laws], **AXES[x],
    )  # fmt: skip


def _recipe(overlay: pd.DataFrame) -> tuple[Style, str]:
    """Return the style and name of the recipe."""
    name = str(overlay["recipe"].iloc[0]) if len(overlay) else ""
    return recipe_style(name), name


def _laws(overlay: pd.DataFrame) -> list[tuple[str, pd.DataFrame, Style]]:
    """Return the name and rows of every law, with a style that differs from the recipe's."""
    own, _ = _recipe(overlay)
    others = [style for place in range(COLORS) if (style := place_style(place)).color != own.color]
    groups = overlay.groupby("law", sort=False)
    return [(str(law), rows, style) for (law, rows), style in zip(groups, others, strict=False)]
