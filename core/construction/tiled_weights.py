"""The weights of `DrawnWeights`, drawn tile by tile inside products, for models that are too large for memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from ..decoder.base_draw import BaseDraw
from ..decoder.drawn_matrix import DrawnMatrix, Scaling
from ..decoder.matrix_draws import MatrixDraws
from ..decoder.parameters import ParameterSpec
from ..decoder.weights import Weights
from ..errors import ConfigError, Remedy
from ..recipes.recipe import Recipe
from .drawn_weights import DrawnWeights, Transform


class TiledWeights(DrawnWeights):
    """A `WeightProvider` for every seed of a base draw under every recipe, whose matrices are drawn inside products.

    `arms` are the recipes. The values are those of `DrawnWeights` up to rounding: a recipe's coefficient multiplies
    products instead of weights. Raises `ConfigError` for a device other than the CPU.
    """

    def __init__(
        self,
        draw: BaseDraw,
        arms: Sequence[Recipe],
        dtype: torch.dtype = torch.float64,
        device: str = "cpu",
        scalars: Sequence[Mapping[str, torch.Tensor]] | None = None,
    ) -> None:
        if device != "cpu":
            raise ConfigError(f"Weights are drawn tile by tile on the CPU, not on {device}", Remedy.CPU)
        super().__init__(draw, arms, dtype, device, scalars)

    def stem(self) -> Weights:
        """Return the embeddings of all members by key, as `DrawnMatrix` objects."""
        return self._matrices(self._draw.layout.stem, 0, 0)

    def block(self, block: int) -> Weights:
        """Return the weights of block number `block` of all members by key; matrices are `DrawnMatrix` objects."""
        layout = self._draw.layout
        weights = self._matrices(layout.block_template, layout.block_start(block), block)
        if self._scalars is not None:
            weights.update(self._scalars[block])
        return weights

    def tail(self) -> Weights:
        """Return the final norm and an untied head of all members by key; the head is a `DrawnMatrix`."""
        return self._matrices(self._draw.layout.tail, 0, 0)

    def _matrices(
        self, specs: Sequence[ParameterSpec], start: int, block: int
    ) -> dict[str, torch.Tensor | DrawnMatrix | None]:
        return {spec.key: self._matrix(spec, start, block) if spec.draws else None for spec in specs}

    def _matrix(self, spec: ParameterSpec, start: int, block: int) -> DrawnMatrix:
        seeds, distribution = self._draw.seeds, self._draw.distribution
        transforms = [Transform.of(arm, spec, block, self.config, distribution) for arm in self._arms]
        return DrawnMatrix(
            MatrixDraws(seeds, spec, start + spec.offset, distribution),
            [Scaling(transform.coefficient, transform.normalize) for transform in transforms],
            self._dtype,
        )
