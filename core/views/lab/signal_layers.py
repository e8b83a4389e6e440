"""Views of one layer and of chains of layers."""

from __future__ import annotations

from collections.abc import Mapping

from core.lab.result import Result
from core.lab.signal.chain import ChainOptions
from core.lab.signal.compounding import CompoundingOptions
from core.lab.signal.linear_layer import LinearLayerOptions
from core.views.lab.chart import Chart, Line
from core.views.lab.view import LabView, Picture, TableView, number

LAYER_AXIS, RMS_AXIS = "layer (0 is the input)", "RMS, dimensionless"
PASS_TITLES = {
    "forward": "Forward: RMS of the state",
    "backward": "Backward: RMS of the gradient",
}


def linear_layer_pictures(result: Result, subject: str) -> Mapping[str, Picture]:
    """The variances as named points, and the outputs' histogram."""
    variance, outputs = result.tables["variance"], result.tables["outputs"]
    named = zip(variance["kind"], variance["variance"], strict=True)
    middle = (outputs["from"] + outputs["to"]) / 2
    return {
        "linear-layer-variance": Chart(
            title="Variance of the outputs", subject=subject, x_title="", y_title="variance, dimensionless",
            names_on_x=True, legend=False,
            lines=[
                Line(name=kind, x=[kind.split()[0]], y=[value], index=index, look="points")
                for index, (kind, value) in enumerate(named)
            ],
        ),
        "linear-layer-outputs": Chart(
            title="All outputs", subject=subject, x_title="output y", y_title="count", log_y=False,
            lines=[Line(name="outputs", x=middle.tolist(), y=outputs["count"].tolist(), look="bars")],
        ),
    }  # fmt: skip


def _linear_layer_subject(options: LinearLayerOptions) -> str:
    return f"d = {options.fan_in}, {options.outputs} outputs of {options.inputs} inputs, seed {options.seed}"


def _linear_layer_reading(result: Result) -> str:
    found = result.summary
    share = number(found["measured_over_rule"])
    if found["rule_holds"]:
        return f"The rule's premises hold: the measured variance is {share} of what it says."
    return (
        f"The rule's premises do not hold: the measured variance is {share} of what it says, and "
        f"{number(found['exact_variance'])} is right."
    )


LINEAR_LAYER = LabView(
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
    subject=_linear_layer_subject,
    reading=_linear_layer_reading,
    pictures=linear_layer_pictures,
    tables={
        "variance": TableView(
            alt="Output variance, a row a way to find it.", titles={"kind": "", "variance": "Var(y)"}
        ),
        "outputs": TableView(
            alt="Histogram of the outputs.", titles={"from": "from", "to": "to (excluded)", "count": "count"}
        ),
    },
)


def chain_pictures(result: Result, subject: str) -> Mapping[str, Picture]:
    """State and gradient on one axis, measured and predicted."""
    sizes = result.tables["sizes"]
    measured, lines = sizes[sizes["kind"] == "measured"], []
    seeds = measured["seed"].nunique()
    beside = f", mean of {seeds} seeds" if seeds > 1 else ""
    for index, name in enumerate(PASS_TITLES):
        mean = measured[measured["pass"] == name].groupby("layer", sort=False)["rms"].mean().reset_index()
        expected = sizes[(sizes["kind"] == "predicted") & (sizes["pass"] == name)]
        lines.append(Line.of(mean, "layer", "rms", f"{name}, measured{beside}", index))
        lines.append(Line.of(expected, "layer", "rms", f"{name}, predicted", index, "predicted"))
    chart = Chart(
        title="State and gradient through the chain", subject=subject, lines=lines, x_title=LAYER_AXIS,
        y_title=RMS_AXIS, whole_x=True,
    )  # fmt: skip
    return {"chain-sizes": chart}


def _chain_subject(options: ChainOptions) -> str:
    parts = [options.activation, options.topology, f"{options.spread} spread", f"L = {options.layers}"]
    parts += [f"d = {options.width}", f"seed {options.seed}"]
    return ", ".join([*parts, *([] if options.norm == "none" else [options.norm])])


def _chain_reading(result: Result) -> str:
    found = result.summary
    return (
        f"The last state has RMS {number(found['output_rms'])} (predicted {number(found['output_rms_predicted'])}), "
        f"the gradient at the input {number(found['input_gradient_rms'])} (predicted "
        f"{number(found['input_gradient_rms_predicted'])})."
    )


CHAIN = LabView(
    text=(
        "A state goes through up to 200 layers and a gradient comes back through the same matrices. The prediction "
        "knows neither the draw nor the width: it follows the mean and the mean square of the entries for infinite "
        "width. Where it misses, the wobble of single layers has compounded, or the gradient is not independent of "
        "the signal."
    ),
    formulas=(
        r"\begin{aligned}\mathbb{E}[x_{l+1}^2]={}&a^2\,\mathbb{E}[x_l^2]+2ac\,\mathbb{E}[x_l]\,\mathbb{E}[f(z)]\\"
        r"&+c^2\,\mathbb{E}[f(z)^2]\end{aligned}",
        r"z\sim\mathcal N\bigl(0,\,d\sigma^2\,\mathbb{E}[x_l^2]\bigr)",
        r"\mathbb{E}[g_l^2]=\bigl(a^2+c^2\,d\sigma^2\,\mathbb{E}[f'(z)^2]\bigr)\,\mathbb{E}[g_{l+1}^2]",
    ),
    subject=_chain_subject,
    reading=_chain_reading,
    pictures=chain_pictures,
    tables={
        "sizes": TableView(
            alt="RMS of state and gradient after every layer, measured and predicted.",
            titles={"kind": "kind", "seed": "seed", "pass": "pass", "layer": "layer", "rms": "RMS"},
        )
    },
)


def compounding_pictures(result: Result, subject: str) -> Mapping[str, Picture]:
    """The size after every layer."""
    sizes = result.tables["sizes"]
    chart = Chart(
        title="One gain, compounded", subject=subject, x_title="layer", y_title="size, ratio to the input",
        whole_x=True, lines=[Line.of(sizes, "layer", "size", "gain to the layer")],
        levels=[(1.0, "unchanged, ratio 1")],
    )  # fmt: skip
    return {"compounding-sizes": chart}


def _compounding_reading(result: Result) -> str:
    found = result.summary
    return (
        f"The whole chain multiplies by {number(found['product'])}. A gain of up to "
        f"{found['largest_gain_within_factor_2']:.6g} a layer would stay within a factor of 2."
    )


def _compounding_subject(options: CompoundingOptions) -> str:
    return f"gain {options.gain:g} a layer, L = {options.layers}"


COMPOUNDING = LabView(
    text=(
        "A gain a little above or below 1 looks harmless in one layer. The table has the published cases: among them "
        "10% too much over the 56 branches of a 28-block decoder, and the steepest slope of a sigmoid."
    ),
    formulas=(r"\text{size after } L \text{ layers}=\text{gain}^{L}",),
    subject=_compounding_subject,
    reading=_compounding_reading,
    pictures=compounding_pictures,
    tables={
        "published": TableView(
            alt="Published gains, layers and products.",
            titles={"gain": "gain a layer", "layers": "layers", "product": "product"},
        ),
        "sizes": TableView(
            alt="Size after every layer.", titles={"layer": "layer", "size": "size", "log10_size": "log10 of the size"}
        ),
    },
)
