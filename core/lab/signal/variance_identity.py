"""The identity Var(h + c F) = Var(h) + c^2 Var(F) + 2 c Cov(h, F) for a branch output F added to the stream h.

Without the last term it holds only if h and F are uncorrelated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from ..kit import Chart, FloatArray, Line, Pictures, Result, covariance

IDENTITY = (
    r"\begin{aligned}\operatorname{Var}(h+cF)={}&\operatorname{Var}(h)+c^2\operatorname{Var}(F)\\"
    r"&+2c\operatorname{Cov}(h,F)\end{aligned}"
)
IDENTITY_TITLES = {
    "addition": "addition", "label": "label", "stream_variance": "Var(h)", "branch_variance": "Var(cF)",
    "twice_covariance": "2 Cov(h, cF)", "measured_variance": "measured Var(h + cF)",
    "independence": "without this covariance", "independence_from_input": "without any covariance",
    "correlation": "correlation", "identity_error": "error of the identity",
}  # fmt: skip
# A correlation or cosine with a little room; rounding alone should look like 0.
COSINES = (-1.08, 1.08)
ADDITION_AXIS = "residual addition, counted from 0"


@dataclass(frozen=True, kw_only=True)
class VarianceIdentity:
    """The terms of the identity at one addition, where c F is added to the stream h; moments are over all entries.

    `stream` is Var(h), `branch` Var(c F), `twice` 2 Cov(h, c F) and `measured` Var(h + c F). Variances divide by the
    number of entries.
    """

    stream: float
    branch: float
    twice: float
    measured: float

    @classmethod
    def of(cls, stream: FloatArray, contribution: FloatArray) -> VarianceIdentity:
        """Measure the terms when `contribution` (c F) is added to `stream` (h), arrays of equal shape."""
        total = stream + contribution
        return cls(
            stream=covariance(stream, stream),
            branch=covariance(contribution, contribution),
            twice=2.0 * covariance(stream, contribution),
            measured=covariance(total, total),
        )

    @property
    def error(self) -> float:
        """The absolute difference between the two sides of the identity, divided by the sum of its terms' sizes."""
        size = self.stream + self.branch + abs(self.twice)
        return abs(self.measured - (self.stream + self.branch + self.twice)) / size if size else 0.0

    @property
    def correlation(self) -> float | None:
        """The correlation of stream and branch output, None if either has variance 0."""
        product = self.stream * self.branch
        return 0.5 * self.twice / product**0.5 if product > 0 else None


def identity_table(additions: Iterable[tuple[str, float, VarianceIdentity]]) -> pd.DataFrame:
    """Return a table with one row per addition, in order: the terms of the identity, and variances without covariances.

    Each of `additions` is a label, the squared factor on the stream at the addition (NaN if a norm follows it or the
    factor is measured), and the measured terms. Column `independence` leaves out the covariance of this addition only,
    `independence_from_input` the covariances of this addition and all earlier ones.
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


def addition_pictures(result: Result) -> Pictures:
    """Return two charts over the additions: the variance with and without covariances, and the correlation."""
    table = result.tables["additions"]
    return {
        "variance": Chart(
            title="Variance after every addition", x_title=ADDITION_AXIS,
            y_title="variance, dimensionless", whole_x=True,
            lines=[
                Line.of(table, "addition", "measured_variance", "measured"),
                Line.of(table, "addition", "independence_from_input", "without covariances", 0, "predicted"),
                Line.of(table, "addition", "independence", "without this one", 1, "predicted"),
            ],
        ),
        "correlation": Chart(
            title="Correlation of stream and branch", x_title=ADDITION_AXIS,
            y_title="correlation, -1 to 1", log_y=False, whole_x=True, levels=[(0.0, "independence, 0")],
            y_range=COSINES,
            lines=[Line.of(table, "addition", "correlation", "measured", 1)],
        ),
    }  # fmt: skip
