"""Differences paired by seed: their median, and whether they are larger than the variation between seeds."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..decoder.splitmix64 import FloatArray
from ..numerals import finite

# 1 over the probability of either tail: 2.5 %.
TAIL = 40


@dataclass(frozen=True, kw_only=True)
class Paired:
    """Differences over `seeds` seeds: the median and a distribution-free confidence interval of at least 95 %.

    `within_noise` is True if the interval contains zero; with fewer than six seeds it always does.
    """

    seeds: int = 0
    median: float = 0.0
    low: float = -math.inf
    high: float = math.inf

    @property
    def within_noise(self) -> bool:
        """True if the interval contains zero, ends included."""
        return self.low <= 0 <= self.high

    def document(self) -> dict[str, Any]:
        """Return the fields and `within_noise` as JSON values; an end that is not finite is None."""
        numbers = {name: finite(value) for name, value in asdict(self).items()}
        return {**numbers, "seeds": self.seeds, "within_noise": self.within_noise}


def paired(after: FloatArray, before: FloatArray) -> Paired:
    """Return the `Paired` differences `after - before` of two arrays `[seeds]`.

    An infinite difference counts by its sign, and two equal infinite values differ by 0. The interval lies between the
    order statistics k and n + 1 - k of the n differences, where k is the largest with a binomial tail of at most 2.5 %:
    W. R. Thompson, Annals of Mathematical Statistics 7 (1936).
    """
    with np.errstate(invalid="ignore"):
        differences = np.sort(np.where(after == before, 0.0, after - before))
    n = len(differences)
    rank = _rank(n)
    low, high = (differences[rank - 1], differences[n - rank]) if rank else (-math.inf, math.inf)
    with np.errstate(invalid="ignore"):
        return Paired(seeds=n, median=float(np.median(differences)), low=float(low), high=float(high))


def _rank(n: int) -> int:
    """Return the largest k with P(Binomial(n, 1/2) < k) <= 1/40, computed in integers; 0 if there is none."""
    term = tail = 1
    rank = 0
    while TAIL * tail <= 2**n:
        rank += 1
        term = term * (n - rank + 1) // rank
        tail += term
    return rank
