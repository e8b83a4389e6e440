"""Views of a norm's arithmetic on one row: its steps, its invariances, and where two norms part."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from core.lab.norm.row import NormOptions, RowOptions
from core.lab.result import Result
from core.views.lab.chart import Chart, Line
from core.views.lab.matrix import Matrix, grid
from core.views.lab.view import LabView, Picture, TableView, counted, number

FEATURE_AXIS = "feature, counted from 0"
# Numbers of a row that are written out in a table's cell.
WRITTEN = 16
# Distances below this one have no colour.
UNSEEN = 1e-6


def row_subject(options: RowOptions) -> str:
    """Which row is looked at."""
    if options.source == "decoder":
        return (
            f"site {options.site}, position {options.position}, L = {counted(options.blocks, 'block')}, "
            f"d = {options.width}, {options.recipe}"
        )
    return f"typed row of {options.length}"


def norm_subject(options: NormOptions) -> str:
    """Which norm on which row."""
    parts = [options.norm, f"epsilon {options.epsilon:g} {options.placement}" if options.norm != "dyt" else ""]
    parts += ["sample variance"] if (options.norm, options.variance) == ("layernorm", "sample") else []
    return ", ".join([*filter(None, parts), row_subject(options)])


def step_pictures(result: Result, subject: str) -> Mapping[str, Picture]:
    """The row before and after, and centered where the norm centers."""
    steps = result.tables["steps"]
    rows = {str(name): part for name, part in steps.groupby("quantity", sort=False) if part["index"].iloc[0] >= 0}
    shown = [name for name in rows if name not in ("squares", "scaled")]
    chart = Chart(
        title="The row through the norm", subject=subject, x_title=FEATURE_AXIS, y_title="value", log_y=False,
        whole_x=True, levels=[(0.0, "0")],
        lines=[Line.of(rows[name], "index", "value", name, index) for index, name in enumerate(shown)],
    )  # fmt: skip
    return {"norm-steps-row": chart}


def step_view(steps: pd.DataFrame) -> pd.DataFrame:
    """One row a step, the numbers of a row side by side in one cell."""
    rows: list[dict[str, Any]] = []
    for (_, quantity, formula), part in steps.groupby(["step", "quantity", "formula"], sort=False):
        values = [f"{value:.6g}" for value in part["value"].head(WRITTEN)]
        more = ", …" if len(part) > WRITTEN else ""
        rows.append({"step": quantity, "formula": formula, "value": ", ".join(values) + more})
    return pd.DataFrame(rows)


def _steps_reading(result: Result) -> str:
    found = result.summary
    return (
        f"Mean {number(found['mean'])}, variance {number(found['variance'])}, mean square "
        f"{number(found['mean_square'])} = mean² + variance; the output has mean {found['output_mean']:.2g} and RMS "
        f"{number(found['output_rms'])}."
    )


NORM_STEPS = LabView(
    text=(
        "Type a row or take one from a decoder's stream, and follow every step. LayerNorm takes the mean away and "
        "divides by the spread; the divisor of RMSNorm is the RMS, pRMSNorm takes that of a part, ScaleNorm the "
        "length; DyT has no moment and squashes each number by itself."
    ),
    formulas=(
        r"\mathrm{LN}(x)=g\odot\frac{x-\mu}{\sqrt{\operatorname{Var}(x)+\varepsilon}}+b",
        r"\mathrm{RMSNorm}(x)=g\odot\frac{x}{\sqrt{\frac1d\sum_i x_i^2+\varepsilon}}",
        r"\tfrac1d\sum_i x_i^2=\mu^2+\operatorname{Var}(x)",
    ),
    subject=norm_subject,
    reading=_steps_reading,
    pictures=step_pictures,
    tables={"steps": TableView(alt="Every step of the norm with its formula and numbers.", shape=step_view)},
)


def invariance_pictures(result: Result, subject: str) -> Mapping[str, Picture]:
    """How far every norm's output moves under every change, coloured by order of magnitude."""
    table = result.tables["changes"]
    norms, changes, distances = grid(table, "norm", "change", "relative_distance")
    _, _, words = grid(table, "norm", "change", "at_epsilon_0")
    texts = [
        [f"{'moved' if word == 'changed' else 'kept'}<br>{value:.2g}" for word, value in zip(*pair, strict=True)]
        for pair in zip(words, distances, strict=True)
    ]
    sizes = [[math.log10(max(value, UNSEEN)) for value in row] for row in distances]
    picture = Matrix(
        title="What each norm does not see", subject=subject, rows=norms, columns=changes,
        values=sizes, texts=texts, diverging=False, x_title="change of the row", y_title="",
        bar_title="log10 of the distance",
    )  # fmt: skip
    return {"norm-invariances-changes": picture}


