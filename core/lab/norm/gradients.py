"""Experiment: gradients through a norm, term by term, for the input and for gain and bias."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.errors import LabError
from core.lab.norm.jacobian import STEP, central_difference
from core.lab.norm.row import MAX_WIDTH, NormOptions
from core.lab.options import numbers, whole
from core.lab.result import Result


@dataclass(frozen=True, kw_only=True)
class NormGradientsOptions(NormOptions):
    """Rows, a norm, and the gradient that arrives at its output."""

    upstream: tuple[float, ...] | None = numbers(None, 1, MAX_WIDTH, "Gradient at the output; drawn unless given.")
    upstream_seed: int = whole(0, 0, 2**31, "Seed of a drawn upstream gradient, unit-normal, a row each.")

    def check(self) -> None:
        """Refuse an upstream gradient of another width."""
        super().check()
        if self.upstream is not None and len(self.upstream) != self.length:
            raise LabError(
                f"upstream has {len(self.upstream)} numbers and the row has {self.length}; give one for each."
            )


def norm_gradients(options: NormGradientsOptions) -> Result:
    """Terms of the input gradient, and affine gradients over all rows. Tables: `input_terms`, `affine`."""
    rows, law, looked = options.all_rows(), options.law(), options.looked_at
    if options.upstream is None:
        upstream = np.random.default_rng(options.upstream_seed).standard_normal(rows.shape)
    else:
        upstream = np.broadcast_to(np.array(options.upstream), rows.shape)
    x, arriving = rows[looked], upstream[looked]
    terms = law.gradient_terms(x, arriving)
    total = law.input_gradient(x, arriving)
    numeric = arriving @ central_difference(law, x, STEP * (np.abs(x).max() or 1.0))
    named = {"upstream": arriving, **terms, "total": total, "finite_difference": numeric}
    gain, bias = law.affine_gradients(rows, upstream)
    index = np.arange(rows.shape[1])
    return Result(
        summary={
            "largest_difference": np.abs(total - numeric).max(),
            "gradient_along_ones": total.sum() / np.sqrt(len(x)),
            "gradient_along_row": float(total @ x) / (float(np.linalg.norm(x)) or 1.0),
            "rows": len(rows),
        },
        tables={
            "input_terms": pd.concat(
                [pd.DataFrame({"term": name, "index": index, "value": value}) for name, value in named.items()],
                ignore_index=True,
            ),
            "affine": pd.DataFrame({"index": index, "gain_gradient": gain, "bias_gradient": bias}),
        },
        notes=("The terms sum to the total; gain and bias gradients sum over all rows, for the rows share them.",),
    )
