"""Warnings beside every place where recipes are chosen, computed from the arms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from core.decoder.recipes import recipe
from core.errors import DepthscopeError, RecipeError
from core.health.request import ObserveRequest
from pages.common.panels import CAREFUL, escaped
from pages.recipes import cached as cached_recipes


def checked_names(typed: Sequence[str]) -> tuple[list[str], list[str]]:
    """Names of recipes and combinations as the core writes them, each once, and a sentence for each that is none."""
    names: list[str] = []
    refusals: list[str] = []
    for one in typed:
        try:
            name = recipe(one).name
        except RecipeError as error:
            what, _, way_out = str(error).partition("; ")
            said = any(way_out in sentence for sentence in refusals)
            refusals.append(f"{what}." if said else str(error))
            continue
        if name in names:
            refusals.append(f"{one} is {name}, which is chosen already.")
        else:
            names.append(name)
    return names, refusals


def warn(request: ObserveRequest, names: Sequence[str]) -> None:
    """Show why to think again about each of `names` on the request's decoder; nothing where there is no reason.

    A combination also shows by how much each of its parts changes the observation.
    """
    for name in names:
        if not (recipe(name).parts or recipe(name).refusal):
            continue
        try:
            report = cached_recipes.warnings(replace(request, recipe=name))
        except DepthscopeError as error:
            caution(name, str(error))
            continue
        for warning in report.warnings:
            caution(name, warning.sentence)
        effects = "; ".join(f"{effect.part}: {effect.place}" for effect in report.effects)
        if effects:
            st.caption(f"**{escaped(name)}**, what each part changes. {escaped(effects)}.")


def caution(name: str, sentence: str) -> None:
    """A warning about one recipe, led by its name."""
    st.warning(f"**{escaped(name)}** {escaped(sentence.removeprefix(f'{name}: '))}", icon=CAREFUL)
