"""The interface that gives a forward pass its weights, block by block.

A member is one model of the batched run; E members are ordered by seed, then by arm (recipe). A weight has a leading
size G that divides E, and member e reads slice e // (E / G). So a matrix that all arms of a seed share is stored once.
A matrix may also be a `DrawnMatrix`, which is drawn inside products.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import torch

from .config import DecoderConfig
from .drawn_matrix import DrawnMatrix
from .parameters import Layout, ParameterSpec, layout
from .splitmix64 import FloatArray

# None stands for a constant at its starting value: a gain of ones, a bias of zeros.
Weights = Mapping[str, torch.Tensor | DrawnMatrix | None]


def tensor(weights: Weights, name: str) -> torch.Tensor | None:
    """Return the weight `name` if it is not a matrix (a gain, bias or coefficient).

    None if it is absent or stored as None.
    """
    found = weights.get(name)
    assert not isinstance(found, DrawnMatrix)
    return found


class WeightProvider(Protocol):
    """An object that a forward pass asks for the parameters of E = `members` models with the sizes `config`.

    Every method returns a mapping from a parameter's name, without `blocks.{b}.`, to a tensor or `DrawnMatrix` with a
    leading size G that divides E. None stands for a gain of ones or a bias of zeros.
    """

    config: DecoderConfig
    members: int

    def stem(self) -> Weights:
        """Return the token embedding `[G, vocabulary, width]` and learned positions `[G, positions, width]`, if any."""
        ...

    def block(self, block: int) -> Weights:
        """Return all weights of block number `block`, counted from 0."""
        ...

    def tail(self) -> Weights:
        """Return the gain (and bias) of the final norm and, if not tied, the head `[G, width, vocabulary]`."""
        ...


class StoredWeights:
    """A `WeightProvider` for finished decoders of the same sizes, one member per decoder.

    `models` holds one mapping per decoder, from every full parameter name to its array. `scalars` gives, per block, the
    measured shortcut coefficients by key.
    """

    def __init__(
        self,
        config: DecoderConfig,
        models: Sequence[Mapping[str, FloatArray]],
        dtype: torch.dtype = torch.float64,
        device: str = "cpu",
        scalars: Sequence[Mapping[str, torch.Tensor]] | None = None,
    ) -> None:
        self.config = config
        self.members = len(models)
        self._models, self._dtype, self._device, self._scalars = tuple(models), dtype, device, scalars
        self._layout: Layout = layout(config)

    def stem(self) -> Weights:
        """Return the embeddings of all members, by key."""
        return self._part(self._layout.stem)

    def block(self, block: int) -> Weights:
        """Return the weights of block number `block` of all members, by key."""
        weights = self._part(self._layout.block(block))
        if self._scalars is not None:
            weights.update(self._scalars[block])
        return weights

    def tail(self) -> Weights:
        """Return the final norm and an untied head of all members, by key."""
        return self._part(self._layout.tail)

    def _part(self, specs: Sequence[ParameterSpec]) -> dict[str, torch.Tensor | DrawnMatrix | None]:
        return {spec.key: self._tensor(spec) for spec in specs}

    def _tensor(self, spec: ParameterSpec) -> torch.Tensor | None:
        arrays = [model[spec.name] for model in self._models]
        constant = {"ones": 1.0, "zeros": 0.0}.get(spec.fill)
        if constant is not None and all((array == constant).all() for array in arrays):
            return None
        shared = all(_same(arrays[0], array) for array in arrays[1:])
        values = np.stack(arrays[:1] if shared else arrays)
        return torch.from_numpy(values).to(device=self._device, dtype=self._dtype)


def _same(first: FloatArray, second: FloatArray) -> bool:
    """Return whether all bits are equal, so that 0.0 and -0.0 differ and a NaN equals itself."""
    return np.array_equal(first.view(np.uint64), second.view(np.uint64))
