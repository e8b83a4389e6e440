"""The initialization study of one Xavier matrix: three populations in common bins, and what they predict.

The populations share one base draw: the Xavier matrix, the same weights doubled, and zeros that draw nothing.
Statistics are measured on these weights; the propagation is an expectation under independence.

Why equal columns stay equal is derived by hand on a one-hidden-layer SiLU unit: with y = sum_j v_j silu(sum_i x_i
W_ij), dy / dW_ij = x_i silu'(z_j) v_j. Columns of W that are equal and treated equally downstream get equal gradient
columns, so equal updates keep them equal; the gradient itself is not zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import __version__
from ..decoder.splitmix64 import FloatArray, SplitMix64
from ..decoder.xavier import NamedParameter, XavierScale, checked_elements, xavier_scale
from ..errors import BudgetError, ConfigError, shown
from .signal.activations import silu, silu_slope

SCHEMA = "depthscope.init/1"
BINS = 10
OVERSIZED_FACTOR = 2.0
MAX_WEIGHTS = 2**24
LAYERS = 4
MAX_LAYERS = 4096
INPUT = (1.0, -1.0)
OUTPUT_WEIGHTS = (1.0, 1.0)


def init_document(
    fan_in: int, fan_out: int, seed: int, *, include_weights: bool = False, max_weights: int = MAX_WEIGHTS
) -> dict[str, Any]:
    """Return the `init` document of a `[fan_in, fan_out]` matrix drawn from `seed`.

    Raises `ConfigError`, the errors of `xavier_scale` in their order, and `BudgetError` beyond `max_weights`.
    """
    generator = SplitMix64(seed)
    initial_state = generator.state
    scale = xavier_scale(fan_in, fan_out)
    elements = checked_elements(scale.fan_in, scale.fan_out)
    if elements > max_weights:
        raise BudgetError(f"{elements:,} weights exceed the limit of {max_weights:,}; choose smaller fans.")
    weights = NamedParameter.xavier_uniform("weight", fan_in, fan_out, generator).values.reshape(-1)
    edges = bin_edges(scale.uniform_limit)
    document = {
        "schema": SCHEMA,
        "version": __version__,
        "fan_in": scale.fan_in,
        "fan_out": scale.fan_out,
        "seed": str(initial_state),
        "target_variance": scale.target_variance,
        "standard_deviation": scale.standard_deviation,
        "uniform_limit": scale.uniform_limit,
        "initial_rng_state": str(initial_state),
        "final_rng_state": str(generator.state),
        "edges": edges,
        "populations": populations(weights, edges),
        "expected_propagation": expected_propagation(scale),
        "zero_symmetry": zero_symmetry(),
    }
    if include_weights:
        document["weights"] = weights.tolist()
    return document


def bin_edges(uniform_limit: float, bins: int = BINS) -> list[float]:
    """Return `bins` + 1 edges in equal steps over [-m, m], m = ceil(20 * limit) / 10, which covers the doubled limit.

    Each edge is one division of integers, so the middle one is 0 and tenths are the nearest binary64 numbers.
    """
    tenths = math.ceil(20.0 * uniform_limit)
    return [tenths * (2 * step - bins) / (10 * bins) for step in range(bins + 1)]


def populations(weights: FloatArray, edges: list[float]) -> dict[str, dict[str, Any]]:
    """Return summaries of the zero, oversized and Xavier populations of one flat base draw, in common bins."""
    return {
        "zero": population(np.zeros_like(weights), edges),
        "oversized": population(OVERSIZED_FACTOR * weights, edges),
        "xavier": population(weights, edges),
    }


def population(values: FloatArray, edges: list[float]) -> dict[str, Any]:
    """Return counts per bin, percent of all, mean and variance of flat finite `values`.

    Bins include their left edge and exclude their right one; the last includes both. The variance is the population
    variance, in two passes: the mean first, then the mean squared deviation from it.
    """
    bins = len(edges) - 1
    # The outer edges bound every value; clipping closes the last bin on the right.
    indices = np.clip(np.searchsorted(np.asarray(edges), values, side="right") - 1, 0, bins - 1)
    counts = np.bincount(indices, minlength=bins).tolist()
    mean = float(values.mean())
    return {
        "counts": counts,
        "percent": [100.0 * count / values.size for count in counts],
        "mean": mean,
        "variance": float(np.mean((values - mean) ** 2)),
    }


def expected_propagation(scale: XavierScale, layers: int = LAYERS, input_variance: float = 1.0) -> dict[str, Any]:
    """Return the expected signal variance after 0..`layers` independent linear layers per population.

    Not a measurement. Law: a layer that sums fan_in independent zero-mean features multiplies the variance by fan_in *
    Var(weight). The oversized population has the squared factor in its weight variance. Raises `ConfigError`.
    """
    if isinstance(layers, bool) or not isinstance(layers, int) or not 0 <= layers <= MAX_LAYERS:
        raise ConfigError(f"layers is {shown(layers)}; it must be a whole number from 0 to {MAX_LAYERS}.")
    if not 0.0 <= input_variance < math.inf:
        raise ConfigError(f"input_variance is {shown(input_variance)}; it must be finite and not negative.")
    # 2 fan_in / (fan_in + fan_out) is formed in integers, so that equal widths give exactly 1.
    xavier = 2 * scale.fan_in / (scale.fan_in + scale.fan_out)
    multipliers = {"zero": 0.0, "oversized": OVERSIZED_FACTOR**2 * xavier, "xavier": xavier}
    return {
        "kind": "expected under independence, not measured",
        "layers": list(range(layers + 1)),
        "input_variance": input_variance,
        "multipliers": multipliers,
        **{name: _powers(multiplier, layers, input_variance) for name, multiplier in multipliers.items()},
    }


def _powers(multiplier: float, layers: int, start: float) -> list[float]:
    values = [float(start)]
    for _ in range(layers):
        values.append(values[-1] * multiplier)
    if not math.isfinite(values[-1]):
        raise ConfigError(f"The expected variance over {layers} layers exceeds binary64; ask for fewer layers.")
    return values


def zero_symmetry(
    inputs: Sequence[float] = INPUT,
    output_weights: Sequence[float] = OUTPUT_WEIGHTS,
    hidden_weights: npt.ArrayLike | None = None,
) -> dict[str, Any]:
    """Return the output and the hidden-weight gradient of the unit.

    `hidden_weights` is `[len(inputs), len(output_weights)]`, zeros unless given. Raises `ConfigError` for a wrong shape
    or a number that is not finite.
    """
    x, v = _finite("inputs", inputs, 1), _finite("output_weights", output_weights, 1)
    hidden = np.zeros((x.size, v.size)) if hidden_weights is None else _finite("hidden_weights", hidden_weights, 2)
    if hidden.shape != (x.size, v.size):
        raise ConfigError(
            f"hidden_weights has the shape {hidden.shape}; {x.size} inputs and {v.size} outputs need "
            f"{(x.size, v.size)}."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        before = x @ hidden
        output = float(silu(before) @ v)
        gradient = np.outer(x, silu_slope(before) * v)
    if not (np.isfinite(output) and np.isfinite(gradient).all()):
        raise ConfigError("The output or its gradient exceeds binary64; choose smaller inputs and weights.")
    return {
        "input": x.tolist(),
        "hidden_weights": hidden.tolist(),
        "activation": "silu",
        "output_weights": v.tolist(),
        "output": output,
        "hidden_weight_gradient_row_major": gradient.reshape(-1).tolist(),
        "columns_equal": bool((gradient == gradient[:, :1]).all()),
    }


def _finite(label: str, values: npt.ArrayLike, dimensions: int) -> FloatArray:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"{label} is not a regular array of numbers.") from error
    if array.ndim != dimensions or array.size == 0 or not np.isfinite(array).all():
        raise ConfigError(f"{label} must be {dimensions}-dimensional, not empty and finite.")
    return array
