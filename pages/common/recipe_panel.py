"""Warnings about recipes, drawn on every page where recipes are chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import streamlit as st

from core.compare.request import ComparisonRequest, comparison_of
from core.errors import BudgetError, DepthscopeError, RecipeError
from core.health.request import ObserveRequest
from core.recipes.catalogue import recipe
from core.sweep.grid import SweepGrid
from core.sweep.plan import SweepPlan
from pages.common import cached, panels
from pages.common.panels import CAREFUL, escaped

if TYPE_CHECKING:
    from core.compare.combinations import CombinationReport

# A page does not respond while it computes, so a longer comparison is refused.
PATIENCE_SECONDS = 30.0


def checked_names(typed: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the valid names of recipes and combinations, each once, and a list of sentences on the other ones."""
    names: list[str] = []
    refusals: list[str] = []
    said: list[tuple[str, ...]] = []
    for one in typed:
        try:
            name = recipe(one).name
        except RecipeError as error:
            refusals.append(panels.told(RecipeError(error.sentence) if error.ways in said else error))
            said.append(error.ways)
            continue
        if name in names:
            refusals.append(f"{one} is {name}, which is chosen already.")
        else:
            names.append(name)
    return names, refusals


def warn(request: ObserveRequest, names: Sequence[str]) -> None:
    """Draw the warnings about each of the recipes `names` on the request's decoder, if there are any.

    For a combination, also draw how much each of its parts changes.
    """
    for name in names:
        if not (recipe(name).parts or recipe(name).refusal):
            continue
        try:
            report = warnings(replace(request, recipe=name))
        except DepthscopeError as error:
            caution(name, panels.told(error))
            continue
        for warning in report.warnings:
            caution(name, warning.sentence)
        effects = "; ".join(f"{effect.part}: {effect.place}" for effect in report.effects)
        if effects:
            st.caption(f"**{escaped(name)}**, what each part changes. {escaped(effects)}.")


def caution(name: str, sentence: str) -> None:
    """Draw a warning about one recipe, with its name first."""
    st.warning(f"**{escaped(name)}** {escaped(sentence.removeprefix(f'{name}: '))}", icon=CAREFUL)


def warnings(request: ObserveRequest) -> CombinationReport:
    """Return the effects and warnings of the request's recipe; only a combination is run.

    Raises `DepthscopeError` if that cannot be done or takes too long for a page.
    """
    if recipe(request.recipe).refusal is None:
        check_patience(comparison_of(request, (request.recipe,)), runs=1 + len(recipe(request.recipe).parts))
    cached.start_engine()
    return _report(request)


@cached.kept()
def _report(request: ObserveRequest) -> CombinationReport:
    from core.compare.combinations import combination_report

    return combination_report(request)


def check_patience(request: ComparisonRequest, runs: int = 1) -> None:
    """Raise `DepthscopeError` if a comparison cannot run, needs too much memory, or takes too long for a page.

    `runs` is how many times the comparison runs.
    """
    request.check()
    seconds = runs * SweepPlan(grid_of(request, (request.config.blocks,))).seconds
    if seconds > PATIENCE_SECONDS:
        raise BudgetError(
            f"This comparison would take about {seconds:.0f} seconds, and a page may take {PATIENCE_SECONDS:.0f}; "
            "choose fewer seeds or recipes or a smaller decoder, or use the page Depth sweep."
        )


def grid_of(request: ComparisonRequest, depths: Sequence[int]) -> SweepGrid:
    """Return the sweep grid that runs a comparison at every depth in `depths`."""
    return SweepGrid(
        blocks=tuple(depths), seeds=request.seeds, recipes=request.recipes, sizes=(request.config,),
        dtypes=(request.dtype,), batches=(request.batch,), device=request.device, distribution=request.distribution,
        band=request.band, budget=request.budget,
    )  # fmt: skip
