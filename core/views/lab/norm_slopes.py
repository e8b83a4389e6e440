"""Views of a norm's Jacobian and of the gradients through it."""

from __future__ import annotations

from collections.abc import Mapping

from core.lab.result import Result
from core.views.lab.chart import Chart, Line
from core.views.lab.matrix import Matrix
from core.views.lab.norm_rows import FEATURE_AXIS, norm_subject
from core.views.lab.view import LabView, Picture, TableView, closeness, counted, number


def jacobian_pictures(result: Result, subject: str) -> Mapping[str, Picture]:
    """The exact Jacobian as a matrix, and its singular values."""
    table, values = result.tables["jacobian"], result.tables["singular_values"]
    grid = table.pivot(index="output", columns="input", values="exact")
    names = [str(name) for name in grid.index]
    return {
        "norm-jacobian-matrix": Matrix(
            title="Exact Jacobian dy / dx", subject=subject, rows=names, columns=names,
            values=grid.to_numpy().tolist(), x_title="input feature", y_title="output feature", bar_title="dy / dx",
        ),
        "norm-jacobian-singular-values": Chart(
            title="Singular values", subject=subject, x_title="index, largest first", y_title="singular value",
            whole_x=True, lines=[Line.of(values, "index", "singular_value", "of the exact Jacobian", look="points")],
            levels=_denominator(result),
        ),
    }  # fmt: skip


def _denominator(result: Result) -> list[tuple[float, str]]:
    value = result.summary["one_over_denominator"]
    return [] if value is None else [(value, "1 / denominator")]


def _jacobian_reading(result: Result) -> str:
    found = result.summary
    return (
        f"The Jacobian has rank {found['rank']} of {found['width']}: {found['width'] - found['rank']} directions are "
        f"lost. The largest singular value is {number(found['largest_singular_value'])}, and a central difference "
        f"agrees {closeness(found['largest_difference'])}."
    )


NORM_JACOBIAN = LabView(
    text=(
        "A norm passes a small change on through its Jacobian: a projection, divided by the row's size. Without "
        "epsilon LayerNorm loses two directions, the shift of all entries and the row's own scale; RMSNorm loses the "
        "scale alone. A row c times larger has a Jacobian c times smaller."
    ),
    formulas=(
        r"\frac{\partial y}{\partial x}=\operatorname{diag}(g)\left(\frac{C}{r}-\frac{z}{r^2}"
        r"\Bigl(\frac{\partial r}{\partial x}\Bigr)^{\!\top}\right)",
        r"C=I-\tfrac1d\mathbf 1\mathbf 1^{\top}\ \text{(LayerNorm)},\quad I\ \text{(others)}",
    ),
    subject=norm_subject,
    reading=_jacobian_reading,
    pictures=jacobian_pictures,
    tables={
        "directions": TableView(
            alt="How much the norm passes of the directions that may be null.",
            titles={"direction": "direction", "passed": "passed", "share_of_largest": "share of the largest"},
        ),
        "singular_values": TableView(
            alt="Singular values, largest first.", titles={"index": "index", "singular_value": "singular value"}
        ),
        "jacobian": TableView(
            alt="Every entry, exact and by central difference.",
            titles={
                "output": "output", "input": "input", "exact": "exact", "finite_difference": "central difference",
                "difference": "difference",
            },
        ),
    },
)  # fmt: skip


def gradient_pictures(result: Result, subject: str) -> Mapping[str, Picture]:
    """The input gradient term by term, and the gradients of gain and bias."""
    terms, affine = result.tables["input_terms"], result.tables["affine"]
    named = [(str(name), rows) for name, rows in terms.groupby("term", sort=False)]
    solid = [pair for pair in named if pair[0] != "finite_difference"]
    lines = [Line.of(rows, "index", "value", name, index) for index, (name, rows) in enumerate(solid)]
    check = dict(named)["finite_difference"]
    lines.append(Line.of(check, "index", "value", "central difference", 0, "predicted"))
    return {
        "norm-gradients-input": Chart(
            title="Gradient at the input, term by term", subject=subject, lines=lines, x_title=FEATURE_AXIS,
            y_title="gradient", log_y=False, whole_x=True, levels=[(0.0, "0")],
        ),
        "norm-gradients-affine": Chart(
            title="Gradients of gain and bias", subject=f"summed over {counted(result.summary['rows'], 'row')}",
            x_title=FEATURE_AXIS, y_title="gradient", log_y=False, whole_x=True, levels=[(0.0, "0")],
            lines=[
                Line.of(affine, "index", "gain_gradient", "gain", 0),
                Line.of(affine, "index", "bias_gradient", "bias", 1),
            ],
        ),
    }  # fmt: skip


def _gradient_reading(result: Result) -> str:
    found = result.summary
    return (
        f"The terms' sum agrees with a central difference {closeness(found['largest_difference'])}. Along all ones it "
        f"is {found['gradient_along_ones']:.2g}, along the row itself {found['gradient_along_row']:.2g}."
    )


NORM_GRADIENTS = LabView(
    text=(
        "What arrives at the output is divided by the denominator (incoming); LayerNorm takes its mean away (mean); "
        "and what would move the row's own scale is removed (radial). Gain and bias belong to all rows, so their "
        "gradients are sums over rows; several rows may be typed, with semicolons between them."
    ),
    formulas=(
        r"\frac{\partial\mathcal L}{\partial x}=\underbrace{\frac{u}{r}}_{\text{incoming}}"
        r"\underbrace{-\frac{\bar u}{r}}_{\text{mean}}"
        r"\underbrace{-\frac{u^{\top}z}{r^2}\,\frac{\partial r}{\partial x}}_{\text{radial}}",
        r"u=g\odot\frac{\partial\mathcal L}{\partial y}",
    ),
    subject=norm_subject,
    reading=_gradient_reading,
    pictures=gradient_pictures,
    tables={
        "input_terms": TableView(
            alt="Every term at every feature.", titles={"term": "term", "index": "feature", "value": "gradient"}
        ),
        "affine": TableView(
            alt="Gradients of gain and bias.",
            titles={"index": "feature", "gain_gradient": "gain", "bias_gradient": "bias"},
        ),
    },
)
