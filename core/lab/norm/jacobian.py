"""Experiment: a norm's exact Jacobian, its null directions and singular values, beside a finite difference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.decoder.splitmix64 import FloatArray
from core.lab.norm.law import RowNorm
from core.lab.norm.row import NormOptions
from core.lab.options import number
from core.lab.result import Result

# Central differences of step h err by h^2 and by rounding / h: least near the cube root of binary64's unit.
STEP = 6.055454452393343e-06


@dataclass(frozen=True, kw_only=True)
class NormJacobianOptions(NormOptions):
    """A row, a norm, and the step of the difference."""

    epsilon: float = number(0.0, 0.0, 1e6, "Epsilon; at 0 the scale direction is null too.")
    step: float = number(STEP, 1e-9, 0.1, "Step of the central difference, times the row's largest entry.")


def norm_jacobian(options: NormJacobianOptions) -> Result:
    """Jacobian, its rank and singular values. Tables: `jacobian`, `singular_values`, `directions`."""
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
    """How many of the descending singular values stand above rounding, d * 2^-52 of the largest."""
    return int((values > values[0] * len(values) * np.finfo(np.float64).eps).sum())


def central_difference(law: RowNorm, x: FloatArray, step: float) -> FloatArray:
    """dy / dx `[d, d]` of one row by central differences of width 2 `step`."""
    moved = step * np.eye(len(x))
    return np.asarray((law(x + moved) - law(x - moved)).T / (2 * step))


def _directions(law: RowNorm, x: FloatArray, matrix: FloatArray) -> pd.DataFrame:
    """How much the norm passes of the two directions that may be null."""
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
