"""The comparison that the page Recipes shows: its sheet, its sweep over depths, and its cached tables.

A comparison that would take too long for a page raises `BudgetError` before it starts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from core.compare.card import card
from core.compare.request import ComparisonRequest
from core.errors import BudgetError, SweepError
from core.health.columns import INITIALIZED
from core.recipes.catalogue import CONTROL
from core.recipes.variants import VARIANTS
from core.sweep.grid import SweepGrid
from core.sweep.interactive import InteractiveSweep
from core.sweep.ranges import parse_sizes
from core.sweep.run import SweepRun
from core.sweep.store import Store
from pages.common.cached import BY_REQUEST, kept
from pages.common.outputs import Sheet
from pages.common.recipe_panel import check_patience, grid_of
from pages.common.site_figures import draw_block
from pages.common.sweeps import session_sweep
from pages.recipes import controls

if TYPE_CHECKING:
    from core.compare.comparison import Comparison

Tables = dict[str, pd.DataFrame]
OBSERVING = "Observing every recipe on the same base draws…"
DRIFT_SEEDS = 8
# Session entries: the sweep over depths that was shown last, and the store with its cells.
SWEEP, STORE = "recipes over depths", "cells of recipes"
MAX_DEPTHS = 12
SLICE_SECONDS = 2.0


@dataclass
class Shown:
    """The request of the page and the sheet on which it is shown.

    `unfinished` is True if the page must run again to finish a sweep.
    """

    request: ComparisonRequest
    sheet: Sheet
    unfinished: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The chosen recipes, in the order chosen."""
        return self.request.recipes

    def one(self, name: str) -> ComparisonRequest:
        """Return the request with only one of the recipes."""
        return replace(self.request, recipes=(name,))

    @property
    def runnable(self) -> list[str]:
        """The names of the chosen recipes that can run on this decoder."""
        return [name for name in self.names if card(name, self.request.config).refusal is None]


@st.cache_resource(max_entries=8, show_spinner=False, hash_funcs=BY_REQUEST)
def _comparison(request: ComparisonRequest) -> Comparison:
    from core.compare.comparison import compare_recipes

    check_patience(request)
    return compare_recipes(request)


@kept(OBSERVING)
def profiles(request: ComparisonRequest) -> Tables:
    """Return the tables `overview`, `profiles` and `sites` of a comparison at one depth."""
    from core.compare.comparison_tables import largest_table, profile_table, share_table
    from core.tables.recipes import overview_table, profile_summary

    rows = profile_table(_comparison(request))
    laws = {name: card(name, request.config).law for name in request.recipes}
    return {
        "overview": overview_table(rows, largest_table(rows), laws),
        "profiles": profile_summary(rows, share_table(rows)),
        "sites": rows,
    }


@kept(OBSERVING)
def contributions(request: ComparisonRequest) -> pd.DataFrame:
    """Return a `contribution_summary`: quantiles over seeds of what every branch adds, at one depth."""
    from core.compare.comparison_tables import contribution_table
    from core.tables.recipes import contribution_summary

    return contribution_summary(contribution_table(_comparison(request)))


@kept()
def tokens(request: ComparisonRequest) -> pd.DataFrame:
    """Return the `token_cosine_table` of one recipe: quantiles over tokens of the cosine of stream and branch."""
    from core.compare.token_cosines import token_cosine_table

    check_patience(request)
    return token_cosine_table(request)


@kept(OBSERVING)
def theory(request: ComparisonRequest) -> Tables:
    """Return two tables of one recipe: `overlay`, predicted and measured values by site, and `errors`, by law."""
    from core.compare.overlays import EVIDENCE, overlay_errors, site_overlay_table
    from core.tables.recipes import overlay_summary

    overlay = site_overlay_table(_comparison(request))
    return {"overlay": overlay_summary(overlay), "errors": overlay_errors(overlay).assign(evidence=EVIDENCE)}


def drift(request: ComparisonRequest) -> pd.DataFrame:
    """Return the `drift_table`: what public code does under the names of recipes, on the request's first seeds."""
    return _drift(replace(request, seeds=request.seeds[:DRIFT_SEEDS], recipes=(CONTROL,)))


@kept("Observing every code base's law beside the declared one…")
def _drift(request: ComparisonRequest) -> pd.DataFrame:
    from core.compare.drift_table import drift_table

    check_patience(request, runs=2 * len(VARIANTS))
    return drift_table(request)


def depth_theory(sweep: InteractiveSweep, name: str) -> pd.DataFrame:
    """Return the `depth_overlay_table` of one recipe: predicted and measured adjoints at every finished depth.

    An adjoint is the gradient of the mean loss with respect to a state.
    """
    from core.compare.overlays import depth_overlay_table

    run = SweepRun(sweep.grid, st.session_state[STORE])
    return depth_overlay_table(run.rows(recipe=name), sweep.grid.sizes[0])


def _depth_sweep(request: ComparisonRequest, depths: tuple[int, ...]) -> InteractiveSweep:
    """Return the sweep of a comparison over depths; finished cells are kept while the session asks for the same sweep.

    They are in memory, so a server that cannot write to a disk can compare too.
    """

    def new() -> tuple[SweepGrid, Store]:
        st.session_state[STORE] = Store.open(":memory:")
        return grid_of(request, depths), st.session_state[STORE]

    return session_sweep(SWEEP, (request, depths), new)


def depth_sweep(shown: Shown) -> InteractiveSweep:
    """Compute a part of the sweep over the chosen depths, draw its progress, and return the sweep.

    Sets `shown.unfinished` if the page must run again. Raises `SweepError` for too many depths, and `BudgetError` if
    the sweep cannot run.
    """
    depths = parse_sizes("Depths", controls.DEPTHS.value)
    if len(depths) > MAX_DEPTHS:
        raise SweepError(f"{len(depths)} depths are asked for; give at most {MAX_DEPTHS}, or use the page Depth sweep.")
    sweep = _depth_sweep(shown.request, tuple(sorted(depths)))
    held = bool(st.session_state.get("hold-depths")) and not sweep.complete
    if not sweep.complete and not held:
        if (refusal := sweep.refusal) is not None:
            raise BudgetError(refusal)
        sweep.start()
        with st.spinner("Observing every recipe, depth and seed…"):
            sweep.advance(SLICE_SECONDS)
    if sweep.fault is not None:
        raise BudgetError(sweep.fault)
    if not sweep.complete:
        pace = sweep.pace
        left = "" if pace.seconds_left is None else f", about {pace.seconds_left:.0f} s to go"
        st.progress(pace.share, f"{pace.done} of {pace.total} cells{left}")
        st.toggle("Hold", key="hold-depths", help="Finished cells stay; switch off to go on.")
        shown.unfinished = not held
    return sweep


def recipes_only(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a sweep's table without those of the unscaled control."""
    return table[table["arm"] == INITIALIZED]


def show_graph(shown: Shown, name: str, file: str, title: str) -> None:
    """Draw the last block of a recipe as a diagram, with this file name and title."""
    config = shown.request.config
    draw_block(shown.sheet, file, config, name, config.blocks - 1, shown.request.distribution, title)
