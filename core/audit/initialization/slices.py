"""Find slices of one stored tensor that were drawn with different standard deviations: fused gate and up, experts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch

# A split must be this sure (any row of any matrix may start one) and the parts this far apart.
SPLIT_SIGMAS = 7.0
SPLIT_RATIO = 1.08
SMALLEST_PART = 256
MOST_PARTS = 16


@dataclass(frozen=True)
class Slice:
    """A range `start:stop` along one axis; `label` is its index as text, empty for a whole tensor."""

    axis: int
    start: int
    stop: int
    label: str

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return that slice of `tensor`, as a view."""
        return tensor.narrow(self.axis, self.start, self.stop - self.start)


def slices_of(tensor: torch.Tensor) -> list[Slice]:
    """Return the largest ranges along one axis that have different standard deviations, as `Slice` objects.

    If there is no difference, the only one covers the whole tensor.
    """
    values = tensor.detach()
    if values.dim() >= 2 and bool(values.isfinite().all()):
        squares = values.to(torch.float64).square()
        axes = range(values.dim())
        return slices_by_power([squares.sum([o for o in axes if o != axis]).cpu().numpy() for axis in axes])
    return [Slice(0, 0, values.shape[0] if values.dim() else 1, "")]


def slices_by_power(powers: Sequence[npt.NDArray[np.float64]]) -> list[Slice]:
    """Return what `slices_of` returns, given the sums of squares of a tensor of finite values along each axis."""
    count = math.prod(len(power) for power in powers)
    best: tuple[float, int, list[int]] | None = None
    for axis, power in enumerate(powers):
        bounds, surety = _bounds(power, count // len(power))
        if len(bounds) > 2 and (best is None or surety > best[0]):
            best = (surety, axis, bounds)
    if best is not None and len(best[2]) <= MOST_PARTS:
        return _labelled(best[1], best[2], len(powers))
    return [Slice(0, 0, len(powers[0]), "")]


def _labelled(axis: int, bounds: list[int], axes: int) -> list[Slice]:
    parts = []
    for start, stop in pairwise(bounds):
        index = [":"] * axis + [f"{start}:{stop}"] + [":"] * (axes - axis - 1)
        while index[-1] == ":":
            index.pop()
        parts.append(Slice(axis, start, stop, f"[{', '.join(index)}]"))
    return parts


def _bounds(power: npt.NDArray[np.float64], each: int) -> tuple[list[int], float]:
    """Return the borders of the slices along one axis, found by repeated splitting, and the certainty of the surest.

    `power` holds the sum of squares per index, of `each` values.
    """
    total = np.concatenate([[0.0], np.cumsum(power)])
    borders, surest, open_ = {0, len(power)}, 0.0, [(0, len(power))]
    while open_ and len(borders) <= MOST_PARTS + 1:
        start, stop = open_.pop()
        place, surety = _split(total, start, stop, each)
        if place is not None:
            borders.add(place)
            surest = max(surest, surety)
            open_ += [(start, place), (place, stop)]
    return sorted(borders), surest


def _split(total: npt.NDArray[np.float64], start: int, stop: int, each: int) -> tuple[int | None, float]:
    """Return the most certain border inside `start:stop`, None where no border is certain enough, and its certainty.

    The certainty is the log of the ratio of both variances, in standard errors.
    """
    margin = max(1, math.ceil(SMALLEST_PART / each))
    border = np.arange(start + margin, stop - margin + 1)
    if not border.size:
        return None, 0.0
    first, second = (border - start) * each, (stop - border) * each
    one, two = (total[border] - total[start]) / first, (total[stop] - total[border]) / second
    # A sum of squares left over from rounding is zero.
    small = total[-1] * 1e-12
    zeros = (one * first <= small).astype(int) + (two * second <= small)
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.abs(np.log(one / two))
        surety = distance / np.sqrt(2 / first + 2 / second)
    surety = np.where(distance > 2 * math.log(SPLIT_RATIO), surety, 0.0)
    surety = np.select([zeros == 1, zeros == 2], [1e3 + np.minimum(first, second), np.zeros(len(border))], surety)
    best = int(np.argmax(surety))
    return (int(border[best]), float(surety[best])) if surety[best] > SPLIT_SIGMAS else (None, 0.0)
