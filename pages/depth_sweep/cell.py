"""From a cell of a sweep (one seed at one depth) to the page Health, with the same decoder, seed and recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from core.errors import DepthscopeError
from core.sweep.grid import Setting, SweepGrid
from core.tables.sweep import address_table, series_table
from pages.common import model_controls as shared
from pages.common import navigation, panels, settings
from pages.common.widgets import assign
from pages.depth_sweep import controls

TARGET = "residual_health"
MOST_POINTS = 4096
MOST_SEEDS = 256


def drawn_seeds(grid: SweepGrid) -> list[str]:
    """Return the seeds that the heat maps show, as text."""
    return [str(seed) for seed in grid.seeds[: min(MOST_SEEDS, max(1, MOST_POINTS // len(grid.blocks)))]]


def open_clicked(grid: SweepGrid, axes: Sequence[str], cell: Sequence[Any]) -> None:
    """Callback of a click in a heat map: open the cell on the page Health; `cell` begins with seed, depth, series."""
    seed, blocks, series = cell[:3]
    open_cell(grid, str(series), int(blocks), str(seed), axes)


def open_cell(grid: SweepGrid, series: str, blocks: int, seed: str, axes: Sequence[str]) -> None:
    """Callback: set the current model to a cell of the sweep and open the page Health.

    If a control of the model does not accept a value, a sentence is shown on this page instead.
    """
    setting, made_by = cell_of(grid, series, blocks, axes)
    try:
        values = control_values(setting, made_by, seed)
    except DepthscopeError as error:
        st.session_state[settings.REFUSAL] = f"Health cannot show that cell. {panels.told(error)}"
        return
    assign(values)
    st.session_state[settings.NEXT_PAGE] = navigation.ENTRIES[TARGET]


def picker(grid: SweepGrid, series: str, axes: Sequence[str]) -> None:
    """Draw menus for depth and seed and the button that opens the cell, for visitors without a mouse."""
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom", key="sweep-picker"):
        blocks = int(controls.DEPTH.draw([str(depth) for depth in grid.blocks]))
        seed = controls.SEED.draw([str(seed) for seed in grid.seeds])
        st.button(
            "Open on Health", key="open-cell", icon=":material/monitor_heart:", on_click=open_cell,
            args=(grid, series, blocks, seed, axes),
        )  # fmt: skip


def cell_of(grid: SweepGrid, series: str, blocks: int, axes: Sequence[str]) -> tuple[Setting, str]:
    """Return the setting of a series at a depth, and the name of the recipe that made its weights."""
    table = series_table(address_table(grid), axes)
    row = table[(table["recipe"] == series) & (table["blocks"] == blocks)].iloc[0]
    return grid.settings[int(row["setting"])], str(row["made_by"])


def control_values(setting: Setting, made_by: str, seed: str) -> dict[str, Any]:
    """Return the values of the model's controls for a (recipe, seed) cell.

    Raises `DepthscopeError` if one is not accepted.
    """
    fits = int(seed) <= int(shared.SEED.upper or 0)
    values: Mapping[str, Any] = {
        "blocks": setting.config.blocks,
        "recipe": made_by,
        "seed": int(seed) if fits else shared.SEED.default,
        "seed64": "" if fits else seed,
    }
    by_name = {control.name: control for control in shared.MODEL}
    return {name: by_name[name].checked(value) for name, value in values.items()}
