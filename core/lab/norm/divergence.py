"""Experiment: where LayerNorm and RMSNorm part. Their denominators have the ratio

sqrt(1 + mean^2 / (variance + epsilon)).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.lab.norm.law import RowNorm
from core.lab.norm.row import RowOptions
from core.lab.options import number
from core.lab.result import Result

POINTS = 81
REACH = 4.0


@dataclass(frozen=True, kw_only=True)
class NormDivergenceOptions(RowOptions):
    """A row whose mean is moved."""

    epsilon: float = number(1e-5, 1e-30, 1e6, "Epsilon inside the root.")


def norm_divergence(options: NormDivergenceOptions) -> Result:
    """Ratio of the denominators, measured and by the law. Tables: `means` (the mean swept), `output`."""
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
