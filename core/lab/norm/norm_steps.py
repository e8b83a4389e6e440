"""Experiment: every step of a norm's arithmetic on one row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from ..kit import Chart, Experiment, FloatArray, Line, Pictures, Printed, Result, TableView, cell, rms, rounded, scalar
from .law import RowNorm
from .row import NORM, OVER_FEATURES, ROW, NormOptions, norm_subject

MOMENT_NAMES = {"layernorm": "variance", "rmsnorm": "mean square", "prmsnorm": "partial mean square"}


def norm_steps(options: NormOptions) -> Result:
    """Return the moments of one row and of its norm's output, and all intermediate results.

    Table `steps` has one row per step and feature; a step whose result is a scalar has one row, with index -1.
    """
    x, law = options.row(), options.law()
    output = law(x)
    rows = []
    for step, (name, formula, value) in enumerate(_steps(law, x)):
        cells = enumerate(value.tolist()) if value.ndim else [(-1, float(value))]
        rows += [(step, name, formula, index, cell) for index, cell in cells]
    return Result(
        summary={
            "mean": x.mean(),
            "variance": x.var(),
            "mean_square": np.mean(x * x),
            "mean_squared_plus_variance": x.mean() ** 2 + x.var(),
            "denominator": law.denominator(x).item() if law.moves else None,
            "output_mean": output.mean(),
            "output_rms": rms(output),
        },
        tables={"steps": pd.DataFrame(rows, columns=["step", "quantity", "formula", "index", "value"])},
        notes=("A scalar has index -1. For any row the mean square is the squared mean plus the population variance.",),
    )


def _steps(law: RowNorm, x: FloatArray) -> Iterator[tuple[str, str, FloatArray]]:
    yield "input", "x", x
    if not law.moves:
        yield "scaled", "alpha x", law.alpha * x
        yield "squashed", "tanh(alpha x)", law.normalized(x)
    else:
        z, d = law.centered(x), len(x)
        if law.kind == "layernorm":
            yield "mean", "sum(x) / d", np.asarray(x.mean())
            yield "centered", "z = x - mean", z
        yield "squares", "z^2" if law.kind == "layernorm" else "x^2", np.square(z[: law.counted(d)])
        yield MOMENT_NAMES.get(law.kind, "squared length"), f"sum of squares / {law.divisor(d)}", law.moment(x)[0]
        formula = "sqrt(moment + epsilon)" if law.inside else "sqrt(moment) + epsilon"
        yield "denominator", formula, law.denominator(x)[0]
        yield "normalized", "z / denominator" if law.kind == "layernorm" else "x / denominator", law.normalized(x)
    if law.gain is not None:
        yield "gained", "gain normalized", law.gain * law.normalized(x)
    if law.bias is not None:
        yield "output", "gain normalized + bias", law(x)


# Numbers of a row that are written out in a table's cell.
WRITTEN = 16


def step_view(steps: pd.DataFrame) -> pd.DataFrame:
    """Return the table `steps` for display: one row per step, with up to 16 of its numbers in one cell."""
    rows: list[dict[str, Any]] = []
    for (_, quantity, formula), part in steps.groupby(["step", "quantity", "formula"], sort=False):
        values = [f"{value:.6g}" for value in part["value"].head(WRITTEN)]
        more = ", …" if len(part) > WRITTEN else ""
        rows.append({"step": quantity, "formula": formula, "value": ", ".join(values) + more})
    return pd.DataFrame(rows)


# The normalized features, by hand.
PRINTED = {
    "layernorm": ("0.333", "-1.667", "1.000", "0.333"),
    "rmsnorm": ("0.943", "-0.471", "1.414", "0.943"),
}


def _pictures(result: Result) -> Pictures:
    """Return the chart of the row before and after, and centered if the norm centers."""
    steps = result.tables["steps"]
    rows = {str(name): part for name, part in steps.groupby("quantity", sort=False) if part["index"].iloc[0] >= 0}
    shown = [name for name in rows if name not in ("squares", "scaled")]
    return {"row": Chart(
        title="The row through the norm", y_title="value", **OVER_FEATURES,
        lines=[Line.of(rows[name], "index", "value", name, index) for index, name in enumerate(shown)],
    )}  # fmt: skip


EXPERIMENT = Experiment(
    title="A norm step by step",
    label="Step by step",
    function=norm_steps,
    presets={
        "LayerNorm": {},
        "RMSNorm": {"norm": "rmsnorm"},
        "pRMSNorm": {"norm": "prmsnorm"},
        "ScaleNorm": {"norm": "scalenorm"},
        "DyT": {"norm": "dyt"},
    },
    controls=NORM,
    shared=ROW,
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
    reading=lambda found: (
        f"Mean {rounded(found['mean'])}, variance {rounded(found['variance'])}, mean square "
        f"{rounded(found['mean_square'])} = mean² + variance; the output has mean {found['output_mean']:.2g} and RMS "
        f"{rounded(found['output_rms'])}."
    ),
    draw=_pictures,
    tables={"steps": TableView(alt="Every step of the norm with its formula and numbers.", shape=step_view)},
    published=(
        *(
            Printed(what=name.replace("_", " "), printed=text, find=scalar(name), under={"norm": norm})
            for norm in PRINTED
            for name, text in (("mean", "3"), ("variance", "9"), ("mean_square", "18"))
        ),
        *(
            Printed(
                what=f"output of feature {index}",
                printed=text,
                under={"norm": norm},
                find=cell("steps", "value", quantity="normalized", index=index),
            )
            for norm, texts in PRINTED.items()
            for index, text in enumerate(texts)
        ),
    ),
)
