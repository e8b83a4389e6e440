"""Experiment: a chain of layers, forward and backward, measured and predicted for infinite width."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from ..kit import (
    Chart,
    Experiment,
    FloatArray,
    LabError,
    Line,
    Options,
    Pictures,
    Printed,
    Result,
    TableView,
    Told,
    choice,
    consecutive,
    counted,
    near,
    number,
    rounded,
    scalar,
    seed,
    silent,
    whole,
)
from ..norm.law import NormKind, RowNorm
from .activations import ACTIVATIONS
from .chain_engine import LAYER_AXIS, RMS_AXIS, Chain, ChainSizes, Weights

# Drawn numbers of one call; at 512 wide that is 200 layers.
MAX_DRAWS = 2**26
# Matrices up to this many numbers are kept between the forward and the backward pass; larger chains draw them twice.
KEPT = 2**23
SHORTCUTS = {"plain": 0.0, "residual": 1.0, "scaled-residual": 1.0}
# Variance of a weight times the fan-in d, and whether it is uniform as its source has it.
SPREADS: dict[str, tuple[float | None, bool]] = {
    "xavier": (1.0, True),
    "he": (2.0, False),
    "default-linear": (1 / 3, True),
    "custom": (None, False),
}
EPSILON = 1e-6


class ChainOptions(Options):
    """Options: L layers of equal width without bias; weights have mean 0 and the variance that `spread` names."""

    activation: str = choice("relu", tuple(ACTIVATIONS), "Activation", "What follows each matrix.")
    topology: str = choice(
        "plain", tuple(SHORTCUTS), "Topology", "x <- f(Wx), x + f(Wx), or x + f(Wx) / sqrt(L).", widget="choice"
    )
    spread: str = choice("he", tuple(SPREADS), "Weights", "Law of the weights' variance.", widget="choice")
    factor: float = number(
        1.0,
        0.001,
        100.0,
        "Spread times sqrt(d)",
        "Custom spread: standard deviation times sqrt(width).",
        step=0.1,
        when=("spread", ("custom",)),
    )
    norm: str = choice(
        "none",
        ("none", "rmsnorm", "layernorm"),
        "Norm after every layer",
        "A row norm after every layer.",
        widget="choice",
    )
    layers: int = whole(50, 1, 200, "Layers L", "Layers L.")
    width: int = whole(128, 1, 1024, "Width d", "Features d of every layer.")
    seeds: int = whole(
        1, 1, 64, "Seeds drawn", "How many chains are drawn; the summary has their mean sizes.", more=True
    )
    seed: int = seed(0, "Seed of the first chain; the next ones count up.", more=True)

    def check(self) -> None:
        """Raise `LabError` if there are too many weights to draw."""
        draws = self.seeds * self.layers * self.width**2
        if draws > MAX_DRAWS:
            raise LabError(f"{draws:,} weights exceed the limit of {MAX_DRAWS:,}; choose fewer layers, width or seeds.")

    @property
    def gain(self) -> float:
        """The width times the variance of a weight, by which a linear layer multiplies the mean square of a signal."""
        fixed = SPREADS[self.spread][0]
        return self.factor**2 if fixed is None else fixed

    @property
    def coefficient(self) -> float:
        """The factor on a layer's output before the shortcut is added: 1/sqrt(L) for `scaled-residual`, else 1."""
        return self.layers**-0.5 if self.topology == "scaled-residual" else 1.0


def chain(options: ChainOptions, told: Told = silent) -> Result:
    """Return the RMS of the state after 0 to L layers and of the gradient with respect to it, measured and predicted.

    Table `sizes` has one row per kind (measured or predicted), seed, pass (forward or backward) and layer.
    """
    activation = ACTIVATIONS[options.activation]
    seeds = consecutive(options.seed, options.seeds)
    runs = [_built(options, each).run(*_ends(options, each)) for each in counted(seeds, "chains", told)]
    predicted = _built(options, options.seed).predict(options.gain)
    mean, mean_square, slopes = activation.moments(options.gain)
    parts = [_rows(run, "measured", str(each)) for each, run in zip(seeds, runs, strict=True)]
    return Result(
        summary={
            "output_rms": np.mean([run.forward[-1] for run in runs]),
            "output_rms_predicted": predicted.forward[-1],
            "input_gradient_rms": np.mean([run.backward[0] for run in runs]),
            "input_gradient_rms_predicted": predicted.backward[0],
            "gain": options.gain,
            "branch_coefficient": options.coefficient,
            "activation_mean": mean,
            "activation_mean_square": mean_square,
            "slope_mean_square": slopes,
        },
        tables={"sizes": pd.concat([*parts, _rows(predicted, "predicted", "")], ignore_index=True)},
        notes=(
            "The prediction is for infinite width, fresh independent weights of mean 0 and a gradient independent of "
            "the signal; the three moments of the activation are those in the first layer.",
        ),
    )


