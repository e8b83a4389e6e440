"""The model bar at the top of every page: the current model and the buttons Change and Share."""

from __future__ import annotations

import streamlit as st

from core.errors import DepthscopeError, RecipeError
from core.export.manifest import MAX_PINS
from core.recipes.catalogue import recipe
from pages.common import given, model, model_ways, panels, runs, settings
from pages.common import model_controls as controls
from pages.common.navigation import Entry
from pages.common.widgets import Control, draw_beside

# What a link carries is in the address; the browser copies it (`browser.py`).
COPIED = "The link is copied. It carries the model and everything set on this page; files stay here."


def draw(entry: Entry) -> None:
    """Draw the bar; on pages about the model's health also depth, seed and recipe."""
    on_page = _on_page(entry)
    with st.container(border=True, key="model-bar", gap="small"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small", key="model-line"):
            st.markdown(line(), width="stretch")
            pressed = st.button("Change", key="change-model", icon=":material/tune:")
            share()
            if entry.decoder:
                kept = len(settings.pins())
                st.button(
                    f"Keep ({kept}/{MAX_PINS})", key="pin", icon=":material/push_pin:", type="tertiary",
                    on_click=runs.keep, disabled=kept >= MAX_PINS or controls.FAMILY.value is not None,
                )  # fmt: skip
        if on_page:
            draw_beside(on_page, (3, 1.2, 1.8)[-len(on_page) :])
        if controls.RECIPE in on_page and (words := _recipe_caption()):
            st.caption(words)
    if pressed or model_ways.asked():
        model_ways.change(on_page)


def _on_page(entry: Entry) -> tuple[Control, ...]:
    """Return the controls of the bar; a config of the library's has its own depth and initialization."""
    if not entry.decoder:
        return ()
    if controls.FAMILY.value is None:
        return (controls.depth(), controls.SEED, controls.RECIPE if entry.one_recipe else controls.SEEDS)
    return (controls.SEED, controls.SEEDS) if controls.FILE.value else (controls.depth(), controls.SEED, controls.SEEDS)


def line() -> str:
    """Return the current model in one line of Markdown."""
    try:
        library = given.library()
        found = model.current() if library is None else None
    except DepthscopeError as error:
        return "**Your model** cannot be built as it is set now." if controls.FAMILY.value is None else (
            f"**Your config.json, {controls.FAMILY.value}** · {panels.escaped(panels.told(error))}"
        )  # fmt: skip
    if found is None:
        assert library is not None
        return (
            f"**{panels.escaped(library.name)}** · {library.blocks} × {library.width} · initialized by its own code · "
            f"{library.seeds} seeds from {controls.SEED.value}"
        )
    config, request = found.config, found.request
    heads = f"{config.heads} head{'s' if config.heads > 1 else ''}"
    if config.key_value_heads != config.heads:
        heads += f" ({config.key_value_heads} for keys and values)"
    seeds = f"{found.seeds} seeds from {request.seed}" if found.seeds > 1 else f"seed {request.seed}"
    parts = [
        f"{config.blocks} × {config.width}", heads, f"{found.parameters:,} parameters", panels.escaped(request.recipe),
        seeds,
    ]  # fmt: skip
    return f"**{panels.escaped(found.name)}** · " + " · ".join(parts)


@st.fragment
def share() -> None:
    """Draw the button that copies the link; a click on it does not run the page again."""
    if st.button(
        "Share", key="share", icon=":material/link:", type="tertiary", help="Copy a link that carries all of this."
    ):
        st.toast(COPIED, icon=":material/link:")


def _recipe_caption() -> str:
    """Return the law of the chosen recipe as a short text; empty if it has no law or its name is not valid."""
    try:
        chosen = recipe(controls.RECIPE.value)
    except RecipeError:
        return ""
    formulas = ", ".join(dict.fromkeys(law.formula for law in chosen.laws.values()))
    return f"{chosen.title}: {formulas}".replace("*", "\\*") if formulas else ""
