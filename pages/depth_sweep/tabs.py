"""The tabs of the page Depth sweep; only the open tab is drawn and computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import pandas as pd
import streamlit as st

from core.figures.heat import heat_figure
from core.figures.recipes import share_figure
from core.figures.sweep import difference_figure, distribution_figure, ribbon_figure
from core.sweep.interactive import InteractiveSweep
from core.sweep.tables import PARQUET, ROWS, SUMMARY
from core.tables.recipes import SHARE_TITLE
from core.tables.sweep import (
    STATISTICS,
    address_table,
    axis_names,
    cell_view,
    difference_table,
    distribution_table,
    distribution_view,
    heat_table,
    quantile_view,
    refusal_table,
    series_names,
    series_table,
    share_view,
    stem,
)
from pages.common import panels
from pages.common.outputs import Sheet
from pages.common.site_figures import draw_growth
from pages.common.widgets import beside, draw_row
from pages.depth_sweep import cell as sweep_cell
from pages.depth_sweep import controls

PERCENT = "percent"
MOST_CELLS = 1000
FILES = {ROWS: "text/csv", PARQUET: "application/vnd.apache.parquet", SUMMARY: "text/csv"}


@dataclass(frozen=True)
class Shown:
    """The sweep and the sheet on which it is shown; its tables have the finished (recipe, seed) cells only."""

    sweep: InteractiveSweep
    sheet: Sheet

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """The columns that tell the series of one recipe apart."""
        return axis_names(self.sweep.grid)

    @cached_property
    def cells(self) -> pd.DataFrame:
        """The table of finished cells (one seed at one depth), with the series of each."""
        return series_table(self.sweep.table("cells"), self.axes)

    @cached_property
    def summary(self) -> pd.DataFrame:
        """The summary over seeds, with the series of each row."""
        return series_table(self.sweep.table("summary"), self.axes)

    @cached_property
    def order(self) -> Sequence[str]:
        """The names of all series, computed or not, so that colours do not change during a sweep."""
        return series_names(series_table(address_table(self.sweep.grid), self.axes))

    @property
    def quantities(self) -> tuple[str, str]:
        """The column names of the activation ratio and of the adjoint (gradient) ratio that the visitor chose."""
        return STATISTICS[str(controls.STATISTIC.value)]


def against_depth(shown: Shown) -> None:
    """Draw both ratios against depth: medians and quantiles over seeds."""
    draw_row(controls.STATISTIC, controls.SPREAD, key="sweep-options")
    band, spread = shown.sweep.grid.band, bool(controls.SPREAD.value)
    for quantity in beside(shown.quantities):
        chart = ribbon_figure.chart(shown.summary, band, quantity, order=shown.order, spread=spread)
        shown.sheet.figure(stem(quantity), chart)
    shown.sheet.table(
        "summary", shown.sweep.table("summary"), view=quantile_view(shown.summary, shown.quantities),
        alt="Quantiles over seeds, one row per series, depth and ratio.", formats={SHARE_TITLE: PERCENT},
    )  # fmt: skip


def depth_by_seed(shown: Shown) -> None:
    """Draw heat maps of both ratios of one series by depth and seed, and menus that open a cell on the page Health."""
    _, name = draw_row(controls.STATISTIC, controls.SERIES, key="sweep-options", among=shown.order)
    cells = shown.cells[shown.cells["recipe"] == name]
    drawn = sweep_cell.drawn_seeds(shown.sweep.grid)
    if len(drawn) < len(shown.sweep.grid.seeds):
        st.caption(f"The first {len(drawn)} of {len(shown.sweep.grid.seeds):,} seeds; the tables have all of them.")
    for quantity in beside(shown.quantities):
        heat = heat_table(cells[cells["seed"].isin(drawn)], quantity, shown.sweep.grid.band)
        shown.sheet.figure(
            f"heat-{stem(quantity)}",
            heat_figure.chart(heat, shown.sweep.grid.band, quantity),
            select=partial(sweep_cell.open_clicked, shown.sweep.grid, shown.axes),
        )
    st.caption("A click on a cell opens that decoder on Health. So does the choice below.")
    sweep_cell.picker(shown.sweep.grid, name, shown.axes)
    shown.sheet.table(
        "cells", shown.sweep.table("cells"), view=cell_view(cells, MOST_CELLS), height=320,
        alt="Extreme ratios, loss and status, one row per cell.",
    )  # fmt: skip


def one_depth(shown: Shown) -> None:
    """Draw the distribution of both ratios over seeds at one depth."""
    depths = list(map(str, shown.sweep.grid.blocks))
    blocks = int(draw_row(controls.STATISTIC, controls.DEPTH, key="sweep-options", among=depths)[1])
    tables = []
    for quantity in beside(shown.quantities):
        seen = distribution_table(shown.cells, blocks, quantity)
        tables.append(seen)
        chart = distribution_figure.chart(seen, quantity, shown.sweep.grid.band, order=shown.order)
        shown.sheet.figure(f"spread-{stem(quantity)}", chart)
    here = shown.summary[shown.summary["blocks"] == blocks]
    shown.sheet.table(
        "one-depth", here, view=quantile_view(here, shown.quantities), formats={SHARE_TITLE: PERCENT},
        alt="Quantiles over seeds at this depth, one row per series and ratio.",
    )  # fmt: skip
    st.subheader("Bins")
    bins = pd.concat(tables, ignore_index=True)
    shown.sheet.table(
        "distribution", bins, view=distribution_view(bins), formats={"share": PERCENT}, height=320,
        alt="Seeds per bin and series, bins without a seed left out.",
    )  # fmt: skip


def within_band(shown: Shown) -> None:
    """Draw the share of seeds within the band against depth."""
    shown.sheet.figure("share-within", share_figure.chart(shown.summary, order=shown.order))
    view = share_view(shown.summary)
    shown.sheet.table(
        "summary", shown.sweep.table("summary"), view=view, formats=dict.fromkeys(view.columns[3:], PERCENT),
        alt="Share of seeds within the band, every ratio at once and each extreme by itself.",
    )  # fmt: skip


def growth(shown: Shown) -> None:
    """Draw the exponents of growth with depth: fitted ones with their intervals, and theoretical ones."""
    table = series_table(shown.sweep.table("growth"), shown.axes)
    draw_growth(shown.sheet, table, shown.sweep.table("growth"), shown.order)


def differences(shown: Shown) -> None:
    """Draw the difference between each recipe and the unscaled control for the same seed."""
    draw_row(controls.STATISTIC, controls.SPREAD, key="sweep-options")
    table = difference_table(shown.sweep.table("summary"))
    named = series_table(table, shown.axes)
    if not len(named):
        panels.notice("Only the control itself has finished or was asked for; there is nothing to pair.")
        return
    spread = bool(controls.SPREAD.value)
    for quantity in beside(shown.quantities):
        chart = difference_figure.chart(named, quantity, order=shown.order, spread=spread)
        shown.sheet.figure(f"paired-{stem(quantity)}", chart)
    shown.sheet.table(
        "differences", table, view=quantile_view(named, shown.quantities),
        alt="Quantiles of the paired differences, one row per series, depth and ratio.",
    )  # fmt: skip


def rows_and_refusals(shown: Shown) -> None:
    """Draw buttons for the files that the command line would write, and the table of refused (recipe, seed) cells."""
    st.markdown(
        "The long table has one row per site. These files are byte for byte what the command line writes for this grid."
    )
    with st.container(horizontal=True, gap="small", key="sweep-files"):
        for name, mime in FILES.items():
            st.download_button(
                name, data=partial(shown.sweep.file, name), file_name=name, mime=mime, on_click="ignore",
                icon=":material/download:", key=f"file-{name}", disabled=not shown.sweep.complete,
            )  # fmt: skip
    if not shown.sweep.complete:
        st.caption("They are there when the sweep is complete; the tables of the other views have what has finished.")
    st.subheader("Refused cells")
    refused = refusal_table(shown.sweep.table("cells"))
    if len(refused):
        shown.sheet.table("refusals", refused, alt="Refused cells by arm, recipe, depth and reason.")
    else:
        st.markdown("None so far." if not shown.sweep.complete else "None: every cell has finite ratios.")


def refusal_notice(shown: Shown) -> None:
    """Draw one sentence for each reason why (recipe, seed) cells were refused."""
    refused = refusal_table(shown.sweep.table("cells"))
    for reason, rows in refused.groupby("reason", sort=False):
        depths = ", ".join(str(depth) for depth in dict.fromkeys(rows["blocks"]))
        recipes = ", ".join(dict.fromkeys(rows["recipe"]))
        panels.notice(f"Refused: {rows['cells'].sum():,} cells of {recipes} at L = {depths}. {reason}")


TABS: Mapping[str, Callable[[Shown], None]] = {
    "Against depth": against_depth,
    "Depth by seed": depth_by_seed,
    "One depth": one_depth,
    "Within the band": within_band,
    "Growth": growth,
    "Differences": differences,
    "Rows and refusals": rows_and_refusals,
}
