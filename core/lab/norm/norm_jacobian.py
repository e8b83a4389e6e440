"""Experiment: a norm's exact Jacobian, its singular values, and the directions that it maps to 0."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..kit import (
    Chart,
    Experiment,
    FloatArray,
    Line,
    Matrix,
    Pictures,
    Result,
    TableView,
    closeness,
    grid,
    number,
    rounded,
)
from .law import STEP, RowNorm, central_difference
from .row import NORM, ROW, NormOptions, norm_subject


class NormJacobianOptions(NormOptions):
    """Options: a row, a norm, and the step of the finite difference."""

    epsilon: float = number(
        0.0,
        0.0,
        1e6,
        "Epsilon",
        "Epsilon; at 0 the scale direction is null too.",
        step=1e-05,
        when=("norm", ("layernorm", "rmsnorm", "prmsnorm", "scalenorm")),
    )
    step: float = number(
        STEP,
        1e-9,
        0.1,
        "Step of the difference",
        "Step of the central difference, times the row's largest entry.",
        step=1e-06,
        more=True,
    )


def norm_jacobian(options: NormJacobianOptions) -> Result:
    """Return the Jacobian of a norm at one row, its rank and its singular values.

    Table `jacobian` has every entry, exact and by finite differences; `singular_values` the values, largest first;
    `directions` by how much the Jacobian multiplies the directions that a norm may map to 0.
    """
    x, law = options.row(), options.law()
    matrix = law.jacobian(x)
    numeric = central_difference(law, x, options.step * (np.abs(x).max() or 1.0))
    values = np.asarray(np.linalg.svd(matrix, compute_uv=False), dtype=np.float64)
    d = len(x)
    row, column = np.divmod(np.arange(d * d), d)
    return Result(
        summary={
            "rank": matrix_rank(values),
            "width": d,
            "largest_singular_value": values[0],
            "largest_difference": np.abs(matrix - numeric).max(),
            "one_over_denominator": 1.0 / law.denominator(x).item() if law.moves else None,
        },
        tables={
            "jacobian": pd.DataFrame(
                {
                    "output": row,
                    "input": column,
                    "exact": matrix.ravel(),
                    "finite_difference": numeric.ravel(),
                    "difference": (matrix - numeric).ravel(),
                }
            ),
            "singular_values": pd.DataFrame({"index": np.arange(d), "singular_value": values}),
            "directions": _directions(law, x, matrix),
        },
        notes=("Without epsilon LayerNorm has rank d - 2 (shift and scale are null), RMSNorm d - 1 (scale alone).",),
    )


def matrix_rank(values: FloatArray) -> int:
    """Return the rank of a d x d matrix: the number of singular values that exceed d * 2^-52 times the largest.

    `values` are the d singular values, largest first.
    """
    return int((values > values[0] * len(values) * np.finfo(np.float64).eps).sum())


def _directions(law: RowNorm, x: FloatArray, matrix: FloatArray) -> pd.DataFrame:
    """Return by how much the Jacobian multiplies the two directions that may be null."""
    named = {"shift (all ones)": np.ones_like(x), "scale (the row without its mean)": law.centered(x)}
    if law.kind != "layernorm":
        named = {"shift (all ones)": np.ones_like(x), "scale (the row itself)": x}
    sizes = {name: float(np.linalg.norm(matrix @ v) / (np.linalg.norm(v) or 1.0)) for name, v in named.items()}
    largest = float(np.linalg.norm(matrix, 2))
    return pd.DataFrame(
        {
            "direction": list(sizes),
            "passed": list(sizes.values()),
            "share_of_largest": [size / largest if largest else np.nan for size in sizes.values()],
        }
    )


def _denominator(result: Result) -> list[tuple[float, str]]:
    value = result.summary["one_over_denominator"]
    return [] if value is None else [(value, "1 / denominator")]


def _pictures(result: Result) -> Pictures:
    """Return the exact Jacobian as a matrix, and the chart of its singular values."""
    table, values = result.tables["jacobian"], result.tables["singular_values"]
    features, _, cells = grid(table, "output", "input", "exact")
    names = [str(feature) for feature in features]
    return {
        "matrix": Matrix(
            title="Exact Jacobian dy / dx", rows=names, columns=names,
            values=cells, x_title="input feature", y_title="output feature", bar_title="dy / dx",
        ),
        "singular-values": Chart(
            title="Singular values", x_title="index, largest first", y_title="singular value",
            whole_x=True, lines=[Line.of(values, "index", "singular_value", "of the exact Jacobian", look="points")],
            levels=_denominator(result),
        ),
    }  # fmt: skip


EXPERIMENT = Experiment(
    title="Jacobian, null directions and singular values",
    label="Jacobian",
    function=norm_jacobian,
    presets={"LayerNorm": {}, "RMSNorm": {"norm": "rmsnorm"}, "with epsilon": {"epsilon": 1.0}},
    controls=(*NORM, "step"),
    shared=ROW,
    text=(
        "A norm passes a small change on through its Jacobian: a projection, divided by the row's size. Without "
        "epsilon LayerNorm loses two directions, the shift of all entries and the row's own scale; RMSNorm loses the "
        "scale alone. A row c times larger has a Jacobian c times smaller."
    ),
    formulas=(
        r"\frac{\partial y}{\partial x}=\operatorname{diag}(g)\left(\frac{C}{r}-\frac{z}{r^2}"
        r"\Bigl(\frac{\partial r}{\partial x}\Bigr)^{\!\top}\right)",
        r"C=I-\tfrac1d\mathbf 1\mathbf 1^{\top}\ \text{(LayerNorm)},\quad I\ \text{(others)}",
    ),
    subject=norm_subject,
    reading=lambda found: (
        f"The Jacobian has rank {found['rank']} of {found['width']}: {found['width'] - found['rank']} directions are "
        f"lost. The largest singular value is {rounded(found['largest_singular_value'])}, and a central difference "
        f"agrees {closeness(found['largest_difference'])}."
    ),
    draw=_pictures,
    tables={
        "directions": TableView(
            alt="How much the norm passes of the directions that may be null.",
            titles={"direction": "direction", "passed": "passed", "share_of_largest": "share of the largest"},
        ),
        "singular_values": TableView(
            alt="Singular values, largest first.", titles={"index": "index", "singular_value": "singular value"}
        ),
        "jacobian": TableView(
            alt="Every entry, exact and by central difference.",
            titles={
                "output": "output", "input": "input", "exact": "exact", "finite_difference": "central difference",
                "difference": "difference",
            },
        ),
    },
)  # fmt: skip
