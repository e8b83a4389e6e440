"""Experiment: a chain of layers, forward and backward, measured beside its mean-field prediction."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.decoder.progress import Told, counted, silent
from core.decoder.splitmix64 import FloatArray
from core.errors import LabError
from core.lab.norm.law import NormKind, RowNorm
from core.lab.options import Options, choice, consecutive, number, seed, whole
from core.lab.result import Result
from core.lab.signal.activations import ACTIVATIONS
from core.lab.signal.chain_engine import Chain, ChainSizes, Weights

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


@dataclass(frozen=True, kw_only=True)
class ChainOptions(Options):
    """Layers of one width without bias; weights have mean 0 and the variance of `spread`."""

    activation: str = choice("relu", tuple(ACTIVATIONS), "What follows each matrix.")
    topology: str = choice("plain", tuple(SHORTCUTS), "x <- f(Wx), x + f(Wx), or x + f(Wx) / sqrt(L).")
    spread: str = choice("he", tuple(SPREADS), "Law of the weights' variance.")
    factor: float = number(1.0, 0.001, 100.0, "Custom spread: standard deviation times sqrt(width).")
    norm: str = choice("none", ("none", "rmsnorm", "layernorm"), "A row norm after every layer.")
    layers: int = whole(50, 1, 200, "Layers L.")
    width: int = whole(128, 1, 1024, "Features d of every layer.")
    seeds: int = whole(1, 1, 64, "How many chains are drawn; the summary has their mean sizes.")
    seed: int = seed(0, "Seed of the first chain; the next ones count up.")

    def check(self) -> None:
        """Refuse what would draw for too long."""
        draws = self.seeds * self.layers * self.width**2
        if draws > MAX_DRAWS:
            raise LabError(f"{draws:,} weights pass the limit of {MAX_DRAWS:,}; choose fewer layers, width or seeds.")

    @property
    def gain(self) -> float:
        """Width times the variance of a weight: what a linear layer multiplies the mean square by."""
        fixed = SPREADS[self.spread][0]
        return self.factor**2 if fixed is None else fixed

    @property
    def coefficient(self) -> float:
        """What multiplies a branch before it is added."""
        return self.layers**-0.5 if self.topology == "scaled-residual" else 1.0


def chain(options: ChainOptions, told: Told = silent) -> Result:
    """RMS of state and gradient after 0..L layers, measured and predicted. Table: `sizes`."""
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
    """Matrix of any layer as a pure function of seed and layer."""
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
    """Unit-normal input and upstream gradient."""
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