def drawn_weights(options: ChainOptions, of_seed: int) -> Weights:
    """Return a function from a layer's number to its weights `[d, d]`, which depend on `of_seed` and the layer only."""
    scale, uniform = math.sqrt(options.gain / options.width), SPREADS[options.spread][1]

    def draw(layer: int) -> FloatArray:
        generator, shape = np.random.default_rng([of_seed, layer]), (options.width, options.width)
        if uniform:
            return scale * math.sqrt(3) * (2.0 * generator.random(shape) - 1.0)
        return scale * generator.standard_normal(shape)

    if options.layers * options.width**2 > KEPT:
        return draw
    return [draw(layer) for layer in range(options.layers)].__getitem__


def _built(options: ChainOptions, of_seed: int) -> Chain:
    kind: NormKind = "layernorm" if options.norm == "layernorm" else "rmsnorm"
    return Chain(
        activation=ACTIVATIONS[options.activation],
        layers=options.layers,
        weights=drawn_weights(options, of_seed),
        shortcut=SHORTCUTS[options.topology],
        coefficient=options.coefficient,
        norm=None if options.norm == "none" else RowNorm(kind=kind, epsilon=EPSILON),
    )


def _ends(options: ChainOptions, of_seed: int) -> tuple[FloatArray, FloatArray]:
    """Return a unit-normal input and upstream gradient."""
    ends = np.random.default_rng([of_seed, options.layers]).standard_normal((2, options.width))
    return ends[0], ends[1]


def _rows(sizes: ChainSizes, kind: str, seed_text: str) -> pd.DataFrame:
    layers = np.arange(len(sizes.forward))
    return pd.DataFrame(
        {
            "kind": kind,
            "seed": seed_text,
            "pass": np.repeat(["forward", "backward"], len(layers)),
            "layer": np.tile(layers, 2),
            "rms": np.concatenate([sizes.forward, sizes.backward]),
        }
    )


def _pictures(result: Result) -> Pictures:
    """Return the chart of state and gradient on one axis, measured and predicted."""
    sizes = result.tables["sizes"]
    measured, lines = sizes[sizes["kind"] == "measured"], []
    seeds = measured["seed"].nunique()
    beside = f", mean of {seeds} seeds" if seeds > 1 else ""
    for index, name in enumerate(("forward", "backward")):
        mean = measured[measured["pass"] == name].groupby("layer", sort=False)["rms"].mean().reset_index()
        expected = sizes[(sizes["kind"] == "predicted") & (sizes["pass"] == name)]
        lines.append(Line.of(mean, "layer", "rms", f"{name}, measured{beside}", index))
        lines.append(Line.of(expected, "layer", "rms", f"{name}, predicted", index, "predicted"))
    return {"sizes": Chart(
        title="State and gradient through the chain", lines=lines, x_title=LAYER_AXIS,
        y_title=RMS_AXIS, whole_x=True,
    )}  # fmt: skip


def _chain_subject(options: ChainOptions) -> str:
    parts = [options.activation, options.topology, f"{options.spread} spread", f"L = {options.layers}"]
    parts += [f"d = {options.width}", f"seed {options.seed}"]
    return ", ".join([*parts, *([] if options.norm == "none" else [options.norm])])


EXPERIMENT = Experiment(
    title="Chains, forward and backward",
    label="Chains",
    function=chain,
    presets={
        "He with ReLU": {},
        "Xavier with ReLU": {"spread": "xavier"},
        "default linear with ReLU": {"spread": "default-linear", "layers": 10, "width": 512, "seeds": 20},
        "half the spread": {"activation": "linear", "spread": "custom", "factor": 0.5},
        "sigmoid": {"activation": "sigmoid", "spread": "xavier"},
        "tanh residual": {"activation": "tanh", "topology": "residual", "spread": "custom", "factor": 0.5},
        "tanh scaled residual": {"activation": "tanh", "topology": "scaled-residual", "spread": "xavier"},
        "norm after every layer": {"activation": "linear", "spread": "custom", "factor": 20.0, "norm": "rmsnorm"},
    },
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
    reading=lambda found: (
        f"The last state has RMS {rounded(found['output_rms'])} (predicted {rounded(found['output_rms_predicted'])}), "
        f"the gradient at the input {rounded(found['input_gradient_rms'])} (predicted "
        f"{rounded(found['input_gradient_rms_predicted'])})."
    ),
    draw=_pictures,
    tables={
        "sizes": TableView(
            alt="RMS of state and gradient after every layer, measured and predicted.",
            titles={"kind": "kind", "seed": "seed", "pass": "pass", "layer": "layer", "rms": "RMS"},
        )
    },
    published=(
        Printed(
            what="RMS after 10 layers, mean of 20 seeds",
            printed="0.000129",
            between=near(6.0**-5, 0.05),
            find=scalar("output_rms"),
            under={"spread": "default-linear", "layers": 10, "width": 512, "seeds": 20},
        ),
    ),
)
