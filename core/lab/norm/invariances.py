"""Experiment: what each norm does not see: scale, shift, sign and order of a row's entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.decoder.splitmix64 import FloatArray
from core.lab.moments import rms
from core.lab.norm.law import NORMS, RowNorm
from core.lab.norm.row import RowOptions
from core.lab.options import number
from core.lab.result import Result

Change = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, kw_only=True)
class NormInvariancesOptions(RowOptions):
    """A row and what is done to it before the norm."""

    epsilon: float = number(1e-5, 0.0, 1e6, "Epsilon inside the root; at 0 the invariances are exact.")
    factor: float = number(100.0, 1e-6, 1e6, "Positive factor on the row.")
    shift: float = number(10.0, -1e6, 1e6, "Constant added to every entry.")
    share: float = number(0.5, 0.01, 1.0, "pRMSNorm: part of the coordinates in the moment.")
    alpha: float = number(0.5, -100.0, 100.0, "DyT: slope inside the tanh.")


# Norms under which the output is unchanged, turns its sign, or is reordered along, epsilon being 0.
KEPT: Mapping[str, tuple[str, ...]] = {
    "factor": ("layernorm", "rmsnorm", "prmsnorm", "scalenorm"),
    "shift": ("layernorm",),
    "sign": NORMS,
    "order": ("layernorm", "rmsnorm", "scalenorm", "dyt"),
}
EXPECTED = {"factor": "unchanged", "shift": "unchanged", "sign": "sign turned", "order": "reordered along"}


def norm_invariances(options: NormInvariancesOptions) -> Result:
    """How far each norm's output moves from what invariance predicts. Table: `changes`, relative to the output RMS."""
    x = options.row()
    # What is done to the row, and what an invariant norm would then give from its output on the plain row.
    changes: dict[str, tuple[Change, Change]] = {
        "factor": (lambda v: options.factor * v, lambda y: y),
        "shift": (lambda v: v + options.shift, lambda y: y),
        "sign": (lambda v: -v, lambda y: -y),
        "order": (lambda v: v[::-1].copy(), lambda y: y[::-1]),
    }
    rows = []
    for kind in NORMS:
        law = RowNorm(kind=kind, epsilon=options.epsilon, share=options.share, alpha=options.alpha)
        plain = law(x)
        for name, (change, expected) in changes.items():
            distance, size = rms(law(change(x)) - expected(plain)), rms(plain)
            kept = kind in KEPT[name]
            rows.append((kind, name, EXPECTED[name] if kept else "changed", distance / size if size else np.nan))
    table = pd.DataFrame(rows, columns=["norm", "change", "at_epsilon_0", "relative_distance"])
    exact = table[table["at_epsilon_0"] != "changed"]["relative_distance"]
    return Result(
        summary={"largest_distance_where_invariant": exact.max(), "input_rms": rms(x)},
        tables={"changes": table},
        notes=(
            "The relative distance is from the output that an invariant norm would give, over the plain output's RMS.",
        ),
    )
