"""Figures that several pages show: ratios and RMS at residual sites, the diagram of a block, growth with depth."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from core.compare.drawing import drawing
from core.decoder.base_draw import Distribution
from core.decoder.config import DecoderConfig
from core.figures.block import Observed, block_figure
from core.figures.rows import GROWTH_TITLES, growth_figure
from core.figures.sites import RATIO_TITLES, RMS_TITLES, contribution_figure, ratio_figure, token_figure
from core.health.band import DEFAULT_BAND, Band
from core.recipes.catalogue import recipe
from core.tables.recipe_words import derived_sentences
from core.tables.recipes import growth_view
from core.tables.sweep import stem
from core.tables.writers import writer_table
from pages.common.outputs import Sheet
from pages.common.panels import escaped
from pages.common.widgets import beside


def draw_ratios(
    sheet: Sheet,
    sites: pd.DataFrame,
    band: Band = DEFAULT_BAND,
    *,
    log: bool = True,
    prefix: str = "",
    spread: pd.DataFrame | None = None,
    stacked: bool = False,
) -> None:
    """Draw the activation ratio and the adjoint (gradient) ratio of a site table, side by side or `stacked`.

    Each figure shades `band`, the range that ratios must lie in. `prefix` is put before the names of the files.
    `spread`, if given, is a table of quantiles over seeds, from `ribbon_table`.
    """
    for quantity in RATIO_TITLES if stacked else beside(RATIO_TITLES):
        chart = ratio_figure.chart(sites, band, quantity, log=log, spread=spread)
        sheet.figure(f"{prefix}{quantity}-ratio", chart)


def draw_tokens(sheet: Sheet, tokens: pd.DataFrame, *, log: bool = True) -> None:
    """Draw the RMS of states and of their gradients (adjoints), with the RMS of single tokens."""
    for quantity in beside(RMS_TITLES):
        sheet.figure(f"{quantity}-rms", token_figure.chart(tokens, quantity, log=log))


def draw_contributions(sheet: Sheet, table: pd.DataFrame, *, log: bool = True) -> None:
    """Draw what every branch adds, relative to the stream and as RMS."""
    for name in beside(("contribution_to_stream", "contribution_rms")):
        sheet.figure(name.replace("_", "-"), contribution_figure.chart(table, name, log=log))


def draw_block(
    sheet: Sheet,
    file: str,
    config: DecoderConfig,
    name: str,
    block: int,
    distribution: Distribution,
    title: str,
    observed: Observed | None = None,
) -> pd.DataFrame:
    """Draw one block of a recipe as a diagram; return the table of the matrices that end its branches.

    `name` is the recipe, `file` the name of the figure. `observed`, if given, has measured values to write into it.
    """
    nodes, edges = drawing(recipe(name).graph(config), block)
    writers = writer_table(config, name, block, distribution)
    sheet.figure(file, block_figure.chart(nodes, edges, writers, title, observed))
    return writers


def draw_growth(sheet: Sheet, growth: pd.DataFrame, table: pd.DataFrame, order: Sequence[str] = ()) -> None:
    """Draw fitted and theoretical exponents of growth with depth, one figure per quantity, and a table.

    `growth` has the series' names for display; `table` is what the files contain.
    """
    st.markdown(
        "A **fit** is the slope of log ratio against log depth by least squares over seeds and depths, with the middle "
        "95 % of a bootstrap over seeds. A **derived** law is arithmetic on the recipe: it fits nothing and knows "
        "nothing of these cells."
    )
    for quantity in beside(GROWTH_TITLES):
        sheet.figure(f"growth-{stem(quantity)}", growth_figure.chart(growth, quantity, order=order))
    sheet.table("growth", table, view=growth_view(growth), alt="Fitted and derived exponents by series.")
    st.caption("  \n".join(map(escaped, derived_sentences(growth))))
