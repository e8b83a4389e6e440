"""A chain of equally wide layers, run forward and backward on one vector, and a prediction of the sizes.

One layer is x <- N(shortcut * x + coefficient * f(W x)), where f is the activation and N a norm or nothing. The
prediction follows the mean and mean square of the features for infinite width. It assumes that every W is independent
of its input and every gradient independent of the forward signal (Glorot and Bengio 2010; He et al. 2015).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..kit import FloatArray, rms
from ..norm.law import RowNorm
from .activations import Activation

Weights = Callable[[int], FloatArray]
LAYER_AXIS, RMS_AXIS = "layer (0 is the input)", "RMS, dimensionless"


@dataclass(frozen=True, kw_only=True, eq=False)
class Chain:
    """The layers of a chain, all of width d; `weights(layer)` returns W `[d, d]`, the same at every call."""

    activation: Activation
    layers: int
    weights: Weights
    shortcut: float = 0.0
    coefficient: float = 1.0
    norm: RowNorm | None = None

    def run(self, x: FloatArray, upstream: FloatArray) -> ChainSizes:
        """Run the chain forward from `x` `[d]` and backward from `upstream` `[d]`, and return the RMS values.

        `upstream` is the gradient at the last state. `forward[l]` is the RMS of the state after l layers, `backward[l]`
        the RMS of the gradient with respect to that state.
        """
        inputs, sums, forward = [], [], [rms(x)]
        with np.errstate(all="ignore"):
            for layer in range(self.layers):
                z = self.weights(layer) @ x
                total = self.coefficient * self.activation.value(z)
                total = total + self.shortcut * x if self.shortcut else total
                x = total if self.norm is None else self.norm(total)
                inputs.append(z)
                sums.append(total)
                forward.append(rms(x))
            backward, gradient = [rms(upstream)], upstream
            for layer in reversed(range(self.layers)):
                if self.norm is not None:
                    gradient = self.norm.input_gradient(sums[layer], gradient)
                through = self.weights(layer).T @ (self.activation.slope(inputs[layer]) * gradient)
                gradient = self.coefficient * through + (self.shortcut * gradient if self.shortcut else 0.0)
                backward.append(rms(gradient))
        return ChainSizes(np.array(forward), np.array(backward[::-1]))

    def predict(self, gain: float) -> ChainSizes:
        """Return the predicted RMS values for an input and an upstream gradient drawn from N(0, 1).

        `gain` is the width times the variance of a weight.
        """
        mean, square, factors, forward = 0.0, 1.0, [], [1.0]
        with np.errstate(all="ignore"):
            for _ in range(self.layers):
                mean, square, factor = self._expected(mean, square, gain)
                factors.append(factor)
                forward.append(math.sqrt(square))
            return ChainSizes(np.array(forward), np.sqrt(np.cumprod([1.0, *factors[::-1]])[::-1]))

    def _expected(self, mean: float, square: float, gain: float) -> tuple[float, float, float]:
        """Return mean and mean square of the entries after one layer, and its factor on a gradient's mean square."""
        a, c = self.shortcut, self.coefficient
        first, second, slopes = self.activation.moments(gain * square)
        # W has mean 0, so f(Wx) is uncorrelated with x but for the means of both.
        square = a * a * square + 2 * a * c * mean * first + c * c * second
        mean, factor = a * mean + c * first, a * a + c * c * gain * slopes
        if self.norm is None:
            return mean, square, factor
        centers = self.norm.kind == "layernorm"
        kept = square - mean * mean if centers else square
        divided = kept + self.norm.epsilon
        return 0.0 if centers else mean / math.sqrt(divided), kept / divided, factor / divided


@dataclass(frozen=True)
class ChainSizes:
    """RMS values after 0 to L layers, arrays `[L + 1]`: `forward` of the state, `backward` of its gradient."""

    forward: FloatArray
    backward: FloatArray
