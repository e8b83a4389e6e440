"""What the experiments on epsilon share: the *share of full size*, the output relative to that without epsilon."""

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
    """Return the share of full size, sqrt(moment) / denominator, of the scaled row, one column per law."""
    factors = np.logspace(LOWEST, HIGHEST, STEPS)
    rows = factors[:, None] * x
    roots = np.sqrt(next(iter(laws.values())).moment(rows)[:, 0])
    shares = {name: roots / law.denominator(rows)[:, 0] for name, law in laws.items()}
    return pd.DataFrame({"factor": factors, "root_of_moment": roots, **shares})
