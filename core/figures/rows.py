"""Figures with one row per name: growth exponents with intervals, and what public code does under a recipe's name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from .chart import Chart, Drawn, Line
from .series import series_style
from .sites import Quantity
from .style import Style

GROWTH_TITLES = {
    "largest_activation_ratio": "Growth of the largest activation ratio",
    "input_adjoint_ratio": "Growth of the input's adjoint ratio",
}


@Drawn
def growth_figure(growth: pd.DataFrame, quantity: str, *, order: Sequence[str] = ()) -> Chart:
    """Plot the exponent p of a ratio proportional to L^p for L blocks, one row per recipe.

    Fitted exponents have their 95 % interval; theoretical ones are crosses.
    """
    rows = growth[(growth["quantity"] == quantity) & growth["exponent"].notna()]
    names = list(dict.fromkeys(rows["recipe"]))
    points = []
    for row in rows[rows["kind"] == "fit"].to_dict("records"):
        name, value = str(row["recipe"]), row["exponent"]
        error: dict[str, Any] = {"error": ([value - row["lower95"]], [row["upper95"] - value]), "error_on": "x"}
        style = series_style(name, order)
        points.append(_points(name, [value], [-names.index(name)], style, in_legend=False, **error))
    derived = rows[rows["kind"] == "derived"]
    places = [-names.index(name) for name in derived["recipe"]]
    points.append(_points("fit with 95 % interval", [], [], Style("muted")))
    if len(derived):
        points.append(_points("derived law", derived["exponent"].tolist(), places, Style("ink", "x-thin")))
    return Chart(
        title=GROWTH_TITLES[quantity], x_title="exponent p of ratio ~ L<sup>p</sup>", y_title="", lines=points,
        rows=names, places=((0.0, ""),), log_y=False,
    )  # fmt: skip


@Drawn
def drift_figure(drift: pd.DataFrame, quantity: Quantity = "activation") -> Chart:
    """Plot the largest ratio of a recipe as declared and as public code implements it, one row per code base."""
    declared, found = (drift[f"{which}_{quantity}_ratio"].tolist() for which in ("declared", "variant"))
    places = [-index for index in range(len(drift))]
    ends = [value for pair in zip(declared, found, strict=True) for value in (*pair, None)]
    bridge = Line(
        name="", x=ends, y=[place for row in places for place in (row, row, None)], look="thin", style=Style("muted")
    )
    return Chart(
        title=f"Largest {quantity} ratio", x_title="ratio, median over seeds", y_title="",
        rows=[f"{recipe} in {base}" for recipe, base in zip(drift["recipe"], drift["code_base"], strict=True)],
        lines=[
            bridge, _points("as declared", declared, places, Style(0, "circle-open")),
            _points("as in the code", found, places, Style(1, "diamond")),
        ],
        log_x=True, log_y=False,
    )  # fmt: skip


def _points(name: str, x: Sequence[float], y: Sequence[float], style: Style, **options: Any) -> Line:
    return Line(name=name, x=x, y=y, look="points", style=style, hover="%{x:.6g}", **options)
