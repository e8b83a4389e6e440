"""The pages in the order of the menu.

A page is one `Entry` here and one folder `pages/<page>/`: its script `<page>.py`, whose name is the page's URL, and
what belongs to it. Its own controls stand in its `controls.py` and are named in the entry, so that links, reset and
manifests know them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from pages.bands import controls as bands
from pages.common import decoder_controls as shared
from pages.common.lab_controls import PAGES
from pages.common.widgets import Control
from pages.depth_sweep import controls as depth_sweep
from pages.initialization import controls as initialization
from pages.laptop_plan import controls as laptop_plan
from pages.model_audit import controls as model_audit
from pages.published_fixtures import controls as published_fixtures
from pages.recipes import controls as recipes
from pages.residual_health import controls as residual_health
from pages.survey import controls as survey

ROOT = Path(__file__).resolve().parents[2]
HOME = "home"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A page: its name in links and manifests, its title in the menu, and its own controls.

    `icon` is the name of a Material symbol; Streamlit brings the font along. `decoder` says whether the decoder
    controls stand beside it; `one_recipe` is false where the page chooses recipes itself, so that the sidebar's
    recipe would say nothing.
    """

    name: str
    title: str
    icon: str
    decoder: bool = False
    one_recipe: bool = True
    controls: tuple[Control, ...] = ()

    @property
    def script(self) -> Path:
        """The page's script."""
        return ROOT / "pages" / self.name / f"{self.name}.py"

    @property
    def symbol(self) -> str:
        """The icon as Streamlit's `icon` takes it."""
        return f":material/{self.icon}:"

    @property
    def all_controls(self) -> tuple[Control, ...]:
        """The shared controls, where the page has them, and its own."""
        return (*(shared.DECODER if self.decoder else ()), *self.controls)


ENTRIES: Mapping[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            name="residual_health", title="Residual health", icon="monitor_heart", decoder=True,
            controls=residual_health.CONTROLS,
        ),
        Entry(name="depth_sweep", title="Depth sweep", icon="show_chart", controls=depth_sweep.CONTROLS),
        Entry(
            name="recipes", title="Recipes", icon="science", decoder=True, one_recipe=False, controls=recipes.CONTROLS
        ),
        Entry(name="model_audit", title="Audit a model", icon="search", controls=model_audit.CONTROLS),
        Entry(name="survey", title="Survey", icon="view_list", controls=survey.CONTROLS),
        Entry(
            name="published_fixtures", title="Published fixtures", icon="menu_book",
            controls=published_fixtures.CONTROLS,
        ),
        Entry(name="initialization", title="Initialization", icon="casino", controls=initialization.CONTROLS),
        Entry(name="laptop_plan", title="Laptop plan", icon="computer", controls=laptop_plan.CONTROLS),
        Entry(name="bands", title="Bands", icon="traffic", controls=bands.CONTROLS),
        Entry(name="signal_lab", title="Signal lab", icon="waves", controls=PAGES["signal_lab"].controls),
        Entry(name="norm_lab", title="Norm lab", icon="balance", controls=PAGES["norm_lab"].controls),
        Entry(
            name="residual_paths", title="Residual paths", icon="alt_route", controls=PAGES["residual_paths"].controls
        ),
        Entry(name="method_and_limits", title="Method and limits", icon="square_foot"),
    )
}  # fmt: skip


def menu() -> tuple[st.Page, Entry]:
    """Draw the menu, flat; the page chosen and its entry.

    The landing page stands at the root, where Streamlit leaves its name without a page; a hidden twin answers to it.
    """
    first, *others = ENTRIES.values()
    home = st.Page(first.script, title=first.title, icon=first.symbol, default=True, url_path=HOME)
    twin = st.Page(first.script, title=first.title, url_path=first.name, visibility="hidden")
    pages = [st.Page(entry.script, title=entry.title, icon=entry.symbol) for entry in others]
    chosen = st.navigation([home, *pages, twin], expanded=True)
    return chosen, dict(zip((home, *pages, twin), (first, *others, first), strict=True))[chosen]
