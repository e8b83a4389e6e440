"""Controls of the page Recipes: which recipes are compared, and at which depths."""

from __future__ import annotations

from core.compare.request import MAX_RECIPES
from core.recipes.catalogue import RECIPES
from core.recipes.recipe import JOINT
from pages.common.widgets import Control

NAMES = tuple(known.name for known in RECIPES)
MEASURES = ("contribution / stream", "cosine", "contribution RMS", "raw RMS")
COMPARED = Control(
    name="compare", label="Recipes compared", kind="recipes", options=NAMES,
    default=("unscaled", "depth-scaled", "gpt2", "peri-norm", "deepnorm", "completep"),
    placeholder="Choose recipes, or type a combination such as lns+gpt2",
    help=f"Up to {MAX_RECIPES}. Type two names with a {JOINT} between them, such as lns{JOINT}gpt2, and press Enter to "
    "combine a recipe that changes the graph with laws on stored weights.",
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
FOCUS = Control(
    name="compare_focus", label="Recipe looked into", kind="among", default="", width=240,
    help="The recipe that this view is about.",
)  # fmt: skip
FIRST = Control(name="compare_from", label="From", kind="among", default="", width=240)
SECOND = Control(name="compare_to", label="To", kind="among", default="", place=1, width=240)

CONTROLS = (COMPARED, DEPTHS, SPREAD, MEASURE, FOCUS, FIRST, SECOND)
