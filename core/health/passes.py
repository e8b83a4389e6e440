"""Which recipes run in one batched pass."""

from __future__ import annotations

from collections.abc import Sequence

from ..recipes.recipe import Recipe


def passes(recipes: Sequence[Recipe]) -> list[list[int]]:
    """Indices of the recipes of each pass: those of one topology together, in the order of their first.

    A profile step measures its own members, so a recipe with one runs by itself.
    """
    groups: dict[object, list[int]] = {}
    for index, recipe in enumerate(recipes):
        groups.setdefault(index if recipe.profile else recipe.topology, []).append(index)
    return list(groups.values())
