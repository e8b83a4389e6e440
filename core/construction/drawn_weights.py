"""The weights of every seed of a base draw under every recipe, computed block by block; nothing is kept.

The base draw holds the random matrices before a recipe changes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ..decoder.base_draw import BaseDraw, Distribution, Draws
from ..decoder.config import DecoderConfig
from ..decoder.parameters import ParameterSpec
from ..decoder.splitmix64 import FloatArray
from ..decoder.weights import Weights
from ..recipes.law import Normalize
from ..recipes.recipe import Recipe


@dataclass(frozen=True)
class Transform:
    """What a recipe does to one base matrix: columns or rows set to unit length if asked, then a coefficient."""

    coefficient: float = 1.0
    normalize: Normalize | None = None

    @classmethod
    def of(
        cls, recipe: Recipe, spec: ParameterSpec, block: int, config: DecoderConfig, distribution: Distribution
    ) -> Transform:
        """Return the transform that `recipe` applies to the matrix `spec` in block `block` (0 outside blocks)."""
        law = recipe.laws.get(spec.role)
        if law is None:
            return UNCHANGED
        return cls(recipe.coefficient(spec, block, config, distribution.base_std(spec)), law.normalize)

    def __call__(self, base: FloatArray) -> FloatArray:
        """Return the transformed matrices, in the shape of `base` `[..., fan_in, fan_out]`.

        A transform that changes nothing returns `base` itself.
        """
        if self == UNCHANGED:
            return base
        return self.into(np.empty(base.shape), base)

    def into(self, out: FloatArray, base: FloatArray) -> FloatArray:
        """Write the transformed `base` into `out`, an array of the same shape, and return `out`."""
        # A base draw of extreme scale may leave the range here; the observer refuses what is not finite.
        with np.errstate(all="ignore"):
            if self.normalize is not None:
                axis = -2 if self.normalize == "columns" else -1
                base = base / np.sqrt(np.square(base).sum(axis=axis, keepdims=True))
            # A product with 1 keeps every bit.
            return np.multiply(base, self.coefficient, out=out)


UNCHANGED = Transform()


class DrawnWeights:
    """A `WeightProvider` for every seed of a base draw under every recipe; nothing is kept between calls.

    `arms` are the recipes. There are E = seeds * arms members (models), ordered by seed and then by arm. `scalars`
    gives the shortcut coefficients that a profile step measured on a batch: one mapping per block, from a key to a
    tensor `[E]` or `[G]` where G divides E.
    """

    def __init__(
        self,
        draw: BaseDraw,
        arms: Sequence[Recipe],
        dtype: torch.dtype = torch.float64,
        device: str = "cpu",
        scalars: Sequence[Mapping[str, torch.Tensor]] | None = None,
    ) -> None:
        self.config = draw.config
        self.members = len(draw.seeds) * len(arms)
        self._draw, self._arms, self._dtype, self._device = draw, tuple(arms), dtype, device
        self._scalars = scalars
        self._transformed = frozenset(role for arm in arms for role in arm.laws)

    def stem(self) -> Weights:
        """Return the embeddings of all members by key: tensors `[G, size, width]`, G dividing the members."""
        return self._part(self._draw.layout.stem, self._draw.stem(), 0)

    def block(self, block: int) -> Weights:
        """Return the weights of block number `block` of all members by key.

        None stands for gains of ones and zero biases.
        """
        weights = self._part(self._draw.layout.block_template, self._draw.block(block), block)
        if self._scalars is not None:
            weights.update(self._scalars[block])
        return weights

    def tail(self) -> Weights:
        """Return the final norm and an untied head of all members by key.

        None stands for a gain of ones or a zero bias.
        """
        return self._part(self._draw.layout.tail, self._draw.tail(), 0)

    def _part(self, specs: Sequence[ParameterSpec], base: Draws, block: int) -> dict[str, torch.Tensor | None]:
        return {spec.key: self._tensor(spec, base[spec.key], block) if spec.draws else None for spec in specs}

    def _tensor(self, spec: ParameterSpec, base: FloatArray, block: int) -> torch.Tensor:
        if spec.role in self._transformed:
            base = self._transform(spec, base, block)
        tensor = torch.from_numpy(base)
        if self._dtype == torch.float64 and self._device == "cpu":
            return tensor
        return tensor.to(device=self._device, dtype=self._dtype)

    def _transform(self, spec: ParameterSpec, base: FloatArray, block: int) -> FloatArray:
        """Return the matrices of every member, or of every seed if all arms transform them in the same way."""
        transforms = [Transform.of(arm, spec, block, self.config, self._draw.distribution) for arm in self._arms]
        if all(transform == transforms[0] for transform in transforms):
            return transforms[0](base)
        values = np.empty((len(base), len(transforms), *spec.shape))
        for arm, transform in enumerate(transforms):
            transform.into(values[:, arm], base)
        return values.reshape(self.members, *spec.shape)
