"""Scales the matrices of a reduced twin of a library model: a narrower model with the ratios of the wide one.

The standard deviation that a family's code draws with may depend on the width, so its law is measured: two narrow twins
give the exponent p of the standard deviation in the width. At the true width it is then std * (true width / width)^p. A
twin that keeps std * sqrt(fan_in) has every matrix multiplied by (true width / width)^p * sqrt(true fan_in / fan_in).
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch import nn

from ...errors import AuditError, cropped

# An exponent nearer than this to a multiple of 1/2 is that one: sampling moves it by less, other laws by more.
NEAR = 0.12
# How far sampling may move a mean (one farther off belongs to constants, which are kept) or a measured exponent.
SIGMAS = 5.0


class Drawn(NamedTuple):
    """One parameter with at least two axes: whether it is an embedding, its fan_in, and its values (a tensor)."""

    embeds: bool
    fan_in: float
    values: torch.Tensor


def drawn_matrices(model: nn.Module) -> Iterator[tuple[str, Drawn]]:
    """Yield (name, `Drawn`) for every parameter with at least two axes, once.

    On the meta device without reading values.
    """
    seen: set[int] = set()
    for place, module in model.named_modules():
        for key, parameter in module.named_parameters(recurse=False):
            if parameter.ndim >= 2 and id(parameter) not in seen:
                seen.add(id(parameter))
                embeds = isinstance(module, nn.Embedding)
                yield f"{place}.{key}", Drawn(embeds, _fan_in(module, parameter.shape), parameter.detach())


def _fan_in(module: nn.Module, shape: torch.Size) -> float:
    if type(module).__name__ == "Conv1D":
        return float(shape[0])
    if isinstance(module, nn.Linear) or len(shape) == 2:
        return float(shape[-1])
    if isinstance(module, nn.Conv1d):
        return float(math.prod(shape[1:]))
    # Matrices of several experts in one tensor, either way round: both axes follow the width.
    return math.sqrt(shape[-1] * shape[-2])


def kind(name: str) -> str:
    """Return a parameter's name with its numbers (of block and expert) replaced by `#`."""
    return re.sub(r"\d+", "#", name)


def exponents(narrow: nn.Module, wide: nn.Module) -> dict[str, float]:
    """Return the exponent p of the standard deviation in the width, by `kind` of parameter.

    It is measured on two new twins, of which `wide` is twice as wide as `narrow`. Raises `AuditError` if an exponent is
    no multiple of 1/2.
    """
    first, second = _pooled(narrow), _pooled(wide)
    found: dict[str, float] = {}
    for name in first.keys() & second.keys():
        (few, small), (many, large) = first[name], second[name]
        exact = math.log2(large / small) if small and large else 0.0
        # The logarithm of a normal's standard deviation of n values is known to 1 / sqrt(2n).
        noise = math.sqrt(1 / (2 * few) + 1 / (2 * many)) / math.log(2)
        found[name] = near_half(exact, f"the standard deviation of {cropped(name)}", SIGMAS * noise)
    return found


def near_half(exponent: float, what: str, noise: float = 0.0) -> float:
    """Return the multiple of 1/2 that is nearest to an exponent of the width; 0 if the exponent is within `noise` of 0.

    Raises `AuditError` if none is near; `what` names the quantity in the message.
    """
    if abs(exponent) <= noise:
        return 0.0
    nearest = round(2 * exponent) / 2 if math.isfinite(exponent) else math.inf
    if not abs(exponent - nearest) <= NEAR:
        raise AuditError(
            f"No reduced twin tells this model's health: {what} goes with the width to the power {exponent:.2f}."
        )
    return nearest


def _pooled(model: nn.Module) -> dict[str, tuple[int, float]]:
    """Return the number of values and their root mean square, by `kind`."""
    squares: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    for name, matrix in drawn_matrices(model):
        squares[kind(name)] += float(matrix.values.double().square().sum())
        counts[kind(name)] += matrix.values.numel()
    return {name: (count, math.sqrt(squares[name] / count)) for name, count in counts.items()}


def keep_products(
    twin: nn.Module, true: nn.Module, laws: Mapping[str, float], *, width_ratio: float, embedded: float
) -> dict[str, float]:
    """Multiply the matrices of a new twin in place so that std * sqrt(fan_in) is that of the wide model.

    Returns the factors by `kind` of parameter. `true` is the model at its true sizes on the meta device, `laws` the
    result of `exponents`, `width_ratio` the true width over the twin's, `embedded` the exponent of the width in the
    code's factor on embeddings. Parameters whose mean is not near 0 are constants and are left unchanged.
    """
    wanted = {name: matrix.fan_in for name, matrix in drawn_matrices(true)}
    factors: dict[str, float] = {}
    with torch.no_grad():
        for name, matrix in drawn_matrices(twin):
            law = laws.get(kind(name), 0.0)
            if matrix.embeds:
                factor = width_ratio ** (law + embedded)
            else:
                factor = width_ratio**law * math.sqrt(wanted.get(name, matrix.fan_in) / matrix.fan_in)
            if _is_centred(matrix.values):
                matrix.values.mul_(factor)
                factors[kind(name)] = factor
    return factors


def _is_centred(values: torch.Tensor) -> bool:
    wide = values.double()
    return bool(wide.mean().abs() <= SIGMAS * wide.std() / math.sqrt(max(1, wide.numel())))
