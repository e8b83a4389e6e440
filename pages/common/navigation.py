"""The pages in the order of the menu; an entry whose script is not there yet is left out.

A page is added by one `Entry` here and its script under `pages/<section>/`. The script's file name is its URL. Controls
of its own stand in `pages/controls/<page>.py` and are named in the entry, so that links, reset and manifests know them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from pages.common import controls as shared
from pages.common.control import Control
from pages.controls import (
    bands,
    depth_sweep,
    initialization,
    lab,
    laptop_plan,
    model_audit,
    published_fixtures,
    recipes,
    residual_health,
    survey,
)

ROOT = Path(__file__).resolve().parents[2]
HOME = "home"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A page: its script, its title in the menu, its own controls, and whether the decoder controls stand beside it.

    `icon` is the name of a Material symbol; Streamlit brings the font along.
    `one_recipe` is false where the page chooses recipes of its own, so that the sidebar's recipe would say nothing.
    """

    script: str
    title: str
    icon: str
    decoder: bool = False
    one_recipe: bool = True
    controls: tuple[Control, ...] = ()

    @property
    def name(self) -> str:
        """The page's name in links and manifests."""
        return Path(self.script).stem

    @property
    def symbol(self) -> str:
        """The icon as Streamlit's `icon` takes it."""
        return f":material/{self.icon}:"

    @property
    def all_controls(self) -> tuple[Control, ...]:
        """The shared controls, where the page has them, and its own."""
        return (*(shared.DECODER if self.decoder else ()), *self.controls)


ENTRIES = (
    Entry(
        script="pages/explore/residual_health.py", title="Residual health", icon="monitor_heart", decoder=True,
        controls=residual_health.CONTROLS,
    ),
    Entry(script="pages/explore/depth_sweep.py", title="Depth sweep", icon="show_chart", controls=depth_sweep.CONTROLS),
    Entry(
        script="pages/explore/recipes.py", title="Recipes", icon="science", decoder=True, one_recipe=False,
        controls=recipes.CONTROLS,
    ),
    Entry(script="pages/audit/model_audit.py", title="Audit a model", icon="search", controls=model_audit.CONTROLS),
    Entry(script="pages/audit/survey.py", title="Survey", icon="view_list", controls=survey.CONTROLS),
    Entry(
        script="pages/learn/published_fixtures.py", title="Published fixtures", icon="menu_book",
        controls=published_fixtures.CONTROLS,
    ),
    Entry(
        script="pages/learn/initialization.py", title="Initialization", icon="casino", controls=initialization.CONTROLS
    ),
    Entry(script="pages/learn/laptop_plan.py", title="Laptop plan", icon="computer", controls=laptop_plan.CONTROLS),
    Entry(script="pages/learn/bands.py", title="Bands", icon="traffic", controls=bands.CONTROLS),
    Entry(
        script="pages/learn/signal_lab.py", title="Signal lab", icon="waves",
        controls=lab.PAGES["signal_lab"].controls,
    ),
    Entry(script="pages/learn/norm_lab.py", title="Norm lab", icon="balance", controls=lab.PAGES["norm_lab"].controls),
    Entry(
        script="pages/learn/residual_paths.py", title="Residual paths", icon="alt_route",
        controls=lab.PAGES["residual_paths"].controls,
    ),
    Entry(script="pages/learn/method_and_limits.py", title="Method and limits", icon="square_foot"),
)  # fmt: skip


def available() -> list[Entry]:
    """The entries whose script exists."""
    return [entry for entry in ENTRIES if (ROOT / entry.script).is_file()]


def entry_named(name: str) -> Entry | None:
    """The available entry of a page's name."""
    return next((entry for entry in available() if entry.name == name), None)


def menu(entries: list[Entry]) -> tuple[st.Page, Entry]:
    """Draw the menu, flat; the page chosen and its entry.

    The landing page stands at the root, where Streamlit leaves its name without a page; a hidden twin answers to it.
    """
    first, *others = entries
    home = st.Page(ROOT / first.script, title=first.title, icon=first.symbol, default=True, url_path=HOME)
    twin = st.Page(ROOT / first.script, title=first.title, url_path=first.name, visibility="hidden")
    pages = [st.Page(ROOT / entry.script, title=entry.title, icon=entry.symbol) for entry in others]
    chosen = st.navigation([home, *pages, twin], expanded=True)
    return chosen, dict(zip((home, *pages, twin), (first, *others, first), strict=True))[chosen]
