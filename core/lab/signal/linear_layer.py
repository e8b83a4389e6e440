"""Experiment: the variance of the outputs y of one linear layer, where the usual rule holds and where it fails.

The rule Var(y) = d * sigma^2 * E[x^2], for d inputs and weights of standard deviation sigma, needs weights of mean 0
that are uncorrelated with each other and with the inputs. Here the weights have mean m and, within one output, pairwise
correlation c; the inputs have mean a and standard deviation t. Then Var(y) = m^2 d t^2 + sigma^2 (c (d t^2 + d^2 a^2) +
(1 - c) d (a^2 + t^2)).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..kit import (
    Chart,
    Experiment,
    FloatArray,
    Line,
    Options,
    Pictures,
    Result,
    Summary,
    TableView,
    covariance,
    number,
    rounded,
    seed,
    whole,
)

BINS = 41
# Relative room at both ends of a histogram, far above rounding and far below a bin.
EDGE = 1e-9


class LinearLayerOptions(Options):
    """Options: one layer y = W x applied to many inputs x; a spread is a standard deviation."""

    fan_in: int = whole(512, 1, 4096, "Fan-in d", "Inputs d of one output.")
    spread: float = number(
        512**-0.5, 0.0, 100.0, "Spread of the weights", "Standard deviation sigma of a weight.", step=0.01
    )
    input_spread: float = number(
        1.0, 0.0, 100.0, "Spread of the inputs", "Standard deviation of an input.", step=0.1, more=True
    )
    input_mean: float = number(
        0.0, -100.0, 100.0, "Mean of the inputs", "Mean of every input; the rule needs E[x^2], not Var(x).", step=0.5
    )
    weight_mean: float = number(
        0.0, -100.0, 100.0, "Mean of the weights", "Mean of every weight; the rule needs 0.", step=0.01
    )
    weight_correlation: float = number(
        0.0,
        0.0,
        1.0,
        "Correlation of the weights",
        "Correlation of any two weights of an output; the rule needs 0.",
        widget="slider",
        step=0.01,
    )
    outputs: int = whole(512, 2, 4096, "Outputs", "Rows of W, each an independent output.", more=True)
    inputs: int = whole(64, 1, 512, "Input vectors", "Independent input vectors.", more=True)
    seed: int = seed(more=True)


def linear_layer(options: LinearLayerOptions) -> Result:
    """Return the variance of the outputs: measured, by the rule, by a common misreading of the rule, and exact.

    The misreading has Var(x) in place of E[x^2]. Table `variance` has one row per kind; `outputs` is a histogram.
    """
    outputs = _outputs(options)
    measured = covariance(outputs, outputs)
    second_moment = options.input_mean**2 + options.input_spread**2
    rule = options.fan_in * options.spread**2 * second_moment
    exact = exact_variance(options)
    named = {
        "measured": measured,
        "rule d sigma^2 E[x^2]": rule,
        "misread d sigma^2 Var(x)": options.fan_in * options.spread**2 * options.input_spread**2,
        "exact with means and correlation": exact,
    }
    counts, edges = _histogram(outputs)
    return Result(
        summary={
            "measured_variance": measured,
            "rule_variance": rule,
            "exact_variance": exact,
            "input_second_moment": second_moment,
            "gain": options.fan_in * options.spread**2,
            "measured_over_rule": measured / rule if rule > 0 else None,
            "rule_holds": options.weight_mean == 0.0 and options.weight_correlation == 0.0,
        },
        tables={
            "variance": pd.DataFrame({"kind": list(named), "variance": list(named.values())}),
            "outputs": pd.DataFrame({"from": edges[:-1], "to": edges[1:], "count": counts}),
        },
        notes=("The measured variance pools all outputs and inputs; it scatters about the exact one.",),
    )


def exact_variance(options: LinearLayerOptions) -> float:
    """Return the exact variance of one output over random weights and inputs, by the formula of the module."""
    d, a, t = options.fan_in, options.input_mean, options.input_spread
    common = options.weight_correlation * (d * t**2 + d**2 * a**2)
    own = (1.0 - options.weight_correlation) * d * (a**2 + t**2)
    return options.weight_mean**2 * d * t**2 + options.spread**2 * (common + own)


def _histogram(outputs: FloatArray) -> tuple[npt.NDArray[np.int64], FloatArray]:
    """Return counts and edges around the middle of the range, which is widened if all outputs are almost equal."""
    low, high = float(outputs.min()), float(outputs.max())
    middle = 0.5 * (low + high)
    half = max((0.5 + EDGE) * (high - low), EDGE * abs(middle)) or 1.0
    counts, edges = np.histogram(outputs, bins=BINS, range=(middle - half, middle + half))
    return counts, edges


def _outputs(options: LinearLayerOptions) -> FloatArray:
    """Return the outputs `[outputs, inputs]` of a freshly drawn layer."""
    generator = np.random.default_rng(options.seed)
    weights = generator.standard_normal((options.outputs, options.fan_in))
    weights *= options.spread * math.sqrt(1.0 - options.weight_correlation)
    shared = generator.standard_normal((options.outputs, 1))
    weights += options.weight_mean + options.spread * math.sqrt(options.weight_correlation) * shared
    x = generator.standard_normal((options.fan_in, options.inputs))
    x *= options.input_spread
    return np.asarray(weights @ (x + options.input_mean))


def _pictures(result: Result) -> Pictures:
    """Return charts of the variances as named points, and of the outputs' histogram."""
    variance, outputs = result.tables["variance"], result.tables["outputs"]
    named = zip(variance["kind"], variance["variance"], strict=True)
    middle = (outputs["from"] + outputs["to"]) / 2
    return {
        "variance": Chart(
            title="Variance of the outputs", x_title="", y_title="variance, dimensionless",
            names_on_x=True, legend=False,
            lines=[
                Line(name=kind, x=[kind.split()[0]], y=[value], index=index, look="points")
                for index, (kind, value) in enumerate(named)
            ],
        ),
        "outputs": Chart(
            title="All outputs", x_title="output y", y_title="count", log_y=False,
            lines=[Line(name="outputs", x=middle.tolist(), y=outputs["count"].tolist(), look="bars")],
        ),
    }  # fmt: skip


