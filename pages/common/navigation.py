"""The pages in the order of the menu, with its headings.

A page is one `Entry` here and one folder `pages/<page>/`. Its script is `<page>.py`, and that name is in its URL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from pages.bands import controls as bands
from pages.common import model_controls as shared
from pages.common.lab_controls import PAGES
from pages.common.widgets import Control
from pages.depth_sweep import controls as depth_sweep
from pages.initialization import controls as initialization
from pages.method_and_limits import controls as method_and_limits
from pages.model_audit import controls as model_audit
from pages.published_fixtures import controls as published_fixtures
from pages.recipes import controls as recipes
from pages.residual_health import controls as residual_health
from pages.survey import controls as survey

ROOT = Path(__file__).resolve().parents[2]
HOME = "home"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A page: its name in links and manifests, its title, its place in the menu, and its controls.

    `section` is its heading and `menu` its text in the menu, by default the title. `purpose` is one line on what the
    page is for, and `icon` the name of a Material symbol. `decoder` is True if the page draws depth and seed;
    `one_recipe` is False if it does not use the model's recipe but chooses recipes itself.
    """

    name: str
    title: str
    section: str
    purpose: str
    icon: str
    menu: str = ""
    decoder: bool = False
    one_recipe: bool = True
    controls: tuple[Control, ...] = ()

    @property
    def script(self) -> Path:
        """The path of the page's script."""
        return ROOT / "pages" / self.name / f"{self.name}.py"

    @property
    def symbol(self) -> str:
        """The icon in the form that Streamlit expects."""
        return f":material/{self.icon}:"

    @property
    def all_controls(self) -> tuple[Control, ...]:
        """The controls of the current model, then those of the page."""
        return (*shared.MODEL, *self.controls)


YOUR_MODEL, FIELD, LEARN = "Your model", "Field", "Learn"
ENTRIES: Mapping[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            name="residual_health", title="Health", section=YOUR_MODEL, icon="monitor_heart", decoder=True,
            purpose="Whether the depth is safe at initialization, by how much, and what would change it.",
            controls=residual_health.CONTROLS,
        ),
        Entry(
            name="recipes", title="Recipes", section=YOUR_MODEL, icon="science", decoder=True, one_recipe=False,
            purpose="What each depth recipe changes, and what it does to this model.", controls=recipes.CONTROLS,
        ),
        Entry(
            name="depth_sweep", title="Depth sweep", section=YOUR_MODEL, icon="show_chart",
            purpose="How the ratios grow with depth, over many seeds.", controls=depth_sweep.CONTROLS,
        ),
        Entry(
            name="model_audit", title="Audit a model", menu="Audit", section=YOUR_MODEL, icon="search", decoder=True,
            one_recipe=False,
            purpose="Whether a real model's code initializes it as its recipe says.", controls=model_audit.CONTROLS,
        ),
        Entry(
            name="laptop_plan", title="Plan", section=YOUR_MODEL, icon="computer",
            purpose="Parameters and bytes, exactly, with nothing allocated.",
        ),
        Entry(
            name="survey", title="Survey", section=FIELD, icon="view_list",
            purpose="What the audit finds in every language model of one library.", controls=survey.CONTROLS,
        ),
        Entry(
            name="tours", title="Tours", section=LEARN, icon="explore",
            purpose="Guided walks, a setting and two sentences at each stop.",
        ),
        Entry(
            name="published_fixtures", title="Published fixtures", section=LEARN, icon="menu_book",
            purpose="Four fixed decoders beside their published numbers.", controls=published_fixtures.CONTROLS,
        ),
        Entry(
            name="initialization", title="Initialization", section=LEARN, icon="casino",
            purpose="One Xavier matrix against its law, with its histogram.", controls=initialization.CONTROLS,
        ),
        Entry(
            name="bands", title="Bands", section=LEARN, icon="traffic",
            purpose="What counts as too small or too large a ratio.", controls=bands.CONTROLS,
        ),
        Entry(
            name="signal_lab", title="Signal lab", section=LEARN, icon="waves", controls=PAGES["signal_lab"].controls,
            purpose="How a signal's size travels through layers.",
        ),
        Entry(
            name="norm_lab", title="Norm lab", section=LEARN, icon="balance", controls=PAGES["norm_lab"].controls,
            purpose="What normalization does, and where it breaks.",
        ),
        Entry(
            name="residual_paths", title="Residual paths", section=LEARN, icon="alt_route",
            purpose="How gradients find their way along the shortcut.", controls=PAGES["residual_paths"].controls,
        ),
        Entry(
            name="method_and_limits", title="Method and limits", menu="Method and glossary", section=LEARN,
            icon="square_foot", purpose="Definitions, limits, practice questions and every term.",
            controls=method_and_limits.CONTROLS,
        ),
    )
}  # fmt: skip


def menu() -> tuple[st.Page, Entry]:
    """Draw the menu with its headings; return the chosen page as a Streamlit page and as an `Entry`.

    The first page has no name in the URL, so a hidden second page has its name. Links are drawn in place of Streamlit's
    own menu, which screen readers cannot read.
    """
    first, *others = ENTRIES.values()
    home = st.Page(first.script, title=first.title, icon=first.symbol, default=True, url_path=HOME)
    twin = st.Page(first.script, title=first.title, url_path=first.name, visibility="hidden")
    pages = [st.Page(entry.script, title=entry.title, icon=entry.symbol) for entry in others]
    chosen = st.navigation([home, *pages, twin], position="hidden")
    with st.sidebar, st.container(gap="xxsmall", key="menu"):
        section = ""
        for page, entry in zip((home, *pages), ENTRIES.values(), strict=True):
            if entry.section != section:
                section = entry.section
                st.markdown(f"**{section}**")
            st.page_link(page, label=entry.menu or entry.title, icon=entry.symbol)
    return chosen, dict(zip((home, *pages, twin), (first, *others, first), strict=True))[chosen]
