"""Var(h + c F) = Var(h) + c^2 Var(F) + 2 c Cov(h, F), exactly, and what independence leaves out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from core.decoder.splitmix64 import FloatArray
from core.lab.moments import covariance


@dataclass(frozen=True, kw_only=True)
class VarianceIdentity:
    """One addition's terms, population moments over all entries: `branch` is Var(c F), `twice` 2 Cov(h, c F)."""

    stream: float
    branch: float
    twice: float
    measured: float

    @classmethod
    def of(cls, stream: FloatArray, contribution: FloatArray) -> VarianceIdentity:
        """Measure the addition of `contribution` (c F) to `stream` (h)."""
        total = stream + contribution
        return cls(
            stream=covariance(stream, stream),
            branch=covariance(contribution, contribution),
            twice=2.0 * covariance(stream, contribution),
            measured=covariance(total, total),
        )

    @property
    def error(self) -> float:
        """Distance of both sides of the identity, relative to the size of its terms."""
        size = self.stream + self.branch + abs(self.twice)
        return abs(self.measured - (self.stream + self.branch + self.twice)) / size if size else 0.0

    @property
    def correlation(self) -> float | None:
        """Correlation of stream and branch; None where either is constant."""
        product = self.stream * self.branch
        return 0.5 * self.twice / product**0.5 if product > 0 else None


def identity_table(additions: Iterable[tuple[str, float, VarianceIdentity]]) -> pd.DataFrame:
    """One row an addition, in order: the identity's terms beside what independence predicts.

    An addition is its label, what its shortcut multiplies the variance before it by (NaN behind a norm, where no
    factor is known beforehand), and its identity. `independence` drops this addition's covariance;
    `independence_from_input` drops every covariance since the input.
    """
    rows, independent = [], None
    for index, (label, shortcut, found) in enumerate(additions):
        before = found.stream if independent is None else shortcut * independent
        independent = before + found.branch
        rows.append(
            {
                "addition": index,
                "label": label,
                "stream_variance": found.stream,
                "branch_variance": found.branch,
                "twice_covariance": found.twice,
                "measured_variance": found.measured,
                "independence": found.stream + found.branch,
                "independence_from_input": independent,
                "correlation": float("nan") if found.correlation is None else found.correlation,
                "identity_error": found.error,
            }
        )
    return pd.DataFrame(rows)
