"""Experiment: epsilon added inside the square root of a norm, or outside of it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..kit import Chart, Experiment, Line, Pictures, Result, TableView, choice, number, rms, rounded
from .epsilon import MOMENT_NORMS, ROOT_AXIS, SHARE_AXIS, scales
from .law import RowNorm
from .row import ROW, RowOptions, norm_kind, row_subject


class EpsilonPlacementOptions(RowOptions):
    """Options: a row, the factor on it, a norm that divides by the root of a moment (see `RowNorm`), and epsilon."""

    norm: str = choice("layernorm", MOMENT_NORMS, "Norm", "Which norm.", widget="choice")
    epsilon: float = number(
        1e-5, 1e-30, 1e6, "Epsilon", "The same number in both places; it has other units in each.", step=1e-05
    )
    factor: float = number(1.0, 1e-12, 1e6, "Factor on the row", "Factor on the row.", step=0.01)


def epsilon_placement(options: EpsilonPlacementOptions) -> Result:
    """Return the norm's output with epsilon inside and outside the square root.

    Table `scales` has the share of full size for the row at many sizes; `output` has the row and both outputs.
    """
    x = options.factor * options.row()
    places = {
        name: RowNorm(kind=norm_kind(options.norm), epsilon=options.epsilon, inside=name == "inside")
        for name in ("inside", "outside")
    }
    outputs = {name: law(x) for name, law in places.items()}
    return Result(
        summary={
            "inside_rms": rms(outputs["inside"]),
            "outside_rms": rms(outputs["outside"]),
            "largest_difference": np.abs(outputs["inside"] - outputs["outside"]).max(),
        },
        tables={
            "scales": scales(x, places),
            "output": pd.DataFrame({"index": np.arange(len(x)), "input": x, **outputs}),
        },
        notes=(
            "The two curves are the share of full size: sqrt(s / (s + epsilon)) and sqrt(s) / (sqrt(s) + epsilon).",
        ),
    )


def _pictures(result: Result) -> Pictures:
    """Return the chart of the share of full size with epsilon in either place."""
    scales = result.tables["scales"]
    return {"scales": Chart(
        title="Epsilon inside or outside the root", x_title=ROOT_AXIS, y_title=SHARE_AXIS, log_x=True,
        lines=[
            Line.of(scales, "root_of_moment", "inside", "inside the root", 0),
            Line.of(scales, "root_of_moment", "outside", "outside the root", 1),
        ],
        levels=[(1.0, "full size, 1")],
    )}  # fmt: skip


EXPERIMENT = Experiment(
    title="Epsilon inside or outside the root",
    label="Epsilon's place",
    function=epsilon_placement,
    presets={"usual row": {}, "a tiny row": {"factor": 0.0001}},
    controls=("norm", "factor", "epsilon", *ROW),
    shared=ROW,
    text=(
        "The same number means different things in the two places: inside the root it is added to a square, outside to "
        "a size. For the same epsilon the floor lies at its root inside, and at epsilon itself outside."
    ),
    formulas=(r"\frac{z}{\sqrt{s+\varepsilon}}\qquad\text{or}\qquad\frac{z}{\sqrt{s}+\varepsilon}",),
    subject=lambda options: (
        f"{options.norm}, epsilon {options.epsilon:g}, {row_subject(options)}, times {options.factor:g}"
    ),
    reading=lambda found: (
        f"The output has RMS {rounded(found['inside_rms'])} with epsilon inside the root and "
        f"{rounded(found['outside_rms'])} outside; no feature differs by more than "
        f"{rounded(found['largest_difference'])}."
    ),
    draw=_pictures,
    tables={
        "output": TableView(
            alt="The row and both outputs.",
            titles={"index": "feature", "input": "input", "inside": "inside", "outside": "outside"},
        ),
        "scales": TableView(
            alt="Share of full size by the row's size and epsilon's place.",
            titles={
                "factor": "factor", "root_of_moment": "root of the moment", "inside": "inside", "outside": "outside",
            },
        ),
    },
)  # fmt: skip
