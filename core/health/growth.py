"""How end-to-end ratios grow with depth: one exponent per ratio, fitted over half, full and double depth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..decoder.progress import Told, silent
from ..errors import RecipeError
from ..recipes.recipe import Recipe
from .estimate import check_run
from .request import ObserveRequest
from .seeds import SeedArm, observe_seeds
from .verdict import Growth

# A slope needs two.
LEAST_DEPTHS = 2


def growth_depths(blocks: int) -> tuple[int, ...]:
    """Return the depths `blocks` // 2 (at least 1), `blocks` and 2 `blocks`, in order and without repetition."""
    return tuple(sorted({max(1, blocks // 2), blocks, 2 * blocks}))


def with_growth(request: ObserveRequest, arms: Sequence[SeedArm], *, told: Told = silent) -> list[SeedArm]:
    """Return `arms`, the result of `observe_seeds` for `request`, each with its `growth` set.

    The same seeds are also observed at half and at double depth. An exponent is the least-squares slope of log ratio
    against log blocks over all seeds and depths. The ratios are A_last / A_0 (activation RMS at the last site over that
    at the input) and G_0 / G_last (RMS of the loss gradient at the input over that at the last site). Seeds without
    finite ratios are left out; an exponent is None if fewer than two depths remain. Raises the errors of `check_run`
    for the deepest decoder before anything is drawn.
    """
    depths = growth_depths(request.config.blocks)
    check_run(replace(request, config=replace(request.config, blocks=depths[-1])))
    observed = {
        blocks: _arms_at(request, arms, blocks, told) for blocks in depths if blocks != request.config.blocks
    } | {request.config.blocks: {arm.recipe.name: arm for arm in arms}}
    found = []
    for arm in arms:
        same = {blocks: observed[blocks].get(arm.recipe.name) for blocks in depths}
        found.append(replace(arm, growth=_growth({blocks: one for blocks, one in same.items() if one is not None})))
    return found


def _arms_at(request: ObserveRequest, arms: Sequence[SeedArm], blocks: int, told: Told) -> dict[str, SeedArm]:
    """Return the arms that can run at the depth `blocks`, by recipe."""
    config = replace(request.config, blocks=blocks)
    names = [arm.recipe.name for arm in arms if _runs(arm.recipe, replace(request, config=config))]
    if not names:
        return {}
    # The request's own recipe may need more blocks; those observed are the ones named.
    other = replace(request, config=config, recipe=names[0])
    return {arm.recipe.name: arm for arm in observe_seeds(other, arms[0].seeds, names, told=told)}


def _runs(recipe: Recipe, request: ObserveRequest) -> bool:
    try:
        recipe.graph(request.config)
    except RecipeError:
        return False
    return True


def _growth(arms: dict[int, SeedArm]) -> Growth:
    ends = {
        blocks: (arm.activation_ratio[~arm.refused, -1], arm.adjoint_ratio[~arm.refused, 0])
        for blocks, arm in arms.items()
    }
    activation, adjoint = ({blocks: values[place] for blocks, values in ends.items()} for place in (0, 1))
    return Growth(activation=_exponent(activation), adjoint=_exponent(adjoint), blocks=tuple(arms))


def _exponent(ratios: dict[int, np.ndarray]) -> float | None:
    """Return the slope over depths, or None if it is undefined; ratios that are not positive are left out."""
    kept = {blocks: values[values > 0] for blocks, values in ratios.items() if (values > 0).any()}
    if len(kept) < LEAST_DEPTHS:
        return None
    x = np.concatenate([np.full(len(values), np.log(blocks)) for blocks, values in kept.items()])
    y = np.log(np.concatenate(list(kept.values())))
    x = x - x.mean()
    return float((x @ (y - y.mean())) / (x @ x))
