"""Observe several recipes on the same seeds from one base draw; arms that share a graph run in one batched pass.

An *arm* is one recipe on the base draws of all seeds. A *member* is one seed of one arm: one entry of the batched pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..construction.drawn_weights import DrawnWeights
from ..decoder.base_draw import BaseDraw
from ..decoder.batch import Batch
from ..decoder.forward_pass import forward
from ..decoder.profile import Scalars, measured_shortcuts
from ..decoder.progress import Told, silent
from ..decoder.tape import recording
from ..errors import ConfigError, Remedy
from ..recipes.recipe import Recipe
from .observation import Observation, measure
from .passes import passes
from .request import checked_names


@dataclass(frozen=True)
class Arm:
    """The observation of one recipe on every seed; seed number s is member `first + s * stride` of `observation`."""

    recipe: Recipe
    observation: Observation
    first: int
    stride: int

    def member(self, seed: int) -> int:
        """Return the index of a seed's member in `observation`.

        `seed` is the position in the order in which seeds were given.
        """
        return self.first + seed * self.stride


def torch_dtype(name: str) -> torch.dtype:
    """Return the torch dtype of that name. Raises `ConfigError` if the engine does not offer it."""
    checked_names(name, "cpu")
    dtype = getattr(torch, name)
    assert isinstance(dtype, torch.dtype)
    return dtype


def checked_device(device: str) -> str:
    """Return `device` if it is `cpu`, or `cuda` and a CUDA device is present; raises `ConfigError` otherwise."""
    checked_names("float64", device)
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("No CUDA device is present on this machine", Remedy.CPU)
    return device


def observe_arms(
    draw: BaseDraw,
    recipes: Sequence[Recipe],
    batch: Batch,
    *,
    dtype: str = "float64",
    device: str = "cpu",
    contributions: bool = True,
    tokens: bool = False,
    told: Told = silent,
) -> list[Arm]:
    """Measure every recipe on every seed of `draw`; returns one arm per recipe, in the order of `recipes`.

    `tokens` is passed to `measure`. `told(what, done, total)` is called after every block and every site; if there are
    several passes, `what` also names the pass.
    """
    groups = passes(recipes)
    arms: dict[int, Arm] = {}
    for number, indices in enumerate(groups, 1):
        together = [recipes[index] for index in indices]
        place = "" if len(groups) == 1 else f"pass {number} of {len(groups)}, "
        observation = _run(draw, together, batch, dtype, device, contributions, tokens, _placed(told, place))
        for position, index in enumerate(indices):
            arms[index] = Arm(recipes[index], observation, position, len(indices))
    return [arms[index] for index in range(len(recipes))]


def profile_scalars(draw: BaseDraw, recipe: Recipe, batch: Batch, device: str = "cpu") -> Scalars | None:
    """Return the coefficients that a recipe's profile step measures on `batch`, in float64.

    None for a recipe without one.
    """
    if recipe.profile is None:
        return None
    place = checked_device(device)
    return measured_shortcuts(
        recipe.graph(draw.config), lambda scalars: DrawnWeights(draw, [recipe], torch.float64, place, scalars), batch
    )


def _run(
    draw: BaseDraw,
    recipes: Sequence[Recipe],
    batch: Batch,
    dtype: str,
    device: str,
    contributions: bool,
    tokens: bool,
    told: Told,
) -> Observation:
    graphs = [recipe.graph(draw.config) for recipe in recipes]
    kind, place = torch_dtype(dtype), checked_device(device)
    with recording(place):
        scalars = profile_scalars(draw, recipes[0], batch, device)
        weights = DrawnWeights(draw, recipes, kind, place, scalars)
        tape = forward(graphs[0], weights, batch, contributions=contributions, told=told)
        return measure(tape, tokens=tokens, told=told)


def _placed(told: Told, place: str) -> Told:
    """Wrap `told` so that `place` is put before `what` in every call."""
    return told if told is silent or not place else lambda what, done, total: told(place + what, done, total)
