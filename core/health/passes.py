"""Decide which recipes run in one batched pass."""

from __future__ import annotations

from collections.abc import Sequence

from ..recipes.recipe import Recipe


def passes(recipes: Sequence[Recipe]) -> list[list[int]]:
    """Return the indices of the recipes of each pass.

    Recipes of one topology share a pass, in order of first appearance. A recipe with a profile step measures its own
    members, so it runs alone.
    """
    groups: dict[object, list[int]] = {}
    for index, recipe in enumerate(recipes):
        groups.setdefault(index if recipe.profile else recipe.topology, []).append(index)
    return list(groups.values())
