"""Controls of the page Recipes alone: which recipes are compared, over how many seeds, at which depths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import streamlit as st

from core.decoder.recipe_type import JOINT
from core.decoder.recipes import RECIPES, recipe
from core.errors import RecipeError, shown
from core.recipes.request import MAX_RECIPES
from pages.common.control import Control

NAMES = tuple(known.name for known in RECIPES)
MEASURES = ("contribution / stream", "cosine", "contribution RMS", "raw RMS")


@dataclass(frozen=True, kw_only=True)
class SeveralRecipes(Control):
    """A choice of up to six recipes; a combination is typed with a plus sign between its parts."""

    def draw(self, *, disabled: bool = False, label_visibility: Literal["visible", "collapsed"] = "visible") -> Any:
        """Draw the widget; names as they were chosen or typed, not yet checked."""
        chosen = st.multiselect(
            self.label, self.options, list(self.default), key=self.name, help=self.help, disabled=disabled,
            max_selections=MAX_RECIPES, accept_new_options=True, persist_state="session", bind="query-params",
            placeholder=self.placeholder, label_visibility=label_visibility, select_all=False,
            wrap=True,
        )  # fmt: skip
        return tuple(chosen)

    @property
    def value(self) -> tuple[str, ...]:
        """The names now."""
        value = st.session_state.get(self.name)
        return tuple(self.default if value is None else value)

    def checked(self, value: object) -> Any:
        """Names from a file; raises `RecipeError`."""
        if not isinstance(value, list | tuple) or len(value) > MAX_RECIPES:
            raise RecipeError(f"{self.name} is {shown(value)}; it must be a list of at most {MAX_RECIPES} recipes.")
        return [recipe(str(name)).name for name in value]

    @property
    def rule(self) -> str:
        """What a link may ask for."""
        return f"a list of at most {MAX_RECIPES} recipes"


@dataclass(frozen=True, kw_only=True)
class OneOf(Control):
    """One of the recipes that the page shows now; empty stands for the first, or the one that `place` counts to."""

    place: int = 0

    def draw_among(self, options: Sequence[str]) -> str:
        """Draw the widget with the recipes of this run; the name chosen."""
        if st.session_state.get(self.name) not in (None, *options):
            del st.session_state[self.name]
        first = min(self.place, len(options) - 1)
        return str(
            st.selectbox(
                self.label,
                options,
                first,
                key=self.name,
                help=self.help,
                persist_state="session",
                bind="query-params",
                width=self.width or "stretch",
            )
        )

    def checked(self, value: object) -> Any:
        """A name from a file; raises `RecipeError`."""
        if value == self.default:
            return value
        return recipe(str(value)).name

    @property
    def rule(self) -> str:
        """What a link may ask for."""
        return "one of the recipes that are compared"


COMPARED = SeveralRecipes(
    name="compare", label="Recipes compared", kind="choice", options=NAMES,
    default=("unscaled", "depth-scaled", "gpt2", "peri-norm", "deepnorm", "completep"),
    placeholder="Choose recipes, or type a combination such as lns+gpt2",
    help=f"Up to {MAX_RECIPES}. Type two names with a {JOINT} between them, such as lns{JOINT}gpt2, and press Enter to "
    "combine a recipe that changes the graph with laws on stored weights.",
)  # fmt: skip
SEEDS = Control(
    name="compare_seeds", label="Seeds", kind="whole", default=32, lower=1, upper=256, step=1,
    help="Consecutive seeds from the sidebar's seed on. All recipes of a seed share its base draw.",
)  # fmt: skip
DEPTHS = Control(
    name="compare_depths", label="Depths", kind="text", default="2,4,8,16,32", placeholder="2,4,8,16,32", width=220,
    help="Blocks at which ratios are observed for the view Against depth, at most twelve.",
)  # fmt: skip
SPREAD = Control(
    name="compare_spread", label="Spread of seeds", kind="toggle", default=False,
    help="Fill 5 to 95 % of seeds behind each median.",
)  # fmt: skip
MEASURE = Control(
    name="compare_measure", label="Measure", kind="segments", default=MEASURES[0], options=MEASURES,
)  # fmt: skip
FOCUS = OneOf(
    name="compare_focus", label="Recipe looked into", kind="choice", default="", width=240,
    help="The recipe that this view is about.",
)  # fmt: skip
FIRST = OneOf(name="compare_from", label="From", kind="choice", default="", width=240)
SECOND = OneOf(name="compare_to", label="To", kind="choice", default="", place=1, width=240)

CONTROLS: tuple[Control, ...] = (COMPARED, SEEDS, DEPTHS, SPREAD, MEASURE, FOCUS, FIRST, SECOND)
