"""Experiment: LayerNorm with the population variance (divisor d) and with the sample variance (divisor d - 1)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..kit import Chart, Experiment, Line, Pictures, Result, TableView, number, rms, rounded
from .law import RowNorm
from .row import OVER_FEATURES, ROW, RowOptions, row_subject


class VarianceDivisorOptions(RowOptions):
    """Options: a row for LayerNorm, and epsilon."""

    epsilon: float = number(1e-5, 0.0, 1e6, "Epsilon", "Epsilon inside the root.", step=1e-05)


WIDTHS = (2, 3, 4, 8, 16, 64, 256, 1024, 4096)


def variance_divisor(options: VarianceDivisorOptions) -> Result:
    """Return the output of LayerNorm with either divisor of the variance, d or d - 1, and their ratio.

    Table `output` has the row and both outputs; `widths` has the ratio sqrt(1 - 1/d) of the outputs for several d.
    """
    x = options.row()
    laws = {
        name: RowNorm(kind="layernorm", epsilon=options.epsilon, sample=name == "sample")
        for name in ("population", "sample")
    }
    outputs = {name: law(x) for name, law in laws.items()}
    widths = np.array(WIDTHS)
    return Result(
        summary={
            **{f"{name}_variance": law.moment(x)[0] for name, law in laws.items()},
            "output_ratio": rms(outputs["sample"]) / rms(outputs["population"]) if rms(outputs["population"]) else None,
            "output_ratio_at_epsilon_0": np.sqrt(1 - 1 / len(x)),
        },
        tables={
            "output": pd.DataFrame({"index": np.arange(len(x)), "input": x, **outputs}),
            "widths": pd.DataFrame({"width": widths, "output_ratio_at_epsilon_0": np.sqrt(1 - 1 / widths)}),
        },
    )


DIVISORS = ("population", "sample")


def _pictures(result: Result) -> Pictures:
    """Return charts of both outputs on this row, and of their ratio against width."""
    output, widths = result.tables["output"], result.tables["widths"]
    lines = [Line.of(output, "index", name, f"{name} variance", index) for index, name in enumerate(DIVISORS)]
    return {
        "output": Chart(
            title="LayerNorm with either divisor", y_title="output", lines=lines, **OVER_FEATURES,
        ),
        "widths": Chart(
            title="Ratio of the outputs against width", subject="epsilon 0", x_title="width d, features",
            y_title="sample over population", log_x=True, log_y=False, levels=[(1.0, "no difference, 1")],
            lines=[Line.of(widths, "width", "output_ratio_at_epsilon_0", "sqrt(1 - 1/d)", 0, "predicted")],
        ),
    }  # fmt: skip


EXPERIMENT = Experiment(
    title="Population against sample variance",
    label="Divisor",
    function=variance_divisor,
    presets={"four features": {}},
    controls=("epsilon", *ROW),
    shared=ROW,
    text=(
        "LayerNorm divides by the population variance, with d; statistics packages often use d - 1. On a row of four "
        "that is 13%, at the width of a model nothing one would notice, and a hidden mismatch all the same."
    ),
    formulas=(r"\frac{\mathrm{LN}_{d-1}(x)}{\mathrm{LN}_{d}(x)}=\sqrt{1-\tfrac1d}\qquad(\varepsilon=0)",),
    subject=lambda options: f"epsilon {options.epsilon:g}, {row_subject(options)}",
    reading=lambda found: (
        f"The population variance is {rounded(found['population_variance'])}, the sample variance "
        f"{rounded(found['sample_variance'])}; the outputs' ratio is {rounded(found['output_ratio'])} "
        f"(sqrt(1 - 1/d) = {rounded(found['output_ratio_at_epsilon_0'])})."
    ),
    draw=_pictures,
    tables={
        "output": TableView(
            alt="The row and both outputs.",
            titles={"index": "feature", "input": "input", "population": "divided by d", "sample": "divided by d - 1"},
        ),
        "widths": TableView(
            alt="Ratio of the outputs by width.",
            titles={"width": "width", "output_ratio_at_epsilon_0": "ratio at epsilon 0"},
        ),
    },
)
