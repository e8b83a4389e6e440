"""Experiment: one gain per layer, raised to the power of the depth."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from ..kit import Chart, Experiment, Line, Options, Pictures, Printed, Result, TableView, cell, number, rounded, whole

# Gain and layers of the published table: a 10% excess over Qwen2.5-1.5B's 56 branches and over 50 amplifiers, a 10%
# loss, weights of spread 1 at width 512, half the right spread, and the sigmoid's steepest slope.
PUBLISHED = ((1.1, 56), (1.1, 50), (0.9, 50), (math.sqrt(512), 50), (0.5, 50), (0.25, 50))


class CompoundingOptions(Options):
    """Options: the gain of a layer, which is what it multiplies a size by, and the number of layers."""

    gain: float = number(1.1, 1e-6, 1e6, "Gain a layer", "What every layer multiplies a size by.", step=0.05)
    layers: int = whole(50, 1, 1000, "Layers L", "Layers L.", widget="slider")


def compounding(options: CompoundingOptions) -> Result:
    """Return gain^l for l = 0 to L layers, and the same for published gains and depths.

    Table `sizes` has one row per layer; `published` has one row per published case.
    """
    layers = np.arange(options.layers + 1)
    with np.errstate(all="ignore"):
        sizes = np.float64(options.gain) ** layers
    return Result(
        summary={
            "product": sizes[-1],
            "log10_product": options.layers * math.log10(options.gain),
            "largest_gain_within_factor_2": 2.0 ** (1 / options.layers),
        },
        tables={
            "sizes": pd.DataFrame({"layer": layers, "size": sizes, "log10_size": layers * math.log10(options.gain)}),
            "published": pd.DataFrame(
                {
                    "gain": [gain for gain, _ in PUBLISHED],
                    "layers": [count for _, count in PUBLISHED],
                    "product": [gain**count for gain, count in PUBLISHED],
                }
            ),
        },
    )


PRINTED = ("208", "117", "0.005", "5e+67", "8.9e-16", "8e-31")


def _pictures(result: Result) -> Pictures:
    """Return the chart of the size after every layer."""
    sizes = result.tables["sizes"]
    return {"sizes": Chart(
        title="One gain, compounded", x_title="layer", y_title="size, ratio to the input",
        whole_x=True, lines=[Line.of(sizes, "layer", "size", "gain to the layer")],
        levels=[(1.0, "unchanged, ratio 1")],
    )}  # fmt: skip


EXPERIMENT = Experiment(
    title="A gain compounded over depth",
    label="Compounding",
    function=compounding,
    presets={"56 branches 10% too high": {"gain": 1.1, "layers": 56}, "sigmoid": {"gain": 0.25, "layers": 50}},
    text=(
        "A gain a little above or below 1 looks harmless in one layer. The table has the published cases: among them "
        "10% too much over the 56 branches of a 28-block decoder, and the steepest slope of a sigmoid."
    ),
    formulas=(r"\text{size after } L \text{ layers}=\text{gain}^{L}",),
    subject=lambda options: f"gain {options.gain:g} a layer, L = {options.layers}",
    reading=lambda found: (
        f"The whole chain multiplies by {rounded(found['product'])}. A gain of up to "
        f"{found['largest_gain_within_factor_2']:.6g} a layer would stay within a factor of 2."
    ),
    draw=_pictures,
    tables={
        "published": TableView(
            alt="Published gains, layers and products.",
            titles={"gain": "gain a layer", "layers": "layers", "product": "product"},
        ),
        "sizes": TableView(
            alt="Size after every layer.", titles={"layer": "layer", "size": "size", "log10_size": "log10 of the size"}
        ),
    },
    published=tuple(
        Printed(
            what=f"gain {gain:.3g} over {layers} layers",
            printed=text,
            under=None,
            find=cell("published", "product", gain=gain, layers=layers),
        )
        for (gain, layers), text in zip(PUBLISHED, PRINTED, strict=True)
    ),
)
