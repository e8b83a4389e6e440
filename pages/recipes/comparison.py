"""Cached calls of `core.recipes` and the sweeps behind a comparison; keys are frozen dataclasses, caches are bounded.

Tables are kept, and of observations the scalars alone. A comparison that would hold the page up is refused beforehand
with what it would take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from core.decoder.recipes import CONTROL, recipe
from core.errors import BudgetError
from core.health.request import ObserveRequest
from core.recipes.card import card
from core.recipes.drift import VARIANTS
from core.recipes.request import ComparisonRequest, comparison_of
from core.sweep.grid import SweepGrid
from core.sweep.interactive import InteractiveSweep
from core.sweep.run import SweepRun
from core.sweep.store import Store
from pages.common.cached import ENTRIES, ObservationKey, start_engine
from pages.common.sweeps import ALLOWANCE, TURNS

if TYPE_CHECKING:
    from core.recipes.combinations import CombinationReport
    from core.recipes.comparison import Comparison

Tables = dict[str, pd.DataFrame]
# A page that answers to nothing for longer than this is no page.
PATIENCE_SECONDS = 30.0
COMPARISONS = 8
DRIFT_SEEDS = 8
# Session entry: the sweep over depths that was shown last.
SWEEP = "recipes over depths"


@dataclass(frozen=True)
class KeptSweep:
    """A sweep and the store that has its cells."""

    sweep: InteractiveSweep
    store: Store


@dataclass(frozen=True)
class ComparisonKey:
    """What decides a comparison: an observation's key, with recipes, seeds and depths in place of one each."""

    shared: ObservationKey
    recipes: tuple[str, ...]
    seeds: tuple[int, ...]
    depths: tuple[int, ...]

    @classmethod
    def of(cls, request: ComparisonRequest) -> ComparisonKey:
        """The key of a request."""
        one = ObserveRequest(
            config=request.config, dtype=request.dtype, device=request.device, batch=request.batch, band=request.band,
            distribution=request.distribution,
        )  # fmt: skip
        return cls(ObservationKey.of(one), request.recipes, request.seeds, request.depths)


def profiles(request: ComparisonRequest) -> Tables:
    """`overview`, `profiles` and the long table `sites` of a comparison at one depth."""
    comparison = _observed(request)
    return _profiles(ComparisonKey.of(request), comparison)


def contributions(request: ComparisonRequest) -> Tables:
    """`contributions` over seeds, of a comparison at one depth."""
    comparison = _observed(request)
    return _contributions(ComparisonKey.of(request), comparison)


def tokens(request: ComparisonRequest, name: str) -> pd.DataFrame:
    """Quantiles over tokens of one recipe's cosines."""
    one = replace(request, recipes=(name,))
    _check(one)
    start_engine()
    return _tokens(ComparisonKey.of(one), one)


def theory(request: ComparisonRequest, name: str) -> Tables:
    """`overlay` and `errors` of one recipe by site."""
    one = replace(request, recipes=(name,))
    comparison = _observed(one)
    return _theory(ComparisonKey.of(one), comparison)


def depth_theory(sweep: InteractiveSweep, name: str) -> pd.DataFrame:
    """The derived terminal adjoint of one recipe at every depth of a sweep, as far as its cells are finished."""
    from core.recipes.overlays import depth_overlay_table

    kept = st.session_state[SWEEP]
    assert kept.sweep is sweep
    return depth_overlay_table(SweepRun(sweep.grid, kept.store).rows(recipe=name), sweep.grid.sizes[0])


def warnings(request: ObserveRequest) -> CombinationReport:
    """Effects and warnings of the request's recipe; only a combination is observed, with and without its parts."""
    if recipe(request.recipe).refusal is None:
        _check(comparison_of(request, (request.recipe,)), runs=1 + len(recipe(request.recipe).parts))
    start_engine()
    return _warnings(ObservationKey.of(request), request)


def drift(request: ComparisonRequest) -> pd.DataFrame:
    """What code bases do under recipes' names, on the request's decoder and its first seeds."""
    few = replace(request, seeds=request.seeds[:DRIFT_SEEDS], recipes=(CONTROL,))
    _check(few, runs=2 * len(VARIANTS))
    start_engine()
    with st.spinner("Observing every code base's law beside the declared one…"):
        return _drift(ComparisonKey.of(few), few)


