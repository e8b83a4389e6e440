"""Moments of arrays, and products and norms of matrices, in binary64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..decoder.splitmix64 import FloatArray

Floating = npt.NDArray[np.floating]


def rms(values: Floating) -> float:
    """Return the root mean square over all entries; 0 for zeros.

    The entries are divided by the largest one first, so that their squares neither overflow nor underflow.
    """
    wide = np.asarray(values, dtype=np.float64)
    peak = float(np.abs(wide).max())
    if peak == 0.0 or not np.isfinite(peak):
        return peak
    return float(peak * np.sqrt(np.mean(np.square(wide / peak))))


def covariance(first: FloatArray, second: FloatArray) -> float:
    """Return the population covariance of two arrays of equal shape, over all entries; the means are computed first."""
    return float(np.mean((first - first.mean()) * (second - second.mean())))


def slope(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Return the slope of the least-squares line of log y against log x, which is the exponent of a power law."""
    fit = np.polynomial.polynomial.polyfit(np.log(np.asarray(x, dtype=np.float64)), np.log(y), 1)
    return float(fit[1])


def ordered_product(factors: Sequence[FloatArray]) -> FloatArray:
    """Return the matrix product J_k ... J_2 J_1 of square matrices; `factors` lists J_1 first."""
    product = np.eye(len(factors[0]))
    for factor in factors:
        product = factor @ product
    return product


def spectral_norm(matrix: FloatArray) -> float:
    """Return the largest singular value of a matrix."""
    return float(np.linalg.norm(matrix, 2))
