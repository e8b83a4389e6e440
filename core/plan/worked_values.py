"""Small worked examples of the depth factor L^(-1/2) for L blocks.

A vector of weights, the distribution of a matrix, two derivatives and the variance of a sum. All numbers are computed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from ..decoder.config import LARGEST_SIZE
from ..decoder.xavier import xavier_scale
from ..errors import ConfigError, shown
from ..recipes.law import depth_factor

DEPTHS = (1, 2, 8)
BASE_VECTOR = (0.2, -0.4, 0.0, 0.1)
FANS = (4, 4)
SCALAR_INPUT = 2.0
INCREMENT_VARIANCE = 1.0


def worked_values(
    depths: Sequence[int] = DEPTHS,
    *,
    base: Sequence[float] = BASE_VECTOR,
    fans: tuple[int, int] = FANS,
    scalar_input: float = SCALAR_INPUT,
    increment_variance: float = INCREMENT_VARIANCE,
) -> dict[str, Any]:
    """Return the worked examples as a dict for JSON; the keys of inner dicts are the depths as text.

    `base` is a vector of weights, given scaled and, for comparison, unscaled. `fans` are those of a Xavier matrix that
    the factor scales, `scalar_input` is x in y = x * w, and `increment_variance` is sigma^2 of each added term. Raises
    `ConfigError` or `ConstructionError`.
    """
    depths = [checked_depth(blocks) for blocks in depths]
    base = _finite("base", base)
    return {
        "base": base,
        "unselected": list(base),
        "blocks": {str(blocks): scaled_vector(base, blocks) for blocks in depths},
        "ideal": {str(blocks): ideal_distribution(*fans, blocks) for blocks in depths},
        "derivatives": {
            "stored": stored_derivative(scalar_input),
            "base": {str(blocks): base_derivative(scalar_input, blocks) for blocks in depths},
        },
        "toy_variance": {str(blocks): toy_variance(blocks, increment_variance) for blocks in depths},
    }


def checked_depth(blocks: int) -> int:
    """Return `blocks`, an integer from 1 to 2^53.

    Raises `ConstructionError` if it is 0 or negative, `ConfigError` if it is not an integer or too large.
    """
    if isinstance(blocks, bool) or not isinstance(blocks, int) or blocks > LARGEST_SIZE:
        raise ConfigError(f"blocks is {shown(blocks)}; it must be a whole number between 1 and 2^53.")
    depth_factor(blocks)
    return blocks


def scaled_vector(base: Sequence[float], blocks: int) -> list[float]:
    """Return the values of `base` multiplied by L^(-1/2) for L = `blocks`, as a list."""
    factor = depth_factor(checked_depth(blocks))
    return [factor * value for value in base]


def ideal_distribution(fan_in: int, fan_out: int, blocks: int) -> dict[str, float]:
    """Return the `half_bound` and `variance` of a Xavier uniform matrix multiplied by L^(-1/2) for L = `blocks`.

    These are exact values of the distribution, not measured: half-bound sqrt(6 / ((fan_in + fan_out) L)), variance 2 /
    ((fan_in + fan_out) L). Products are formed as integers, so each number is rounded as late as possible.
    """
    scale = xavier_scale(fan_in, fan_out)
    connections = (scale.fan_in + scale.fan_out) * checked_depth(blocks)
    return {"half_bound": math.sqrt(6 / connections), "variance": 2 / connections}


def stored_derivative(scalar_input: float = SCALAR_INPUT) -> float:
    """Return the derivative of y = x * w_stored with respect to w_stored, which is x at any depth."""
    return _finite("scalar_input", [scalar_input])[0]


def base_derivative(scalar_input: float, blocks: int) -> float:
    """Return the derivative of y = x * L^(-1/2) * w_base by w_base, for x = `scalar_input` and L = `blocks`."""
    return stored_derivative(scalar_input) * depth_factor(checked_depth(blocks))


def toy_variance(blocks: int, increment_variance: float = INCREMENT_VARIANCE) -> float:
    """Return the variance 2L * (1/L) * sigma^2 of a sum of 2L independent terms, each scaled by L^(-1/2).

    L is `blocks`, sigma^2 is `increment_variance`. The result is rounded once.
    """
    variance = _finite("increment_variance", [increment_variance])[0]
    if not 0 <= variance <= sys.float_info.max / 2:
        raise ConfigError(f"increment_variance is {variance!r}; it must not be negative, nor its double infinite.")
    alpha_squared = Fraction(1, checked_depth(blocks))
    return float(2 * blocks * alpha_squared * Fraction(variance))


def _finite(label: str, values: Sequence[float]) -> list[float]:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
            raise ConfigError(f"{label} holds {shown(value)}; give finite numbers.")
    return [float(value) for value in values]