def depth_sweep(request: ComparisonRequest, depths: Sequence[int]) -> InteractiveSweep:
    """The sweep of a comparison over depths; its finished cells stay as long as the session asks for the same.

    They lie in memory: a comparison is small, and a page that cannot write to a disk still compares.
    """
    grid = _grid(request, depths)
    kept = st.session_state.get(SWEEP)
    if not isinstance(kept, KeptSweep) or kept.sweep.grid.digest != grid.digest:
        if isinstance(kept, KeptSweep):
            kept.sweep.cancel()
        store = Store.open(":memory:")
        kept = st.session_state[SWEEP] = KeptSweep(InteractiveSweep(grid, store, TURNS, ALLOWANCE), store)
    return kept.sweep


def _grid(request: ComparisonRequest, depths: Sequence[int]) -> SweepGrid:
    return SweepGrid(
        blocks=tuple(depths), seeds=request.seeds, recipes=request.recipes, sizes=(request.config,),
        dtypes=(request.dtype,), batches=(request.batch,), device=request.device, distribution=request.distribution,
        band=request.band, budget=request.budget,
    )  # fmt: skip


def _observed(request: ComparisonRequest) -> Comparison:
    _check(request)
    start_engine()
    with st.spinner("Observing every recipe on the same base draws…"):
        return _comparison(ComparisonKey.of(request), request)


def _check(request: ComparisonRequest, runs: int = 1) -> None:
    """Refuse what cannot run, what memory does not hold, and what would take longer than a page's patience.

    `runs` says how many times the request is observed.
    """
    request.check()
    plan = SweepRun(_grid(request, (request.config.blocks,)), Store.open(":memory:"))
    seconds = runs * plan.estimate.seconds
    if seconds > PATIENCE_SECONDS:
        raise BudgetError(
            f"This comparison would take about {seconds:.0f} seconds, and a page may take {PATIENCE_SECONDS:.0f}; "
            "choose fewer seeds or recipes or a smaller decoder, or use the sweep verb."
        )


@st.cache_resource(max_entries=COMPARISONS, show_spinner=False)
def _comparison(key: ComparisonKey, _request: ComparisonRequest) -> Comparison:
    del key
    from core.recipes.comparison import compare_recipes

    return compare_recipes(_request)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _profiles(key: ComparisonKey, _comparison: Comparison) -> Tables:
    from core.recipes.comparison_tables import largest_table, profile_table, share_table
    from core.views.recipe_tables import overview_table, profile_summary

    rows = profile_table(_comparison)
    laws = {name: card(name, key.shared.config).law for name in key.recipes}
    return {
        "overview": overview_table(rows, largest_table(rows), laws),
        "profiles": profile_summary(rows, share_table(rows)),
        "sites": rows,
    }


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _contributions(key: ComparisonKey, _comparison: Comparison) -> Tables:
    del key
    from core.recipes.comparison_tables import contribution_table
    from core.views.recipe_tables import contribution_summary

    return {"contributions": contribution_summary(contribution_table(_comparison))}


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _tokens(key: ComparisonKey, _request: ComparisonRequest) -> pd.DataFrame:
    del key
    from core.recipes.token_cosines import token_cosine_table

    return token_cosine_table(_request)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _theory(key: ComparisonKey, _comparison: Comparison) -> Tables:
    del key
    from core.recipes.overlays import EVIDENCE, overlay_errors, site_overlay_table
    from core.views.recipe_tables import overlay_summary

    overlay = site_overlay_table(_comparison)
    return {"overlay": overlay_summary(overlay), "errors": overlay_errors(overlay).assign(evidence=EVIDENCE)}


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _warnings(key: ObservationKey, _request: ObserveRequest) -> CombinationReport:
    del key
    from core.recipes.combinations import combination_report

    return combination_report(_request)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _drift(key: ComparisonKey, _request: ComparisonRequest) -> pd.DataFrame:
    del key
    from core.recipes.drift_table import drift_table

    return drift_table(_request)
