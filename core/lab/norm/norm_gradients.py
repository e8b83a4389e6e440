"""Experiment: the gradients of a norm with respect to its input, term by term, and to its gain and bias."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..kit import Chart, Experiment, LabError, Line, Pictures, Result, TableView, closeness, numbers, plural, whole
from .law import STEP, central_difference
from .row import MAX_WIDTH, NORM, OVER_FEATURES, ROW, NormOptions, norm_subject


class NormGradientsOptions(NormOptions):
    """Options: rows, a norm, and the upstream gradient, which is the gradient of the loss at the norm's output."""

    upstream: tuple[float, ...] | None = numbers(
        None, 1, MAX_WIDTH, "Gradient at the output", "Gradient at the output; drawn unless given.", more=True
    )
    upstream_seed: int = whole(
        0,
        0,
        2**31,
        "Seed of a drawn gradient",
        "Seed of a drawn upstream gradient, unit-normal, a row each.",
        more=True,
    )

    def check(self) -> None:
        """Raise `LabError` if the upstream gradient and the rows have different numbers of features."""
        super().check()
        if self.upstream is not None and len(self.upstream) != self.length:
            raise LabError(
                f"upstream has {len(self.upstream)} numbers and the row has {self.length}; give one for each."
            )


def norm_gradients(options: NormGradientsOptions) -> Result:
    """Return the terms of the gradient at the examined row, and the gradients of gain and bias summed over all rows.

    Table `input_terms` has one row per term and feature, with the sum and a finite difference; `affine` has one row per
    feature.
    """
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


def _pictures(result: Result) -> Pictures:
    """Return charts of the input gradient term by term, and of the gradients of gain and bias."""
    terms, affine = result.tables["input_terms"], result.tables["affine"]
    named = [(str(name), rows) for name, rows in terms.groupby("term", sort=False)]
    solid = [pair for pair in named if pair[0] != "finite_difference"]
    lines = [Line.of(rows, "index", "value", name, index) for index, (name, rows) in enumerate(solid)]
    check = dict(named)["finite_difference"]
    lines.append(Line.of(check, "index", "value", "central difference", 0, "predicted"))
    return {
        "input": Chart(
            title="Gradient at the input, term by term", lines=lines, y_title="gradient",
            **OVER_FEATURES,
        ),
        "affine": Chart(
            title="Gradients of gain and bias", subject=f"summed over {plural(result.summary['rows'], 'row')}",
            y_title="gradient", **OVER_FEATURES,
            lines=[
                Line.of(affine, "index", "gain_gradient", "gain", 0),
                Line.of(affine, "index", "bias_gradient", "bias", 1),
            ],
        ),
    }  # fmt: skip


EXPERIMENT = Experiment(
    title="Gradients term by term",
    label="Gradients",
    function=norm_gradients,
    presets={"LayerNorm": {}, "RMSNorm": {"norm": "rmsnorm"}},
    controls=(*NORM, "upstream", "upstream_seed"),
    shared=ROW,
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
    reading=lambda found: (
        f"The terms' sum agrees with a central difference {closeness(found['largest_difference'])}. Along all ones it "
        f"is {found['gradient_along_ones']:.2g}, along the row itself {found['gradient_along_row']:.2g}."
    ),
    draw=_pictures,
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
