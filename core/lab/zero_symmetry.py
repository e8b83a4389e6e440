"""Why equal columns stay equal: the gradient of a one-hidden-layer SiLU unit, worked out by hand.

With y = sum_j v_j silu(sum_i x_i W_ij), dy / dW_ij = x_i silu'(z_j) v_j. Columns of W that are equal and treated
equally downstream get equal gradient columns, so equal updates keep them equal; the gradient itself is not zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..decoder.splitmix64 import FloatArray
from ..errors import ConfigError

INPUT = (1.0, -1.0)
OUTPUT_WEIGHTS = (1.0, 1.0)


def zero_symmetry(
    inputs: Sequence[float] = INPUT,
    output_weights: Sequence[float] = OUTPUT_WEIGHTS,
    hidden_weights: npt.ArrayLike | None = None,
) -> dict[str, Any]:
    """Output and hidden-weight gradient of the unit; `hidden_weights` is `[len(inputs), len(output_weights)]`, zeros
    unless given. Raises `ConfigError` on a wrong shape or a number that is not finite.
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
        gradient = np.outer(x, silu_derivative(before) * v)
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


def silu(values: FloatArray) -> FloatArray:
    """x * sigmoid(x), elementwise."""
    return values * _sigmoid(values)


def silu_derivative(values: FloatArray) -> FloatArray:
    """s + x * s * (1 - s) with s = sigmoid(x), elementwise; 1/2 at zero."""
    gate = _sigmoid(values)
    return gate + values * gate * _sigmoid(-values)


def _sigmoid(values: FloatArray) -> FloatArray:
    # tanh saturates where exp would overflow.
    return 0.5 * (1.0 + np.tanh(0.5 * values))


def _finite(label: str, values: npt.ArrayLike, dimensions: int) -> FloatArray:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"{label} is not a regular array of numbers.") from error
    if array.ndim != dimensions or array.size == 0 or not np.isfinite(array).all():
        raise ConfigError(f"{label} must be {dimensions}-dimensional, not empty and finite.")
    return array
