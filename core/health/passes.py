"""Groups recipes into batched passes."""

from __future__ import annotations

from collections.abc import Sequence

from ..recipes.recipe import Recipe


def passes(recipes: Sequence[Recipe]) -> list[list[int]]:
    """Return one list per pass, with the indices into `recipes` of the recipes that run in it.

    Recipes with the same graph share a pass; passes are in order of first appearance. A recipe with a profile step
    (measured shortcuts) runs alone.
    """
    groups: dict[object, list[int]] = {}
    for index, recipe in enumerate(recipes):
        groups.setdefault(index if recipe.profile else recipe.topology, []).append(index)
    return list(groups.values())
