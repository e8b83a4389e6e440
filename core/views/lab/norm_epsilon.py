"""Views of epsilon's two jobs and its two places, and of the two variances."""

from __future__ import annotations

import math
from collections.abc import Mapping

from core.lab.norm.epsilon import EpsilonPlacementOptions, NormEpsilonOptions, VarianceDivisorOptions
from core.lab.result import Result
from core.views.lab.chart import Chart, Line
from core.views.lab.norm_rows import FEATURE_AXIS, norm_subject, row_subject
from core.views.lab.view import LabView, Picture, TableView, number

SHARE_AXIS = "share of full size"
ROOT_AXIS = "root of the row's moment, in the row's own unit"
DIVISORS = ("population", "sample")


def _factor_subject(options: NormEpsilonOptions | EpsilonPlacementOptions) -> str:
    norm = norm_subject(options) if isinstance(options, NormEpsilonOptions) else ""
    plain = norm or f"{options.norm}, epsilon {options.epsilon:g}, {row_subject(options)}"
    return f"{plain}, times {options.factor:g}"


def epsilon_pictures(result: Result, subject: str) -> Mapping[str, Picture]:
    """Share of full size against the row's size, with this row on the curve."""
    found, root = result.summary, math.sqrt(result.summary["moment"])
    chart = Chart(
        title="Epsilon sets a floor", subject=subject, x_title=ROOT_AXIS, y_title=SHARE_AXIS, log_x=True,
        lines=[
            Line.of(result.tables["scales"], "root_of_moment", "share_of_full_size", "share of full size", 0),
            Line(name="this row", x=[root], y=[found["share_of_full_size"]], index=1, look="points"),
        ],
        levels=[(1.0, "full size, 1")],
        places=[(math.sqrt(found["half_size_moment"]), "half size")] if found["half_size_moment"] > 0 else (),
    )  # fmt: skip
    return {"norm-epsilon-scales": chart}


def _epsilon_reading(result: Result) -> str:
    found = result.summary
    flat = found["constant_row_refusal"] or "The constant row is answered without a division by 0."
    return f"This row leaves the norm at {found['share_of_full_size']:.2%} of its full size. {flat}"


NORM_EPSILON = LabView(
    text=(
        "Epsilon has two jobs. It keeps a row of equal entries from dividing 0 by 0, and it sets a floor: rows smaller "
        "than about the root of epsilon are shrunk instead of blown up. s is the row's moment: make it small by the "
        "factor and watch the row slide down the curve."
    ),
    formulas=(r"\text{share of full size}=\sqrt{\frac{s}{s+\varepsilon}}",),
    subject=_factor_subject,
    reading=_epsilon_reading,
    pictures=epsilon_pictures,
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
)


def place_pictures(result: Result, subject: str) -> Mapping[str, Picture]:
    """Share of full size with epsilon in either place."""
    scales = result.tables["scales"]
    chart = Chart(
        title="Epsilon inside or outside the root", subject=subject, x_title=ROOT_AXIS, y_title=SHARE_AXIS, log_x=True,
        lines=[
            Line.of(scales, "root_of_moment", "inside", "inside the root", 0),
            Line.of(scales, "root_of_moment", "outside", "outside the root", 1),
        ],
        levels=[(1.0, "full size, 1")],
    )  # fmt: skip
    return {"epsilon-placement-scales": chart}


def _place_reading(result: Result) -> str:
    found = result.summary
    return (
        f"The output has RMS {number(found['inside_rms'])} with epsilon inside the root and "
        f"{number(found['outside_rms'])} outside; no feature differs by more than "
        f"{number(found['largest_difference'])}."
    )


EPSILON_PLACEMENT = LabView(
    text=(
        "The same number means different things in the two places: inside the root it is added to a square, outside to "
        "a size. For the same epsilon the floor lies at its root inside, and at epsilon itself outside."
    ),
    formulas=(r"\frac{z}{\sqrt{s+\varepsilon}}\qquad\text{or}\qquad\frac{z}{\sqrt{s}+\varepsilon}",),
    subject=_factor_subject,
    reading=_place_reading,
    pictures=place_pictures,
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


def divisor_pictures(result: Result, subject: str) -> Mapping[str, Picture]:
    """Both outputs on this row, and their ratio against width."""
    output, widths = result.tables["output"], result.tables["widths"]
    lines = [Line.of(output, "index", name, f"{name} variance", index) for index, name in enumerate(DIVISORS)]
    return {
        "variance-divisor-output": Chart(
            title="LayerNorm with either divisor", subject=subject, x_title=FEATURE_AXIS, y_title="output",
            log_y=False, whole_x=True, lines=lines, levels=[(0.0, "0")],
        ),
        "variance-divisor-widths": Chart(
            title="Ratio of the outputs against width", subject="epsilon 0", x_title="width d, features",
            y_title="sample over population", log_x=True, log_y=False, levels=[(1.0, "no difference, 1")],
            lines=[Line.of(widths, "width", "output_ratio_at_epsilon_0", "sqrt(1 - 1/d)", 0, "predicted")],
        ),
    }  # fmt: skip


def _divisor_reading(result: Result) -> str:
    found = result.summary
    return (
        f"The population variance is {number(found['population_variance'])}, the sample variance "
        f"{number(found['sample_variance'])}; the outputs' ratio is {number(found['output_ratio'])} "
        f"(sqrt(1 - 1/d) = {number(found['output_ratio_at_epsilon_0'])})."
    )


def _divisor_subject(options: VarianceDivisorOptions) -> str:
    return f"epsilon {options.epsilon:g}, {row_subject(options)}"


VARIANCE_DIVISOR = LabView(
    text=(
        "LayerNorm divides by the population variance, with d; statistics packages often use d - 1. On a row of four "
        "that is 13%, at the width of a model nothing one would notice, and a hidden mismatch all the same."
    ),
    formulas=(r"\frac{\mathrm{LN}_{d-1}(x)}{\mathrm{LN}_{d}(x)}=\sqrt{1-\tfrac1d}\qquad(\varepsilon=0)",),
    subject=_divisor_subject,
    reading=_divisor_reading,
    pictures=divisor_pictures,
    tables={
        "output": TableView(
            alt="The row and both outputs.",
            titles={"index": "feature", "input": "input", "population": "divided by d", "sample": "divided by d - 1"},
        ),
        "widths": TableView(
            alt="Ratio of the outputs by width.",
            titles={"width": "width", "output_ratio_at_epsilon_0": "ratio at epsilon 0"},
        ),
    },
)
