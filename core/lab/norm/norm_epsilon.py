"""Experiment: the two purposes of epsilon.

First, it avoids a division of 0 by 0. Second, it limits how much a small row is amplified: with moment s, the output
has sqrt(s / (s + epsilon)) of the size that it has for epsilon = 0. Rows whose RMS is below sqrt(epsilon) stay small.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from ..kit import (
    Chart,
    Experiment,
    Line,
    Pictures,
    Printed,
    Result,
    TableView,
    UndefinedNorm,
    cell,
    choice,
    number,
    rms,
)
from .epsilon import MOMENT_NORMS, ROOT_AXIS, SHARE_AXIS, scales
from .row import ROW, NormOptions, norm_subject


class NormEpsilonOptions(NormOptions):
    """Options: a row, the factor on it, and a norm that divides by the root of a moment (see `RowNorm`).

    `constant` is the value of all features of a second row, the constant row.
    """

    norm: str = choice("rmsnorm", MOMENT_NORMS, "Norm", "Which norm.", widget="choice")
    factor: float = number(0.0001, 1e-12, 1e6, "Factor on the row", "Factor on the row.", step=0.0001)
    constant: float = number(5.0, -1e6, 1e6, "Entry of the constant row", "Entry of the constant row.", step=1.0)


def norm_epsilon(options: NormEpsilonOptions) -> Result:
    """Return the output of the scaled row, its share of full size (see the module), and the output of the constant row.

    Table `scales` has the share for the row at many sizes, `output` the scaled row and its output, `constant_row` the
    constant row and its output, NaN if the norm divides by 0.
    """
    x, law = options.row(), options.law()
    scaled = options.factor * x
    output = law(scaled)
    constant = np.full(len(x), options.constant)
    try:
        flat, refusal = law(constant), ""
    except UndefinedNorm as error:
        flat, refusal = np.full(len(x), np.nan), str(error)
    return Result(
        summary={
            "output_rms": rms(output),
            "share_of_full_size": float(np.sqrt(law.moment(scaled)[0]) / law.denominator(scaled)[0]),
            "moment": law.moment(scaled)[0],
            "half_size_moment": options.epsilon / 3 if law.inside else options.epsilon**2,
            "constant_row_refusal": refusal,
        },
        tables={
            "scales": scales(x, {"share_of_full_size": law}),
            "output": pd.DataFrame({"index": np.arange(len(x)), "input": scaled, "output": output}),
            "constant_row": pd.DataFrame({"index": np.arange(len(x)), "input": constant, "output": flat}),
        },
    )


PRINTED = {
    ("layernorm", 0.01): ("0.331", "-1.657", "0.994", "0.331"),
    ("rmsnorm", 0.01): ("0.94", "-0.47", "1.41", "0.94"),
    ("rmsnorm", 0.0001): ("0.125", "-0.063", "0.188", "0.125"),
}


def _pictures(result: Result) -> Pictures:
    """Return the chart of the share of full size against the row's size, with this row on the curve."""
    found, root = result.summary, math.sqrt(result.summary["moment"])
    return {"scales": Chart(
        title="Epsilon sets a floor", x_title=ROOT_AXIS, y_title=SHARE_AXIS, log_x=True,
        lines=[
            Line.of(result.tables["scales"], "root_of_moment", "share_of_full_size", "share of full size", 0),
            Line(name="this row", x=[root], y=[found["share_of_full_size"]], index=1, look="points"),
        ],
        levels=[(1.0, "full size, 1")],
        places=[(math.sqrt(found["half_size_moment"]), "half size")] if found["half_size_moment"] > 0 else (),
    )}  # fmt: skip


EXPERIMENT = Experiment(
    title="Epsilon's two jobs",
    label="Epsilon",
    function=norm_epsilon,
    presets={"a tiny row": {}, "no epsilon": {"norm": "layernorm", "epsilon": 0.0, "factor": 1.0}},
    controls=("norm", "factor", "constant", "epsilon", *ROW, "placement", "variance", "gain", "bias"),
    shared=ROW,
    text=(
        "Epsilon has two jobs. It keeps a row of equal entries from dividing 0 by 0, and it sets a floor: rows smaller "
        "than about the root of epsilon are shrunk instead of blown up. s is the row's moment: make it small by the "
        "factor and watch the row slide down the curve."
    ),
    formulas=(r"\text{share of full size}=\sqrt{\frac{s}{s+\varepsilon}}",),
    subject=lambda options: f"{norm_subject(options)}, times {options.factor:g}",
    reading=lambda found: (
        f"This row leaves the norm at {found['share_of_full_size']:.2%} of its full size. "
        f"{found['constant_row_refusal'] or 'The constant row is answered without a division by 0.'}"
    ),
    draw=_pictures,
    tables={
        "output": TableView(
            alt="The scaled row and its output.", titles={"index": "feature", "input": "input", "output": "output"}
        ),
        "constant_row": TableView(
            alt="The constant row and its output; missing where it is refused.",
            titles={"index": "feature", "input": "input", "output": "output"},
        ),
        "scales": TableView(
            alt="Share of full size by the row's size.",
            titles={"factor": "factor", "root_of_moment": "root of the moment", "share_of_full_size": SHARE_AXIS},
        ),
    },
    published=(
        *(
            Printed(
                what=f"constant row, feature {index}",
                printed="0",
                find=cell("constant_row", "output", index=index),
                under={"norm": "layernorm", "factor": 0.01},
            )
            for index in range(4)
        ),
        *(
            Printed(
                what=f"output of feature {index}",
                printed=text,
                find=cell("output", "output", index=index),
                under={"norm": norm, "factor": factor},
            )
            for (norm, factor), texts in PRINTED.items()
            for index, text in enumerate(texts)
        ),
    ),
)
