"""The way from a cell of a sweep to the page Health, with the same decoder, seed, recipe and input."""

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
    """Return the seeds that the heat maps draw, as text."""
    return [str(seed) for seed in grid.seeds[: min(MOST_SEEDS, max(1, MOST_POINTS // len(grid.blocks)))]]


def open_clicked(grid: SweepGrid, axes: Sequence[str], cell: Sequence[Any]) -> None:
    """Callback of a click in a heat map: open the clicked cell."""
    seed, blocks, series = cell[:3]
    open_cell(grid, str(series), int(blocks), str(seed), axes)


def open_cell(grid: SweepGrid, series: str, blocks: int, seed: str, axes: Sequence[str]) -> None:
    """Callback: set the current model to a cell and open the page Health.

    A value that the model's controls do not accept is named in a sentence.
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
    """Draw the depth and seed of a cell and the button that opens it, for visitors without a mouse."""
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom", key="sweep-picker"):
        blocks = int(controls.DEPTH.draw([str(depth) for depth in grid.blocks]))
        seed = controls.SEED.draw([str(seed) for seed in grid.seeds])
        st.button(
            "Open on Health", key="open-cell", icon=":material/monitor_heart:", on_click=open_cell,
            args=(grid, series, blocks, seed, axes),
        )  # fmt: skip


def cell_of(grid: SweepGrid, series: str, blocks: int, axes: Sequence[str]) -> tuple[Setting, str]:
    """Return the setting of a series at a depth, and the recipe that makes its weights."""
    table = series_table(address_table(grid), axes)
    row = table[(table["recipe"] == series) & (table["blocks"] == blocks)].iloc[0]
    return grid.settings[int(row["setting"])], str(row["made_by"])


def control_values(setting: Setting, made_by: str, seed: str) -> dict[str, Any]:
    """Return the values of the model's controls for a cell.

    Raises `DepthscopeError` if a control does not accept its value.
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