def _invariance_reading(result: Result) -> str:
    return (
        "Where a norm should see nothing, its output moves by at most "
        f"{number(result.summary['largest_distance_where_invariant'])} of its size; epsilon and rounding are the cause."
    )


NORM_INVARIANCES = LabView(
    text=(
        "The row is multiplied by a factor, shifted, turned in sign and read backwards. A norm that does not see a "
        "change gives the output it gave before (turned or reordered along with the row), up to what epsilon does. "
        "What a norm does not see, nobody sees who looks at its output alone."
    ),
    formulas=(r"N(c\,x)=N(x)\quad(c>0)", r"\mathrm{LN}(x+s\mathbf 1)=\mathrm{LN}(x)"),
    subject=row_subject,
    reading=_invariance_reading,
    pictures=invariance_pictures,
    tables={
        "changes": TableView(
            alt="Relative distance by norm and change, and what would be at epsilon 0.",
            titles={
                "norm": "norm", "change": "change", "at_epsilon_0": "at epsilon 0",
                "relative_distance": "distance, over the output's RMS",
            },
        )
    },
)  # fmt: skip


def divergence_pictures(result: Result, subject: str) -> Mapping[str, Picture]:
    """Ratio of the denominators and difference of the outputs while the row's mean moves."""
    means, axis = result.tables["means"], "mean of the row, in the row's own unit"
    return {
        "norm-divergence-ratio": Chart(
            title="RMSNorm's denominator over LayerNorm's", subject=subject, x_title=axis, y_title="ratio", log_y=False,
            lines=[
                Line.of(means, "mean", "denominator_ratio", "measured"),
                Line.of(means, "mean", "by_the_law", "by the law", 0, "predicted"),
            ],
            places=[(result.summary["mean"], "this row's mean")],
        ),
        "norm-divergence-output": Chart(
            title="Largest difference of the outputs", subject=subject, x_title=axis, y_title="difference", log_y=False,
            lines=[Line.of(means, "mean", "largest_output_difference", "over all features", 1)],
            places=[(result.summary["mean"], "this row's mean")],
        ),
    }  # fmt: skip


def _divergence_reading(result: Result) -> str:
    found = result.summary
    return (
        f"With mean {number(found['mean'])} and variance {number(found['variance'])} the denominators' ratio is "
        f"{number(found['denominator_ratio'])} (law {number(found['denominator_ratio_by_the_law'])}); some output "
        f"differs by {number(found['largest_output_difference'])}."
    )


NORM_DIVERGENCE = LabView(
    text=(
        "LayerNorm and RMSNorm are the same where the row has mean 0 and part as the mean grows beside the spread. The "
        "row keeps its shape here while its mean is moved from far below zero to far above."
    ),
    formulas=(r"\frac{r_{\mathrm{RMS}}}{r_{\mathrm{LN}}}=\sqrt{1+\frac{\mu^2}{\operatorname{Var}(x)+\varepsilon}}",),
    subject=row_subject,
    reading=_divergence_reading,
    pictures=divergence_pictures,
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