def _linear_layer_reading(found: Summary) -> str:
    share = rounded(found["measured_over_rule"])
    if found["rule_holds"]:
        return f"The rule's premises hold: the measured variance is {share} of what it says."
    return (
        f"The rule's premises do not hold: the measured variance is {share} of what it says, and "
        f"{rounded(found['exact_variance'])} is right."
    )


EXPERIMENT = Experiment(
    title="Variance through one linear layer",
    label="One layer",
    function=linear_layer,
    presets={
        "rule holds": {},
        "inputs with a mean": {"input_mean": 2.0},
        "weights with a mean": {"weight_mean": 0.05},
        "correlated weights": {"input_mean": 1.0, "weight_correlation": 0.1},
    },
    controls=(
        "input_mean",
        "weight_mean",
        "weight_correlation",
        "spread",
        "fan_in",
        "input_spread",
        "outputs",
        "inputs",
        "seed",
    ),
    text=(
        "Every output is a sum of d products. Where weights have mean 0 and are independent of each other and of the "
        "inputs, only the mean square of the input matters. Give the inputs a mean, the weights a mean or a "
        "correlation, and see which of the four numbers still agrees with the measured one."
    ),
    formulas=(
        r"\text{rule:}\quad\operatorname{Var}(y)=d\,\sigma^2\,\mathbb{E}[x^2]",
        r"\begin{aligned}\text{exact:}\quad\operatorname{Var}(y)={}&m^2 d\,t^2\\"
        r"&+\sigma^2 c\,(d\,t^2+d^2a^2)\\&+\sigma^2(1-c)\,d\,(a^2+t^2)\end{aligned}",
    ),
    subject=lambda options: (
        f"d = {options.fan_in}, {options.outputs} outputs of {options.inputs} inputs, seed {options.seed}"
    ),
    reading=_linear_layer_reading,
    draw=_pictures,
    tables={
        "variance": TableView(
            alt="Output variance, one row per way to find it.", titles={"kind": "", "variance": "Var(y)"}
        ),
        "outputs": TableView(
            alt="Histogram of the outputs.", titles={"from": "from", "to": "to (excluded)", "count": "count"}
        ),
    },
)
