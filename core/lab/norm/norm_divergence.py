"""Experiment: how LayerNorm and RMSNorm differ for a row whose mean is not 0.

The denominator of RMSNorm divided by that of LayerNorm is sqrt(1 + mean^2 / (variance + epsilon)).
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..kit import Chart, Experiment, Line, Pictures, Result, TableView, number, rounded
from .law import RowNorm
from .row import ROW, RowOptions, row_subject

POINTS = 81
REACH = 4.0


class NormDivergenceOptions(RowOptions):
    """Options: a row, whose mean the experiment varies, and epsilon."""

    epsilon: float = number(1e-5, 1e-30, 1e6, "Epsilon", "Epsilon inside the root.", step=1e-05)


def norm_divergence(options: NormDivergenceOptions) -> Result:
    """Return the ratio of the two denominators, RMSNorm's over LayerNorm's, measured and by the formula of the module.

    Table `means` has the ratio and the largest output difference for 81 means of the row; `output` has both outputs.
    """
    x = options.row()
    layer = RowNorm(kind="layernorm", epsilon=options.epsilon)
    root = RowNorm(kind="rmsnorm", epsilon=options.epsilon)
    width = np.sqrt(layer.moment(x).item() + options.epsilon)
    means = np.linspace(-REACH * width, REACH * width, POINTS)
    rows = x - x.mean() + means[:, None]
    variance = layer.moment(x).item()
    outputs = {"layernorm": layer(x), "rmsnorm": root(x)}
    return Result(
        summary={
            "mean": x.mean(),
            "variance": variance,
            "denominator_ratio": (root.denominator(x) / layer.denominator(x)).item(),
            "denominator_ratio_by_the_law": np.sqrt(1 + x.mean() ** 2 / (variance + options.epsilon)),
            "largest_output_difference": np.abs(outputs["layernorm"] - outputs["rmsnorm"]).max(),
        },
        tables={
            "means": pd.DataFrame(
                {
                    "mean": means,
                    "denominator_ratio": (root.denominator(rows) / layer.denominator(rows))[:, 0],
                    "by_the_law": np.sqrt(1 + means**2 / (variance + options.epsilon)),
                    "largest_output_difference": np.abs(layer(rows) - root(rows)).max(axis=1),
                }
            ),
            "output": pd.DataFrame({"index": np.arange(len(x)), "input": x, **outputs}),
        },
    )


def _pictures(result: Result) -> Pictures:
    """Return charts of the denominators' ratio and of the outputs' difference against the row's mean."""
    means, axis = result.tables["means"], "mean of the row, in the row's own unit"
    return {
        "ratio": Chart(
            title="RMSNorm's denominator over LayerNorm's", x_title=axis, y_title="ratio", log_y=False,
            lines=[
                Line.of(means, "mean", "denominator_ratio", "measured"),
                Line.of(means, "mean", "by_the_law", "by the law", 0, "predicted"),
            ],
            places=[(result.summary["mean"], "this row's mean")],
        ),
        "output": Chart(
            title="Largest difference of the outputs", x_title=axis, y_title="difference", log_y=False,
            lines=[Line.of(means, "mean", "largest_output_difference", "over all features", 1)],
            places=[(result.summary["mean"], "this row's mean")],
        ),
    }  # fmt: skip


EXPERIMENT = Experiment(
    title="Where LayerNorm and RMSNorm part",
    label="Two norms part",
    function=norm_divergence,
    presets={"mean 3": {}, "mean 0": {"x": ((1.0, -5.0, 3.0, 1.0),)}},
    controls=("epsilon", *ROW),
    shared=ROW,
    text=(
        "LayerNorm and RMSNorm are the same where the row has mean 0 and part as the mean grows beside the spread. The "
        "row keeps its shape here while its mean is moved from far below zero to far above."
    ),
    formulas=(r"\frac{r_{\mathrm{RMS}}}{r_{\mathrm{LN}}}=\sqrt{1+\frac{\mu^2}{\operatorname{Var}(x)+\varepsilon}}",),
    subject=row_subject,
    reading=lambda found: (
        f"With mean {rounded(found['mean'])} and variance {rounded(found['variance'])} the denominators' ratio is "
        f"{rounded(found['denominator_ratio'])} (law {rounded(found['denominator_ratio_by_the_law'])}); some output "
        f"differs by {rounded(found['largest_output_difference'])}."
    ),
    draw=_pictures,
    tables={
        "output": TableView(
            alt="The row and both outputs.",
            titles={"index": "feature", "input": "input", "layernorm": "LayerNorm", "rmsnorm": "RMSNorm"},
        ),
        "means": TableView(
            alt="Ratio and difference by the row's mean.",
            titles={
                "mean": "mean", "denominator_ratio": "ratio, measured", "by_the_law": "ratio, by the law",
                "largest_output_difference": "largest difference",
            },
        ),
    },
)  # fmt: skip
