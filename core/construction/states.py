"""Turns random base parameters into a finished decoder, in three steps.

- `FreshInitialization.prepare` draws, without advancing the caller's generator.
- `FreshInitialization.complete` applies a recipe (depth rule) once and then advances the generator.
- `restore` takes stored values exactly as they are, without drawing or scaling.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch

from ..decoder.base_draw import XAVIER, BaseDraw, Distribution
from ..decoder.batch import Batch
from ..decoder.config import Budget, DecoderConfig
from ..decoder.graph import Graph
from ..decoder.parameters import layout
from ..decoder.profile import measured_shortcuts
from ..decoder.splitmix64 import FloatArray, SplitMix64
from ..decoder.tape import recording
from ..decoder.weights import StoredWeights
from ..errors import ConstructionError, RecipeError
from ..recipes.catalogue import CONTROL, DEFAULT, recipe
from ..recipes.recipe import Recipe
from .drawn_weights import UNCHANGED, Transform
from .record import ConstructionRecord, Shortcuts

Parameters = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Decoder:
    """A finished decoder: its parameters by name, float64 leaf tensors in the order of `layout`.

    `source` is how they were made: drawn and scaled ("initialized") or read back ("restored").
    """

    parameters: Parameters = field(repr=False)
    record: ConstructionRecord
    source: Literal["initialized", "restored"]

    @property
    def config(self) -> DecoderConfig:
        """The sizes of the decoder."""
        return self.record.config

    def arrays(self) -> dict[str, FloatArray]:
        """Return the parameters as NumPy arrays by name; they share memory with the tensors in `parameters`."""
        return {name: leaf.detach().numpy() for name, leaf in self.parameters.items()}


@dataclass(frozen=True)
class Fresh:
    """A request for new random parameters: the sizes, the limits on them, and the distribution to draw from.

    `FreshInitialization` accepts nothing else, so that weights which already have their scale cannot be scaled again.
    """

    config: DecoderConfig
    budget: Budget = field(default_factory=Budget)
    distribution: Distribution = XAVIER


class FreshInitialization:
    """Base parameters, drawn but not yet scaled; `complete` makes a decoder of them, `drop` discards them.

    The caller's generator does not advance before `complete`.
    """

    @recording()
    def __init__(self, request: Fresh, generator: SplitMix64) -> None:
        self.config, self._generator = request.config, generator
        request.budget.check(self.config, layout(self.config).parameters)
        self._draw = BaseDraw(self.config, [generator.state], request.distribution)
        self.parameters: dict[str, torch.Tensor] | None = _leaves(self._draw)
        self._marks = {name: _mark(leaf) for name, leaf in self.parameters.items()}

    @classmethod
    def prepare(cls, request: Fresh, generator: SplitMix64) -> FreshInitialization:
        """Return the base parameters drawn from the state of `generator`, which does not advance.

        Raises `BudgetError` before the draw if the sizes exceed the budget.
        """
        return cls(request, generator)

    def drop(self) -> None:
        """Discard the base parameters; the caller's generator is unchanged."""
        self.parameters = None

    @recording()
    def control(self) -> Decoder:
        """Return a `Decoder` with a copy of the unscaled base parameters; the generator does not advance.

        Raises `ConstructionError` after `complete` or `drop`.
        """
        copies = {name: leaf.detach().clone().requires_grad_() for name, leaf in self._fresh_parameters().items()}
        return Decoder(copies, construction_record(self._draw, recipe(CONTROL)), "initialized")

    @recording()
    def complete(self, chosen: Recipe | str = DEFAULT, batch: Batch | None = None) -> Decoder:
        """Return the `Decoder` of a recipe on these base parameters, and advance the caller's generator past the draw.

        Parameters that the recipe does not change are the same tensors. Raises `ConstructionError`, before anything is
        changed, if the parameters were completed or dropped before, do not have the layout of the sizes, or have
        changed or got a nonzero gradient since `prepare`. A recipe with a profile step measures its shortcut
        coefficients on `batch`, and raises `RecipeError` without one.
        """
        chosen = recipe(chosen) if isinstance(chosen, str) else chosen
        graph = chosen.graph(self.config)
        if chosen.profile is not None and batch is None:
            raise RecipeError(f"The recipe {chosen.name} measures its shortcuts on a batch; give one.")
        base = self._fresh_parameters()
        check_layout(self.config, base)
        for name, leaf in base.items():
            if _mark(leaf) != self._marks[name] or (leaf.grad is not None and bool((leaf.grad != 0).any())):
                raise ConstructionError(
                    f"The parameter {name} changed or carries a gradient since it was drawn; prepare again."
                )
        stored = dict(base)
        for spec in self._draw.layout:
            transform = Transform.of(chosen, spec, spec.block or 0, self.config, self._draw.distribution)
            if transform != UNCHANGED:
                values = transform(base[spec.name].detach().numpy())
                stored[spec.name] = torch.from_numpy(values).requires_grad_()
        shortcuts = None if chosen.profile is None or batch is None else _measured(graph, self.config, stored, batch)
        self.parameters = None
        self._generator.commit(SplitMix64(*self._draw.final_states()))
        return Decoder(stored, construction_record(self._draw, chosen, shortcuts), "initialized")

    def _fresh_parameters(self) -> dict[str, torch.Tensor]:
        if self.parameters is None:
            raise ConstructionError("This preparation was completed or dropped; prepare again.")
        return self.parameters


