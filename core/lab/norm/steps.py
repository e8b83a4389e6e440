"""Experiment: a norm on one row, each step of its arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.decoder.splitmix64 import FloatArray
from core.lab.moments import rms
from core.lab.norm.law import RowNorm
from core.lab.norm.row import NormOptions
from core.lab.result import Result

MOMENT_NAMES = {"layernorm": "variance", "rmsnorm": "mean square", "prmsnorm": "partial mean square"}


@dataclass(frozen=True, kw_only=True)
class NormStepsOptions(NormOptions):
    """A row and a norm."""


def norm_steps(options: NormStepsOptions) -> Result:
    """Moments of the row and of the output. Table: `steps`, a row a step and coordinate (None for a scalar)."""
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
