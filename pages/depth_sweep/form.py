"""The top of the page Depth sweep: the form, the estimate, the buttons Run and Cancel, and the progress."""

from __future__ import annotations

import os
from collections.abc import Sequence

import streamlit as st

from core.health.request import ObserveRequest
from core.sweep.grid import SweepGrid
from core.sweep.interactive import InteractiveSweep
from core.sweep.store import Store, default_store
from core.tables.sweep_words import allowance_sentence, cost_figures, grid_sentence, pace_sentence
from pages.common import cached, panels, recipe_panel
from pages.common.sweeps import ALLOWANCE, session_sweep
from pages.common.widgets import draw_beside, values_of
from pages.depth_sweep import controls

# Session entry: the last request, with its sweep.
SWEEP = "sweep"
TICK_SECONDS = 0.05
ESTIMATED = "Estimated from the sizes alone, within a factor of about two. Nothing was run yet."
GOES_ON = "What has finished is stored and shown below; only the missing cells are computed."


def form() -> Sequence[str]:
    """Draw the form; return the valid names of the recipes that the visitor chose in it."""
    with st.form("sweep-form"):
        draw_beside((controls.BLOCKS, controls.SEEDS))
        controls.RECIPES.draw()
        st.form_submit_button("Set and estimate", key="sweep-set", icon=":material/straighten:")
    names, refused = recipe_panel.checked_names(controls.RECIPES.value)
    for sentence in refused:
        panels.refusal(sentence)
    return names


def sweep_of(names: Sequence[str], base: ObserveRequest) -> InteractiveSweep:
    """Return the session's sweep of the recipes `names` on a model, with the store that the command line uses too.

    The store is in the user's cache folder, or where DEPTHSCOPE_STORE pointed when the server was started; no page and
    no link can change that. Raises `DepthscopeError` if the sweep is not valid.
    """
    values = values_of(controls.AXES)

    def new() -> tuple[SweepGrid, Store]:
        grid = controls.grid_of(values, names, base, ALLOWANCE.cells)
        ALLOWANCE.check(grid)
        return grid, Store.open(default_store(os.environ))

    asked = (values["sweep_blocks"], values["sweep_seeds"], tuple(names), base)
    return session_sweep(SWEEP, asked, new)


def warnings(sweep: InteractiveSweep) -> None:
    """Draw the warnings about combinations of recipes, at the largest depth of the sweep."""
    grid = sweep.grid
    setting = max(grid.settings[: len(grid.blocks)], key=lambda setting: setting.config.blocks)
    base = ObserveRequest(
        config=setting.config, seed=grid.seeds[0], dtype=setting.dtype, batch=setting.batch,
        distribution=grid.distribution,
    )  # fmt: skip
    recipe_panel.warn(base, grid.recipes)


def state(sweep: InteractiveSweep) -> None:
    """Draw the estimate and the button Run, or the progress and the button Cancel, or that all cells are finished."""
    if sweep.fault is not None:
        panels.refusal(sweep.fault)
    if sweep.running:
        _progress(sweep)
    elif sweep.complete:
        panels.outcome(f"Complete: {pace_sentence(sweep.pace)}, {sweep.refused:,} refused.", good=True)
    else:
        _offer(sweep)
    with st.expander("What is swept, and what this page grants"):
        st.markdown(panels.escaped(grid_sentence(sweep.grid)))
        st.caption(panels.escaped(allowance_sentence(sweep)))


def go_on(sweep: InteractiveSweep) -> None:
    """Compute cells of the sweep for a short time, then run the page again; call it at the end of the script."""
    cached.start_engine()
    sweep.advance()
    _draw_again()


def _draw_again() -> None:
    """Run the script again when this run has ended; call it at the end of the run.

    `st.rerun` would end the run early here, and a browser then keeps the figures of every such run on the page.
    """
    drawn: list[bool] = []

    @st.fragment(run_every=TICK_SECONDS)
    def tick() -> None:
        # The first call belongs to this run, the next one to the timer.
        if drawn:
            st.rerun()
        drawn.append(True)

    tick()


def _offer(sweep: InteractiveSweep) -> None:
    refusal, begun = sweep.refusal, sweep.done > sweep.planned_refusals
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom", key="sweep-estimate"):
        for label, value in cost_figures(sweep.total, sweep.estimate, sweep.rows).items():
            st.metric(label, value, width="content")
    with st.container(horizontal=True, gap="medium", vertical_alignment="center", key="sweep-run-row"):
        st.button(
            "Continue" if begun else "Run", key="sweep-run", type="primary", icon=":material/play_arrow:",
            on_click=sweep.start, disabled=refusal is not None,
        )  # fmt: skip
        st.markdown(GOES_ON if begun else ESTIMATED)
    if refusal is not None:
        panels.refusal(refusal)


def _progress(sweep: InteractiveSweep) -> None:
    pace = sweep.pace
    st.progress(pace.share, text=panels.escaped(pace_sentence(pace)))
    st.button("Cancel", key="sweep-cancel", icon=":material/stop:", on_click=sweep.cancel)