def _measured(graph: Graph, config: DecoderConfig, stored: Parameters, batch: Batch) -> Shortcuts:
    """Return the profile step's shortcuts on finished parameters, as plain numbers."""
    arrays = {name: leaf.detach().numpy() for name, leaf in stored.items()}
    measured = measured_shortcuts(graph, lambda scalars: StoredWeights(config, [arrays], scalars=scalars), batch)
    return tuple({key: float(value) for key, value in block.items()} for block in measured)


def construction_record(draw: BaseDraw, chosen: Recipe, shortcuts: Shortcuts | None = None) -> ConstructionRecord:
    """Return the record of the recipe `chosen` on the first seed of a base draw, computed without making any array."""
    specs = [spec for spec in draw.layout if spec.role in chosen.laws]
    transforms = [Transform.of(chosen, spec, spec.block or 0, draw.config, draw.distribution) for spec in specs]
    common, *others = {*transforms} or [None]
    return ConstructionRecord(
        config=draw.config,
        recipe=chosen.name,
        base_initializer_id=draw.distribution.name,
        factor=common.coefficient if common and not others and common.normalize is None else None,
        initial_rng_state=draw.seeds[0],
        final_rng_state=draw.final_states()[0],
        selected_names=tuple(spec.name for spec in specs),
        transformed_tensors=sum(transform != UNCHANGED for transform in transforms),
        shortcuts=shortcuts,
    )


def initialize_depth_scaled(source: Fresh | Decoder, generator: SplitMix64) -> Decoder:
    """Return a new `Decoder` with the recipe `depth-scaled`, and advance `generator` past its random numbers.

    Raises `ConstructionError`, before any draw, unless `source` is a `Fresh`: finished weights already have their
    scale.
    """
    if not isinstance(source, Fresh):
        state = getattr(source, "source", type(source).__name__)
        raise ConstructionError(
            f"This decoder is already {state}; its weights carry their scale, so only a fresh one is scaled."
        )
    return FreshInitialization.prepare(source, generator).complete()


@recording()
def restore(record: ConstructionRecord, parameters: Mapping[str, torch.Tensor]) -> Decoder:
    """Return a decoder with exactly the given values: no draws, no scaling.

    Raises `ConstructionError` if names, order or shapes are not the record's layout, or a value is not finite.
    """
    check_layout(record.config, parameters)
    for name, values in parameters.items():
        if not bool(torch.isfinite(values).all()):
            raise ConstructionError(f"The stored values of {name} are not all finite; restore from an intact file.")
    leaves = {name: values.detach().clone().requires_grad_() for name, values in parameters.items()}
    return Decoder(leaves, record, "restored")


def check_layout(config: DecoderConfig, parameters: Mapping[str, torch.Tensor]) -> None:
    """Raise `ConstructionError` if names, order or shapes of parameters are not those of `config`."""
    expected = layout(config)
    if len(parameters) != expected.tensors:
        raise ConstructionError(f"There are {len(parameters)} parameters where this decoder has {expected.tensors}.")
    for spec, (name, values) in zip(expected, parameters.items(), strict=True):
        if spec.name != name:
            raise ConstructionError(f"The parameter {name[:80]!r} stands where {spec.name} belongs.")
        if tuple(values.shape) != spec.shape:
            raise ConstructionError(f"{name} has shape {list(values.shape)}; this decoder needs {list(spec.shape)}.")


def _leaves(draw: BaseDraw) -> dict[str, torch.Tensor]:
    sizes = draw.layout
    blocks = ((sizes.block(block), draw.block(block)) for block in range(draw.config.blocks))
    leaves = {}
    for specs, drawn in itertools.chain([(sizes.stem, draw.stem())], blocks, [(sizes.tail, draw.tail())]):
        for spec in specs:
            fill = 1.0 if spec.fill == "ones" else 0.0
            values = drawn[spec.key][0].copy() if spec.draws else np.full(spec.shape, fill)
            leaves[spec.name] = torch.from_numpy(values).requires_grad_()
    return leaves


def _mark(leaf: torch.Tensor) -> tuple[int, bytes]:
    """Return version and digest of a tensor: one detects writes that torch sees, the other all writes to its memory."""
    return leaf._version, hashlib.blake2b(leaf.detach().numpy().tobytes(), digest_size=16).digest()
