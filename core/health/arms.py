"""Observes several recipes on the same seeds from one base draw; recipes with the same graph share a batched pass.

An *arm* is one recipe on the base draws of all seeds. A *member* is one seed of one arm: one entry of the batched pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from ..construction.drawn_weights import DrawnWeights
from ..construction.tiled_weights import TiledWeights
from ..decoder.base_draw import BaseDraw
from ..decoder.batch import Batch
from ..decoder.forward_pass import forward
from ..decoder.profile import Done, Scalars, computed, measured_shortcuts
from ..decoder.progress import Told, silent
from ..decoder.splitmix64 import FloatArray
from ..decoder.tape import recording
from ..decoder.weights import WeightProvider
from ..errors import ConfigError, Remedy
from ..recipes.recipe import Recipe
from .block_driver import COUNTED, BlockRun
from .block_records import Journal, Records
from .estimate import Estimate, usable_memory
from .observation import Observation, measure
from .passes import passes
from .request import checked_names

# What makes the weights of a pass: `DrawnWeights` or `TiledWeights`.
Drawn = Callable[[BaseDraw, Sequence[Recipe], torch.dtype, str, Scalars | None], WeightProvider]


@dataclass(frozen=True)
class Arm:
    """The observation of one recipe on every seed.

    Seed number s, counted from 0 in the order given, is member `first + s * stride` of `observation`.
    """

    recipe: Recipe
    observation: Observation
    first: int
    stride: int

    def member(self, seed: int) -> int:
        """Return the index of a seed's member in `observation`.

        `seed` is the position in the order in which seeds were given.
        """
        return self.first + seed * self.stride


@dataclass(frozen=True)
class ByBlock:
    """Options of an observation that runs block by block; see `core.health.block_driver`.

    `graph_room` is the number of bytes of autograd graphs that may be kept from the forward pass. `journal(number)`
    returns the store of finished steps of pass `number`, counted from 1. `seen(recipes, activation, adjoint)` is called
    after every block with the recipes of the pass and the RMS at every site: `[E, S]` each for E members and S sites,
    NaN at sites not reached yet. Members are ordered by seed, then by recipe.
    """

    graph_room: int = 0
    journal: Callable[[int], Journal] | None = None
    seen: Callable[[Sequence[Recipe], FloatArray, FloatArray], None] | None = None


@dataclass(frozen=True)
class _Asked:
    dtype: torch.dtype
    device: str
    contributions: bool
    tokens: bool


def by_block_of(cost: Estimate) -> ByBlock | None:
    """Return how the request of an estimate is observed block by block.

    None if it is observed as a whole (driver `graph`). Autograd graphs of blocks may use the memory that the rest of
    the run leaves free.
    """
    if cost.request.driver == "graph":
        return None
    return ByBlock(graph_room=max(0, usable_memory(cost.request) - cost.total_bytes))


def torch_dtype(name: str) -> torch.dtype:
    """Return the torch dtype named `name`, such as `float32`. Raises `ConfigError` if it is not offered."""
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
    by_block: ByBlock | None = None,
    told: Told = silent,
) -> list[Arm]:
    """Observe every recipe on every seed of `draw`; return one `Arm` per recipe, in the order of `recipes`.

    `contributions` also measures what each branch adds. `tokens` also measures the RMS of single tokens. With
    `by_block` the decoder is run one block at a time and never exists as a whole. `told(what, done, total)` is the
    progress callback, called after every block, and after every site in the reverse pass of a whole decoder; with
    several passes, `what` begins with the number of the pass. Raises `ConfigError` for a dtype or device that is not
    offered.
    """
    asked = _Asked(torch_dtype(dtype), checked_device(device), contributions, tokens)
    groups = passes(recipes)
    arms: dict[int, Arm] = {}
    for number, indices in enumerate(groups, 1):
        together = [recipes[index] for index in indices]
        place = "" if len(groups) == 1 else f"pass {number} of {len(groups)}, "
        if by_block is None:
            observation = _whole(draw, together, batch, asked, _placed(told, place))
        else:
            observation = _by_block(draw, together, batch, asked, by_block, number, _placed(told, place))
        for position, index in enumerate(indices):
            arms[index] = Arm(recipes[index], observation, position, len(indices))
    return [arms[index] for index in range(len(recipes))]


def profile_scalars(
    draw: BaseDraw,
    recipe: Recipe,
    batch: Batch,
    device: str = "cpu",
    done: Done = computed,
    drawn: Drawn = DrawnWeights,
) -> Scalars | None:
    """Return the shortcut coefficients that a recipe's profile step measures on `batch`: float64, by block and key.

    None for a recipe without such a step. `done(name, compute)` returns the result of a step, computed or stored;
    `drawn` is the class that provides the weights.
    """
    if recipe.profile is None:
        return None
    place = checked_device(device)

    def weights(scalars: Scalars) -> WeightProvider:
        return drawn(draw, [recipe], torch.float64, place, scalars)

    return measured_shortcuts(recipe.graph(draw.config), weights, batch, done)


def _whole(draw: BaseDraw, recipes: Sequence[Recipe], batch: Batch, asked: _Asked, told: Told) -> Observation:
    graph = recipes[0].graph(draw.config)
    with recording(asked.device):
        scalars = profile_scalars(draw, recipes[0], batch, asked.device)
        weights = DrawnWeights(draw, recipes, asked.dtype, asked.device, scalars)
        tape = forward(graph, weights, batch, contributions=asked.contributions, told=told)
        return measure(tape, tokens=asked.tokens, told=told)


def _by_block(
    draw: BaseDraw,
    recipes: Sequence[Recipe],
    batch: Batch,
    asked: _Asked,
    by_block: ByBlock,
    number: int,
    told: Told,
) -> Observation:
    graph = recipes[0].graph(draw.config)
    records = Records(graph, None if by_block.journal is None else by_block.journal(number))
    # A draw that is kept is read twice at no cost; tiles are drawn where CPUs multiply.
    drawn: Drawn = DrawnWeights if draw.is_kept or asked.device != "cpu" else TiledWeights
    scalars = profile_scalars(draw, recipes[0], batch, asked.device, records.done, drawn)
    run = BlockRun(
        graph,
        drawn(draw, recipes, asked.dtype, asked.device, scalars),
        batch,
        contributions=asked.contributions,
        tokens=asked.tokens,
        graph_room=by_block.graph_room,
        records=records,
        device=asked.device,
    )
    for done in run.steps():
        told(COUNTED, done, run.total)
        if by_block.seen is not None:
            by_block.seen(recipes, *run.profile())
    return run.observation()


def _placed(told: Told, place: str) -> Told:
    """Wrap `told` so that `place` is put before `what` in every call."""
    return told if told is silent or not place else lambda what, done, total: told(place + what, done, total)
