"""Experiment: soft-capped logits, cap * tanh(logit / cap), and their slope.

Source: Gemma Team, "Gemma 2" (2024): cap 50 for attention scores, 30 for final logits.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..kit import Chart, Experiment, Line, Options, Pictures, Result, TableView, number, rounded

POINTS = 201


class SoftCapOptions(Options):
    """Options: a cap and the logit to examine."""

    cap: float = number(
        50.0, 1e-3, 1e6, "Cap", "Largest size a logit can reach; Gemma 2 has 50 in attention, 30 at the end.", step=5.0
    )
    logit: float = number(50.0, -1e6, 1e6, "Logit", "Logit before the cap.", step=5.0)


def soft_cap(options: SoftCapOptions) -> Result:
    """Return the capped logit and its derivative, 1 - tanh(logit / cap)^2.

    Table `curve` has both for logits from -4 cap to 4 cap.
    """
    logits = np.linspace(-4 * options.cap, 4 * options.cap, POINTS)
    squashed = np.tanh(logits / options.cap)
    one = np.tanh(options.logit / options.cap)
    return Result(
        summary={
            "capped": options.cap * one,
            "slope": 1.0 - one**2,
            "half_slope_at": options.cap * np.arctanh(0.5**0.5),
        },
        tables={"curve": pd.DataFrame({"logit": logits, "capped": options.cap * squashed, "slope": 1.0 - squashed**2})},
    )


def _pictures(result: Result) -> Pictures:
    """Return charts of the capped logit beside the plain one, and of the remaining slope."""
    curve = result.tables["curve"]
    capped = [
        Line.of(curve, "logit", "capped", "capped"),
        Line.of(curve, "logit", "logit", "not capped", 0, "predicted"),
    ]
    axis = "logit before the cap"
    return {
        "logit": Chart(
            title="Logit after the cap", lines=capped, x_title=axis, y_title="logit after the cap",
            log_y=False,
        ),
        "slope": Chart(
            title="Slope that the cap leaves", x_title=axis, y_title="slope, dimensionless",
            levels=[(1.0, "without a cap, 1")],
            lines=[Line.of(curve, "logit", "slope", "slope", 1)],
        ),
    }  # fmt: skip


EXPERIMENT = Experiment(
    title="Soft-capped logits",
    label="Soft cap",
    function=soft_cap,
    presets={"attention": {"cap": 50.0, "logit": 50.0}, "final logits": {"cap": 30.0, "logit": 30.0}},
    text=(
        "A cap bends a logit before it can grow without end; Gemma 2 has 50 in attention and 30 at the end. The price "
        "is the slope: near the cap a gradient meets the same saturation as in the sigmoid unit."
    ),
    formulas=(
        r"\text{capped}=\operatorname{cap}\cdot\tanh\!\left(\frac{\text{logit}}{\operatorname{cap}}\right)",
        r"\text{slope}=1-\tanh^2\!\left(\frac{\text{logit}}{\operatorname{cap}}\right)",
    ),
    subject=lambda options: f"cap {options.cap:g}, logit {options.logit:g}",
    reading=lambda found: (
        f"The logit comes out as {rounded(found['capped'])}, with a slope of {rounded(found['slope'])}; half of the "
        f"slope is gone at {rounded(found['half_slope_at'])}."
    ),
    draw=_pictures,
    tables={
        "curve": TableView(
            alt="Capped logit and slope over four caps to either side.",
            titles={"logit": "logit", "capped": "capped", "slope": "slope"},
        )
    },
)
