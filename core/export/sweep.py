"""The content of the page Depth sweep for export: all tables and figures, on screen or not."""

from __future__ import annotations

import pandas as pd

from ..figures.heat import heat_figure
from ..figures.recipes import share_figure
from ..figures.rows import GROWTH_TITLES, growth_figure
from ..figures.sweep import difference_figure, ribbon_figure
from ..sweep.interactive import InteractiveSweep
from ..tables.sweep import (
    STATISTICS,
    axis_names,
    difference_table,
    heat_table,
    refusal_table,
    series_names,
    series_table,
    stem,
)
from ..tables.sweep_words import grid_sentence, verdict_sentences
from .bundle import Contents

TITLE = "Depth sweep"
MAX_HEAT_MAPS = 8


def sweep_contents(sweep: InteractiveSweep) -> Contents:
    """Return paragraphs, tables and figures of the finished cells of a sweep.

    The long table, which has one row per residual site, is a separate file.
    """
    cells, summary, growth = (sweep.table(name) for name in ("cells", "summary", "growth"))
    axes, band = axis_names(sweep.grid), sweep.grid.band
    named = series_table(summary, axes)
    order = series_names(named)
    differences = series_table(difference_table(summary), axes)
    figures = {}
    for statistic in STATISTICS.values():
        for quantity in statistic:
            figures[stem(quantity)] = ribbon_figure(named, band, quantity, order=order)
    figures["share-within"] = share_figure(named, order=order)
    for quantity in STATISTICS["largest"]:
        figures[f"paired-{stem(quantity)}"] = difference_figure(differences, quantity, order=order)
    for quantity in GROWTH_TITLES:
        figures[f"growth-{stem(quantity)}"] = growth_figure(series_table(growth, axes), quantity, order=order)
    by_series = series_table(cells, axes)
    for index, name in enumerate(order[:MAX_HEAT_MAPS]):
        for quantity in STATISTICS["largest"]:
            heat = heat_table(by_series[by_series["recipe"] == name], quantity, band)
            figures[f"heat-{index + 1}-{stem(quantity)}"] = heat_figure(heat, band, quantity)
    tables: dict[str, pd.DataFrame] = {
        "summary": summary, "growth": growth, "differences": difference_table(summary), "cells": cells,
        "refusals": refusal_table(cells),
    }  # fmt: skip
    missing = sweep.total - sweep.done
    paragraphs = [grid_sentence(sweep.grid), *verdict_sentences(named, band)]
    paragraphs += [f"{missing:,} of {sweep.total:,} cells are not computed yet and stand nowhere."] if missing else []
    return Contents(title=TITLE, paragraphs=paragraphs, tables=tables, figures=figures)
