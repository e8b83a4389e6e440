"""Experiment: which changes of a row leave a norm's output unchanged: scale, shift, sign, order of the features."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from ..kit import Experiment, FloatArray, Matrix, Pictures, Result, TableView, grid, number, rms, rounded
from .law import NORMS, RowNorm
from .row import ROW, RowOptions, row_subject

Change = Callable[[FloatArray], FloatArray]


class NormInvariancesOptions(RowOptions):
    """Options: a row, epsilon, and the factor and shift by which the row is changed before the norm."""

    epsilon: float = number(
        1e-5, 0.0, 1e6, "Epsilon", "Epsilon inside the root; at 0 the invariances are exact.", step=1e-05
    )
    factor: float = number(100.0, 1e-6, 1e6, "Factor on the row", "Positive factor on the row.", step=1.0)
    shift: float = number(10.0, -1e6, 1e6, "Shift of every entry", "Constant added to every entry.", step=1.0)
    share: float = number(
        0.5,
        0.01,
        1.0,
        "pRMSNorm: part of the features",
        "pRMSNorm: part of the coordinates in the moment.",
        widget="slider",
        step=0.1,
        more=True,
    )
    alpha: float = number(0.5, -100.0, 100.0, "DyT: alpha", "DyT: slope inside the tanh.", step=0.1, more=True)


# Norms under which the output is unchanged, turns its sign, or is reordered along, epsilon being 0.
KEPT: Mapping[str, tuple[str, ...]] = {
    "factor": ("layernorm", "rmsnorm", "prmsnorm", "scalenorm"),
    "shift": ("layernorm",),
    "sign": NORMS,
    "order": ("layernorm", "rmsnorm", "scalenorm", "dyt"),
}
EXPECTED = {"factor": "unchanged", "shift": "unchanged", "sign": "sign turned", "order": "reordered along"}


def norm_invariances(options: NormInvariancesOptions) -> Result:
    """Return the distance of each norm's output on the changed row from the output that an invariant norm gives.

    Table `changes` has one row per norm and change; `relative_distance` is divided by the RMS of the unchanged output.
    """
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


# Distances below this one have no colour.
UNSEEN = 1e-6


def _pictures(result: Result) -> Pictures:
    """Return the heat map of how far every norm's output moves under every change, coloured by order of magnitude."""
    table = result.tables["changes"]
    norms, changes, distances = grid(table, "norm", "change", "relative_distance")
    _, _, words = grid(table, "norm", "change", "at_epsilon_0")
    texts = [
        [f"{'moved' if word == 'changed' else 'kept'}<br>{value:.2g}" for word, value in zip(*pair, strict=True)]
        for pair in zip(words, distances, strict=True)
    ]
    sizes = [[math.log10(max(value, UNSEEN)) for value in row] for row in distances]
    picture = Matrix(
        title="What each norm does not see", rows=norms, columns=changes,
        values=sizes, texts=texts, diverging=False, x_title="change of the row", y_title="",
        bar_title="log10 of the distance",
    )  # fmt: skip
    return {"changes": picture}


EXPERIMENT = Experiment(
    title="What each norm does not see",
    label="Invariances",
    function=norm_invariances,
    presets={"usual epsilon": {}, "no epsilon": {"epsilon": 0.0}},
    controls=("factor", "shift", "epsilon", *ROW, "share", "alpha"),
    shared=ROW,
    text=(
        "The row is multiplied by a factor, shifted, turned in sign and read backwards. A norm that does not see a "
        "change gives the output it gave before (turned or reordered along with the row), up to what epsilon does. "
        "What a norm does not see, nobody sees who looks at its output alone."
    ),
    formulas=(r"N(c\,x)=N(x)\quad(c>0)", r"\mathrm{LN}(x+s\mathbf 1)=\mathrm{LN}(x)"),
    subject=row_subject,
    reading=lambda found: (
        "Where a norm should see nothing, its output moves by at most "
        f"{rounded(found['largest_distance_where_invariant'])} of its size; epsilon and rounding are the cause."
    ),
    draw=_pictures,
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
