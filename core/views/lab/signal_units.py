"""Views of single units, of an update against width and of soft-capping."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from core.lab.result import Result
from core.lab.signal.sigmoid_unit import SigmoidUnitOptions
from core.lab.signal.soft_cap import SoftCapOptions
from core.lab.signal.width_update import WidthUpdateOptions
from core.views.lab.chart import Chart, Line
from core.views.lab.view import LabView, Picture, TableView, counted, number

# What the unit's steps put on its curve.
LOGIT, OUTPUT, SLOPE = "logit", "output", "slope"


def unit_pictures(result: Result, subject: str) -> Mapping[str, Picture]:
    """The sigmoid and its slope, and where the steps taken so far stand on them."""
    curve, steps = result.tables["curve"], result.tables["steps"]
    at = {str(name): float(value) for name, value in zip(steps["quantity"], steps["value"], strict=True)}
    lines = [
        Line.of(curve, "logit", "output", "output", 0, "predicted"),
        Line.of(curve, "logit", "slope", "slope of the output", 1, "predicted"),
    ]
    for index, name in enumerate((OUTPUT, SLOPE)):
        if name in at:
            lines.append(Line(name=f"this unit's {name}", x=[at[LOGIT]], y=[at[name]], index=index, look="points"))
    chart = Chart(
        title="The unit on its curve", subject=subject, lines=lines, x_title="logit w x + b, dimensionless",
        y_title="output and slope", log_y=False, places=[(at[LOGIT], "this unit's logit")] if LOGIT in at else (),
    )  # fmt: skip
    return {"sigmoid-unit-curve": chart}


def _unit_reading(result: Result) -> str:
    found = result.summary
    return (
        f"The logit is {number(found['logit'])} and the slope {number(found['slope'])}: a gradient that comes to the "
        f"output goes on with {found['share_of_steepest_slope']:.2%} of what it would keep at the steepest point."
    )


def _unit_subject(options: SigmoidUnitOptions) -> str:
    return f"x = {options.x:g}, w = {options.w:g}, bias = {options.bias:g}"


SIGMOID_UNIT = LabView(
    text=(
        "One unit, from its input to the factor that a gradient meets. Press *Reset*, predict the logit and the slope, "
        "then *Play* or *Step*. With x = w = 1 the slope is near its steepest; with x = w = 3 the unit is saturated "
        "and lets almost nothing back."
    ),
    formulas=(r"y=\frac{1}{1+e^{-(wx+b)}}", r"\frac{\partial y}{\partial(wx+b)}=y\,(1-y)\le\tfrac14"),
    subject=_unit_subject,
    reading=_unit_reading,
    pictures=unit_pictures,
    tables={
        "steps": TableView(
            alt="The steps taken so far.", titles={"quantity": "quantity", "formula": "formula", "value": "value"}
        ),
    },
)


def taken(result: Result, count: int) -> Result:
    """The unit's result with its first `count` steps alone."""
    steps: pd.DataFrame = result.tables["steps"].head(count)
    return Result(summary=result.summary, tables={**result.tables, "steps": steps}, notes=result.notes)


def soft_cap_pictures(result: Result, subject: str) -> Mapping[str, Picture]:
    """The capped logit beside the plain one, and the slope that is left."""
    curve = result.tables["curve"]
    capped = [
        Line.of(curve, "logit", "capped", "capped"),
        Line.of(curve, "logit", "logit", "not capped", 0, "predicted"),
    ]
    axis = "logit before the cap"
    return {
        "soft-cap-logit": Chart(
            title="Logit after the cap", subject=subject, lines=capped, x_title=axis, y_title="logit after the cap",
            log_y=False,
        ),
        "soft-cap-slope": Chart(
            title="Slope that the cap leaves", subject=subject, x_title=axis, y_title="slope, dimensionless",
            levels=[(1.0, "without a cap, 1")],
            lines=[Line.of(curve, "logit", "slope", "slope", 1)],
        ),
    }  # fmt: skip


def _soft_cap_reading(result: Result) -> str:
    found = result.summary
    return (
        f"The logit comes out as {number(found['capped'])}, with a slope of {number(found['slope'])}; half of the "
        f"slope is gone at {number(found['half_slope_at'])}."
    )


def _soft_cap_subject(options: SoftCapOptions) -> str:
    return f"cap {options.cap:g}, logit {options.logit:g}"


SOFT_CAP = LabView(
    text=(
        "A cap bends a logit before it can grow without end; Gemma 2 has 50 in attention and 30 at the end. The price "
        "is the slope: near the cap a gradient meets the same saturation as in the sigmoid unit."
    ),
    formulas=(
        r"\text{capped}=\operatorname{cap}\cdot\tanh\!\left(\frac{\text{logit}}{\operatorname{cap}}\right)",
        r"\text{slope}=1-\tanh^2\!\left(\frac{\text{logit}}{\operatorname{cap}}\right)",
    ),
    subject=_soft_cap_subject,
    reading=_soft_cap_reading,
    pictures=soft_cap_pictures,
    tables={
        "curve": TableView(
            alt="Capped logit and slope over four caps to either side.",
            titles={"logit": "logit", "capped": "capped", "slope": "slope"},
        )
    },
)


def width_pictures(result: Result, subject: str) -> Mapping[str, Picture]:
    """Effect of the update against width beside its law, and a random layer's output."""
    effects, law = result.tables["effects"], result.tables["law"]
    lines = [
        Line.of(effects, "width", "update_effect", "update, every draw", 0, "points"),
        Line.of(law, "width", "update_effect", "update, law", 0, "predicted"),
        Line.of(law, "width", "with_rate_over_fan_in", "update, rate 1/fan-in", 1),
        Line.of(effects, "width", "random_layer_rms", "random layer, draws", 2, "points"),
    ]
    chart = Chart(
        title="An aligned update grows with width", subject=subject, lines=lines, x_title="width d, features",
        y_title="size of the output, dimensionless", log_x=True, ticks_at_points=True,
    )  # fmt: skip
    return {"width-update-effects": chart}


def _width_reading(result: Result) -> str:
    told = [f"{number(value)} at width {name[len('update_effect[') : -1]}" for name, value in result.summary.items()]
    return f"The same update of every weight moves the output by {', '.join(told)}."


def _width_subject(options: WidthUpdateOptions) -> str:
    return f"update {options.update:g} a weight, {counted(options.seeds, 'draw')} a width from seed {options.seed}"


WIDTH_UPDATE = LabView(
    text=(
        "The terms of a random layer mostly cancel, so its output keeps its size at any width. An update that was made "
        "from its own input does not cancel: all d terms push the same way, and a step that suits a narrow model is "
        "too long for a wide one. A rate in 1/fan-in keeps the effect level."
    ),
    formulas=(r"\Delta y=u\sum_j|x_j|\approx u\,d\,\sqrt{2/\pi}",),
    subject=_width_subject,
    reading=_width_reading,
    pictures=width_pictures,
    tables={
        "law": TableView(
            alt="The law, its scatter and the measured mean, a row a width.",
            titles={
                "width": "width", "update_effect": "law", "standard_error_of_one_draw": "standard error of one draw",
                "measured_mean": "measured mean", "with_rate_over_fan_in": "with a rate in 1/fan-in",
            },
        ),
        "effects": TableView(
            alt="Every draw.",
            titles={
                "width": "width", "seed": "seed", "update_effect": "update's effect",
                "random_layer_rms": "random layer's RMS",
            },
        ),
    },
)  # fmt: skip
