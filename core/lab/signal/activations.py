"""Elementwise activation functions f, their derivatives f', and their moments for a normal input.

For z normal with mean 0, E[f(z)] and E[f(z)^2] describe the forward signal, and E[f'(z)^2] is the factor on the mean
square of a gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

import numpy as np

from ...decoder.splitmix64 import FloatArray

Elementwise = Callable[[FloatArray], FloatArray]

# Nodes of the trapezoid rule over [-REACH, REACH] standard deviations; it converges geometrically for smooth functions.
NODES, REACH = 1001, 8.0


@dataclass(frozen=True)
class Activation:
    """An activation function (`value`) and its derivative (`slope`), both elementwise on arrays.

    `halves` marks ReLU, whose moments are exact formulas; those of the others are numerical integrals.
    """

    value: Elementwise
    slope: Elementwise
    halves: bool = False

    def moments(self, variance: float) -> tuple[float, float, float]:
        """Return E[f(z)], E[f(z)^2] and E[f'(z)^2] for z ~ N(0, variance); f is the activation, f' its derivative."""
        if self.halves:
            return math.sqrt(variance / (2 * math.pi)), variance / 2, 0.5
        nodes, weights = _quadrature()
        z = math.sqrt(variance) * nodes
        value, slope = self.value(z), self.slope(z)
        return float(weights @ value), float(weights @ value**2), float(weights @ slope**2)


def sigmoid(z: FloatArray) -> FloatArray:
    """Return 1 / (1 + exp(-z)) elementwise; it is computed with tanh, which cannot overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * z))


def sigmoid_slope(z: FloatArray) -> FloatArray:
    """Return the derivative of the sigmoid, sigmoid(z) * sigmoid(-z), elementwise; accurate for z far from 0 too."""
    tail = np.exp(-np.abs(z))
    return tail / np.square(1.0 + tail)


def silu(z: FloatArray) -> FloatArray:
    """Return z * sigmoid(z) elementwise."""
    return z * sigmoid(z)


def silu_slope(z: FloatArray) -> FloatArray:
    """Return the derivative of SiLU, s + z * s * (1 - s) with s = sigmoid(z), elementwise."""
    gate = sigmoid(z)
    return gate + z * gate * sigmoid(-z)


def gelu(z: FloatArray) -> FloatArray:
    """Return z * Phi(z) elementwise, with Phi the distribution function of N(0, 1); this is the exact GELU."""
    return z * _phi(z)


def gelu_slope(z: FloatArray) -> FloatArray:
    """Return the derivative of GELU, Phi(z) + z * phi(z), elementwise.

    Phi and phi are the distribution function and the density of N(0, 1).
    """
    return _phi(z) + z * np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)


def _phi(z: FloatArray) -> FloatArray:
    erfc = np.frompyfunc(math.erfc, 1, 1)
    return 0.5 * np.asarray(erfc(-z / math.sqrt(2)), dtype=np.float64)


@cache
def _quadrature() -> tuple[FloatArray, FloatArray]:
    nodes = np.linspace(-REACH, REACH, NODES)
    weights = np.exp(-0.5 * nodes**2)
    return nodes, weights / weights.sum()


ACTIVATIONS: Mapping[str, Activation] = MappingProxyType(
    {
        "linear": Activation(lambda z: z, np.ones_like),
        "relu": Activation(lambda z: np.maximum(z, 0.0), lambda z: (z > 0).astype(np.float64), halves=True),
        "tanh": Activation(np.tanh, lambda z: 1.0 - np.square(np.tanh(z))),
        "sigmoid": Activation(sigmoid, sigmoid_slope),
        "silu": Activation(silu, silu_slope),
        "gelu": Activation(gelu, gelu_slope),
    }
)
