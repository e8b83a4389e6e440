"""What the views of the page Recipes share: the comparison asked for, its sheet, its options and its sweep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd
import streamlit as st

from core.decoder.recipes import recipe
from core.errors import BudgetError, GridError
from core.health.columns import INITIALIZED
from core.health.request import ObserveRequest
from core.recipes.card import card
from core.recipes.drawing import drawing
from core.recipes.request import ComparisonRequest
from core.sweep.interactive import InteractiveSweep
from core.sweep.ranges import parse_sizes
from core.views.block_figure import block_figure, block_text, writer_table
from pages.common import cached
from pages.common.control import Control
from pages.common.sheet import Sheet
from pages.recipes import cached as cached_recipes
from pages.recipes import controls

MAX_DEPTHS = 12
SLICE_SECONDS = 2.0


@dataclass
class Shown:
    """What the page was asked for and the sheet it is shown on; `unfinished` says that a sweep has cells to go."""

    base: ObserveRequest
    request: ComparisonRequest
    sheet: Sheet
    unfinished: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The recipes in the order chosen."""
        return self.request.recipes

    @property
    def runnable(self) -> list[str]:
        """Those that run on this decoder."""
        return [name for name in self.names if card(name, self.request.config).refusal is None]


def draw_options(*wanted: Control, among: Sequence[str] = ()) -> None:
    """The controls of a view in one row; a choice of one recipe is offered `among` those."""
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom", key="view-options"):
        for one in wanted:
            if isinstance(one, controls.OneOf):
                one.draw_among(among)
            else:
                one.draw()


def depth_sweep(shown: Shown) -> InteractiveSweep:
    """The sweep over the depths asked for, worked off by a slice; says how far it is and asks for another run."""
    depths = parse_sizes("Depths", controls.DEPTHS.value)
    if len(depths) > MAX_DEPTHS:
        raise GridError(f"{len(depths)} depths are asked for; give at most {MAX_DEPTHS}, or use the page Depth sweep.")
    sweep = cached_recipes.depth_sweep(shown.request, sorted(depths))
    held = bool(st.session_state.get("hold-depths")) and not sweep.complete
    if not sweep.complete and not held:
        if (refusal := sweep.refusal) is not None:
            raise BudgetError(refusal)
        cached.start_engine()
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
    """The rows of a sweep's table without those of the control that stands beside every recipe."""
    return table[table["arm"] == INITIALIZED]


def show_graph(shown: Shown, name: str, file: str, title: str) -> None:
    """The last block of a recipe as a diagram."""
    config = shown.request.config
    last = config.blocks - 1
    nodes, edges = drawing(recipe(name).graph(config), last)
    writers = writer_table(config, name, last, shown.request.distribution)
    shown.sheet.figure(
        file, partial(block_figure, nodes, edges, writers, title=title), alt=f"{title}. {block_text(nodes)}"
    )
