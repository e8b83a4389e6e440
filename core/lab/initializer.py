"""The study of one Xavier matrix: histograms of three sets of weights, and what each set would do to a signal.

The three sets are the drawn Xavier matrix, the same weights times 2 ("oversized"), and zeros. Their means and variances
are measured. The propagation of a signal through layers is not: it is an expectation for independent weights.

The study also shows why equal columns of a matrix stay equal, on a network with one hidden layer: y = sum_j v_j
silu(z_j), z_j = sum_i x_i W_ij. Its gradient is dy / dW_ij = x_i silu'(z_j) v_j. If two columns j of W are equal, and
their v_j too, their gradients are equal, and equal updates keep the columns equal, although the gradient is not zero.
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
    """Return the study of a `[fan_in, fan_out]` Xavier matrix drawn from `seed`, as a dict for JSON.

    `include_weights` adds the weights as a flat list. Raises `ConfigError` for fans or a seed that are not valid, and
    `BudgetError` if the matrix has more than `max_weights` entries.
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
    """Return `bins` + 1 equally spaced edges over [-m, m], with m = ceil(20 * uniform_limit) / 10.

    m is at least twice the limit of the uniform distribution, so the doubled weights fit too. Each edge is one division
    of two integers, so the middle edge of an even number of bins is exactly 0.
    """
    tenths = math.ceil(20.0 * uniform_limit)
    return [tenths * (2 * step - bins) / (10 * bins) for step in range(bins + 1)]


def populations(weights: FloatArray, edges: list[float]) -> dict[str, dict[str, Any]]:
    """Return the histograms and moments of three sets of weights, under the keys `zero`, `oversized` and `xavier`.

    `weights` are the flat Xavier draws; oversized are twice these. Every value is the dict that `population` returns.
    """
    return {
        "zero": population(np.zeros_like(weights), edges),
        "oversized": population(OVERSIZED_FACTOR * weights, edges),
        "xavier": population(weights, edges),
    }


def population(values: FloatArray, edges: list[float]) -> dict[str, Any]:
    """Return a dict for flat finite `values`: `counts` and `percent` per bin, `mean`, and `variance`.

    A bin includes its left edge and excludes its right one; the last bin includes both. The variance divides by the
    number of values and takes two passes: first the mean, then the mean squared deviation from it.
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
    """Return a dict with the expected variance of a signal after 0 to `layers` linear layers, for each set of weights.

    This is not measured. A layer that sums fan_in independent features of mean 0 multiplies the variance by fan_in *
    Var(weight): `multipliers` has this factor under `zero`, `oversized` and `xavier`, and the same keys of the dict
    hold the lists of variances. Raises `ConfigError` if an argument is not valid or a variance overflows.
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
    """Return the output of a network with one hidden layer, and the gradient of its hidden weights W, as a dict.

    The network is y = sum_j v_j silu(sum_i x_i W_ij) with x = `inputs`, v = `output_weights` and W = `hidden_weights`
    `[len(inputs), len(output_weights)]`, zeros by default. `columns_equal` is True if all columns of the gradient are
    equal. Raises `ConfigError` for a wrong shape or a number that is not finite.
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
