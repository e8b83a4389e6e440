"""Experiment: one sigmoid unit, from its input to the factor that a gradient is multiplied by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.lab.options import Options, number
from core.lab.result import Result
from core.lab.signal.activations import sigmoid, sigmoid_slope

BIAS = -0.5
CURVE = 121


@dataclass(frozen=True, kw_only=True)
class SigmoidUnitOptions(Options):
    """The unit sigmoid(w x + b)."""

    x: float = number(1.0, -100.0, 100.0, "Input.")
    w: float = number(1.0, -100.0, 100.0, "Weight.")
    bias: float = number(BIAS, -100.0, 100.0, "Bias.")


def sigmoid_unit(options: SigmoidUnitOptions) -> Result:
    """Logit, output and slope. Tables: `steps`, one row a step of the computation in order, and `curve`."""
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
