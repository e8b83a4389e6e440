"""Experiment: L branch outputs of variance 1, each times a coefficient c, are added to a stream of variance 1.

The branch outputs are constructed to have exactly variance 1, the same correlation with each other and the same
correlation with the input. Without correlations they add the variance L c^2, which is 1 for c = L^(-1/2).
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..kit import (
    Experiment,
    FloatArray,
    LabError,
    Options,
    Result,
    TableView,
    choice,
    closeness,
    number,
    rounded,
    seed,
    whole,
)
from .variance_identity import (
    IDENTITY,
    IDENTITY_TITLES,
    VarianceIdentity,
    addition_pictures,
    identity_table,
)

POWERS = {"1": 0.0, "L^(-1/2)": -0.5, "L^(-1)": -1.0}


class ScaledResidualOptions(Options):
    """Options: x <- x + c F_l for l = 1 to L, with the input x and every branch output F_l of variance 1."""

    branches: int = whole(48, 1, 200, "Branches L", "Branches L.")
    coefficient: str = choice(
        "L^(-1/2)", (*POWERS, "custom"), "Coefficient c", "Coefficient c of every branch.", widget="choice"
    )
    factor: float = number(
        1.0, 0.0, 100.0, "Custom c", "The custom coefficient.", step=0.05, when=("coefficient", ("custom",))
    )
    branch_correlation: float = number(
        0.0,
        0.0,
        1.0,
        "Correlation of the branches",
        "Correlation of any two branches; independence says 0.",
        widget="slider",
        step=0.01,
    )
    input_correlation: float = number(
        0.0,
        -1.0,
        1.0,
        "Correlation with the input",
        "Correlation of every branch with the input.",
        widget="slider",
        step=0.01,
    )
    seed: int = seed(more=True)

    def check(self) -> None:
        """Raise `LabError` for correlations that no vectors can have at the same time."""
        if self.input_correlation**2 > 1.0 - (1.0 - self.branch_correlation) * (self.branches > 1):
            raise LabError(
                f"branch_correlation {self.branch_correlation:g} is below the square of input_correlation "
                f"{self.input_correlation:g}; the branches share their part along the input, so raise it."
            )

    @property
    def c(self) -> float:
        """The coefficient of every branch as a number."""
        return self.factor if self.coefficient == "custom" else float(self.branches ** POWERS[self.coefficient])


def scaled_residual(options: ScaledResidualOptions) -> Result:
    """Return the variance of the stream after every addition, beside the sum of the variances without covariances.

    Table `additions` has one row per addition, with the columns of `identity_table`; `coefficients` has the variance
    that uncorrelated branches add for c = 1, L^(-1/2) and L^(-1).
    """
    state, branches = _vectors(options)
    found = []
    for index, branch in enumerate(branches):
        found.append((f"branch {index + 1}", 1.0, VarianceIdentity.of(state, options.c * branch)))
        state = state + options.c * branch
    table, depth, c = identity_table(found), options.branches, options.c
    rho, kappa = options.branch_correlation, options.input_correlation
    coefficients = {name: depth**power for name, power in POWERS.items()}
    return Result(
        summary={
            "coefficient": c,
            "added_variance": table["measured_variance"].iloc[-1] - 1.0,
            "added_variance_expected": depth * c**2 * (1 + (depth - 1) * rho) + 2 * c * depth * kappa,
            "added_variance_if_independent": depth * c**2,
            "largest_identity_error": table["identity_error"].max(),
        },
        tables={
            "additions": table,
            "coefficients": pd.DataFrame(
                {
                    "coefficient": list(coefficients),
                    "value": list(coefficients.values()),
                    "added_variance": [depth * value**2 for value in coefficients.values()],
                }
            ),
        },
        notes=("Zero covariance and unit branches are premises here; a real branch is a function of its stream.",),
    )


def _vectors(options: ScaledResidualOptions) -> tuple[FloatArray, list[FloatArray]]:
    """Return input and branches: variance exactly 1, mean 0, with the requested correlations."""
    count = options.branches + 2
    drawn = np.random.default_rng(options.seed).standard_normal((2 * count, count))
    basis, _ = np.linalg.qr(np.column_stack([np.ones(2 * count), drawn]))
    state, shared, *own = (2 * count) ** 0.5 * basis[:, 1:].T
    kappa = options.input_correlation
    common = max(0.0, options.branch_correlation - kappa**2)
    left = max(0.0, 1.0 - kappa**2 - common)
    return state, [kappa * state + common**0.5 * shared + left**0.5 * direction for direction in own]


def _scaled_subject(options: ScaledResidualOptions) -> str:
    coefficient = f"{options.factor:g}" if options.coefficient == "custom" else options.coefficient
    return f"L = {options.branches} branches, c = {coefficient}, branch correlation {options.branch_correlation:g}"


EXPERIMENT = Experiment(
    title="Why one over root L",
    label="Scaled residual",
    function=scaled_residual,
    presets={
        "root": {},
        "unscaled": {"coefficient": "1"},
        "one over L": {"coefficient": "L^(-1)"},
        "correlated branches": {"branch_correlation": 0.5},
    },
    text=(
        "L branches of variance 1 are added to a stream of variance 1. With nothing in common and c = 1/sqrt(L) they "
        "add exactly 1 at any depth. Give them a correlation with each other or with the input, and the sum of the "
        "variances is no longer the variance of the sum."
    ),
    formulas=(IDENTITY, r"\operatorname{Cov}=0:\quad L\,c^2=1\ \text{at}\ c=L^{-1/2}"),
    subject=_scaled_subject,
    reading=lambda found: (
        f"All branches together add variance {rounded(found['added_variance'])}; independence predicts "
        f"{rounded(found['added_variance_if_independent'])}. The identity with covariance holds "
        f"{closeness(found['largest_identity_error'])}."
    ),
    draw=addition_pictures,
    tables={
        "coefficients": TableView(
            alt="Added variance of uncorrelated branches by coefficient.",
            titles={"coefficient": "coefficient", "value": "value at this L", "added_variance": "added variance"},
        ),
        "additions": TableView(alt="The identity's terms at every addition.", titles=IDENTITY_TITLES),
    },
)
