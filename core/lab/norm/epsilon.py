"""What the experiments on epsilon share: the share of full size, which is a norm's output over that for epsilon = 0."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from ..kit import FloatArray
from .law import RowNorm

# Powers of ten from and to which a row is scaled, and how many steps lie between.
LOWEST, HIGHEST, STEPS = -8, 4, 121
MOMENT_NORMS = ("layernorm", "rmsnorm", "scalenorm")
SHARE_AXIS = "share of full size"
ROOT_AXIS = "root of the row's moment, in the row's own unit"


def scales(x: FloatArray, laws: Mapping[str, RowNorm]) -> pd.DataFrame:
    """Return the share of full size of a norm's output for the row `x` times factors from 1e-8 to 1e4, as a table.

    The share is the output divided by the output for epsilon = 0, which is sqrt(moment) / denominator; `RowNorm`
    defines both. Columns: `factor`, `root_of_moment` (of the scaled row) and one column of shares per norm in `laws`,
    under its name there.
    """
    factors = np.logspace(LOWEST, HIGHEST, STEPS)
    rows = factors[:, None] * x
    roots = np.sqrt(next(iter(laws.values())).moment(rows)[:, 0])
    shares = {name: roots / law.denominator(rows)[:, 0] for name, law in laws.items()}
    return pd.DataFrame({"factor": factors, "root_of_moment": roots, **shares})
