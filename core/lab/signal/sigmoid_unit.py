"""Experiment: one sigmoid unit, from its input to its gradients."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..kit import Chart, Experiment, Line, Options, Pictures, Printed, Result, TableView, number, rounded, scalar
from .activations import sigmoid, sigmoid_slope

BIAS = -0.5
CURVE = 121


class SigmoidUnitOptions(Options):
    """Options: input x, weight w and bias b of the unit sigmoid(w x + b)."""

    x: float = number(1.0, -100.0, 100.0, "Input x", "Input.", step=0.5)
    w: float = number(1.0, -100.0, 100.0, "Weight w", "Weight.", step=0.5)
    bias: float = number(BIAS, -100.0, 100.0, "Bias", "Bias.", step=0.5)


def sigmoid_unit(options: SigmoidUnitOptions) -> Result:
    """Return the logit w x + b, the output and the slope of a sigmoid unit.

    Table `steps` has one row per step of the computation, in order; `curve` has the sigmoid and its slope over a range.
    """
    product = options.w * options.x
    logit = product + options.bias
    output, slope = sigmoid(np.array(logit)).item(), sigmoid_slope(np.array(logit)).item()
    steps = [
        ("input", "x", options.x),
        ("product", "w x", product),
        ("logit", "w x + b", logit),
        ("output", "sigmoid(logit)", output),
        ("slope", "output (1 - output)", slope),
        ("gradient of w", "slope x", slope * options.x),
        ("gradient of x", "slope w", slope * options.w),
    ]
    reach = max(8.0, abs(logit) + 1.0)
    z = np.linspace(-reach, reach, CURVE)
    return Result(
        summary={"logit": logit, "output": output, "slope": slope, "share_of_steepest_slope": slope / 0.25},
        tables={
            "steps": pd.DataFrame(
                [(index, *row) for index, row in enumerate(steps)], columns=["step", "quantity", "formula", "value"]
            ),
            "curve": pd.DataFrame({"logit": z, "output": sigmoid(z), "slope": sigmoid_slope(z)}),
        },
        notes=("One unit without random weights, layers or training: it shows saturation, not an initializer.",),
    )


# What the unit's steps put on its curve.
LOGIT, OUTPUT, SLOPE = "logit", "output", "slope"


def taken(result: Result, count: int) -> Result:
    """Return `result` with only the first `count` rows of its table `steps`; everything else is the same."""
    steps: pd.DataFrame = result.tables["steps"].head(count)
    return Result(summary=result.summary, tables={**result.tables, "steps": steps}, notes=result.notes)


def _pictures(result: Result) -> Pictures:
    """Return the chart of the sigmoid and its slope, with the values of the steps so far."""
    curve, steps = result.tables["curve"], result.tables["steps"]
    at = {str(name): float(value) for name, value in zip(steps["quantity"], steps["value"], strict=True)}
    lines = [
        Line.of(curve, "logit", "output", "output", 0, "predicted"),
        Line.of(curve, "logit", "slope", "slope of the output", 1, "predicted"),
    ]
    for index, name in enumerate((OUTPUT, SLOPE)):
        if name in at:
            lines.append(Line(name=f"this unit's {name}", x=[at[LOGIT]], y=[at[name]], index=index, look="points"))
    return {"curve": Chart(
        title="The unit on its curve", lines=lines, x_title="logit w x + b, dimensionless",
        y_title="output and slope", log_y=False, places=[(at[LOGIT], "this unit's logit")] if LOGIT in at else (),
    )}  # fmt: skip


EXPERIMENT = Experiment(
    title="The saturating unit",
    label="Saturating unit",
    function=sigmoid_unit,
    presets={"reset": {}, "saturated": {"x": 3.0, "w": 3.0}},
    text=(
        "One unit, from its input to the factor that a gradient meets. Press *Reset*, predict the logit and the slope, "
        "then *Play* or *Step*. With x = w = 1 the slope is near its steepest; with x = w = 3 the unit is saturated "
        "and lets almost nothing back."
    ),
    formulas=(r"y=\frac{1}{1+e^{-(wx+b)}}", r"\frac{\partial y}{\partial(wx+b)}=y\,(1-y)\le\tfrac14"),
    subject=lambda options: f"x = {options.x:g}, w = {options.w:g}, bias = {options.bias:g}",
    reading=lambda found: (
        f"The logit is {rounded(found['logit'])} and the slope {rounded(found['slope'])}: a gradient that comes to the "
        f"output goes on with {found['share_of_steepest_slope']:.2%} of what it would keep at the steepest point."
    ),
    draw=_pictures,
    tables={
        "steps": TableView(
            alt="The steps taken so far.", titles={"quantity": "quantity", "formula": "formula", "value": "value"}
        ),
    },
    published=tuple(
        Printed(what=name, printed=text, find=scalar(name), under={"x": size, "w": size})
        for size, logit, slope in ((1.0, "0.5", "0.235"), (3.0, "8.5", "0.0002034"))
        for name, text in (("logit", logit), ("slope", slope))
    ),
)
