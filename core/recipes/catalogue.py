"""The catalogue: every depth recipe by name.

A recipe has laws and a topology. A law is a factor on a weight matrix, applied once to the random base weights. A
topology says where norms and factors are in the forward pass. In formulas, `L` is the number of blocks, `l` a block
counted from 0, `d` the width. Writers are the matrices that end a branch: the attention output and the feed-forward
down projection. Names joined by `+` combine one topology with laws on writers.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ..errors import RecipeError, Remedy, shown, unknown_name
from ..numerals import SPACES
from .entries.coefficients import COEFFICIENTS
from .entries.encoder_decoder import ENCODER_DECODER
from .entries.graphs import GRAPHS
from .entries.weights import WEIGHTS
from .recipe import JOINT, Recipe, combination

RECIPES: tuple[Recipe, ...] = (*WEIGHTS, *COEFFICIENTS, *GRAPHS, *ENCODER_DECODER)
RUNNABLE = tuple(known.name for known in RECIPES if known.refusal is None)
CONTROL = "unscaled"
DEFAULT = "depth-scaled"
# The place of each recipe among all colours, dashes and markers: those that are compared by default have a colour each.
LOOKS = {
    known.name: place
    for place, known in enumerate(sorted(RECIPES, key=lambda known: len(RECIPES) if known.look is None else known.look))
}
_ORDER = {known.name: index for index, known in enumerate(RECIPES)}


@lru_cache(maxsize=256)
def recipe(name: str) -> Recipe:
    """Return the recipe of that name, or the combination of several names joined by `+`.

    The parts are sorted in the order of `RECIPES`, and `unscaled` adds nothing, so equal combinations have equal names.
    Raises `RecipeError`, with the nearest known name, for an unknown or repeated part or parts that cannot be combined.
    """
    # A plus sign typed into a link's query arrives as a space.
    text = str(name).strip(SPACES)
    wanted = re.split(rf"[{SPACES}]*\{JOINT}[{SPACES}]*|[{SPACES}]", text)
    if len(wanted) > 1 and "" in wanted:
        raise RecipeError(f"The recipe {shown(text)} has an empty part; put one {JOINT} between two names.")
    for part in wanted:
        if part not in _ORDER:
            raise RecipeError(unknown_name("recipe", part, RUNNABLE), Remedy.RECIPES)
    if len(wanted) > 1:
        wanted = sorted((part for part in wanted if part != CONTROL), key=_ORDER.__getitem__) or [CONTROL]
    return combination([RECIPES[_ORDER[part]] for part in wanted])
