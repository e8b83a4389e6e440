"""Experiment: one gain a layer, compounded over depth."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.lab.options import Options, number, whole
from core.lab.result import Result

# Gain and layers of the published table: a 10% excess over Qwen2.5-1.5B's 56 branches and over 50 amplifiers, a 10%
# loss, weights of spread 1 at width 512, half the right spread, and the sigmoid's steepest slope.
PUBLISHED = ((1.1, 56), (1.1, 50), (0.9, 50), (math.sqrt(512), 50), (0.5, 50), (0.25, 50))


@dataclass(frozen=True, kw_only=True)
class CompoundingOptions(Options):
    """A gain and a depth."""

    gain: float = number(1.1, 1e-6, 1e6, "What every layer multiplies a size by.")
    layers: int = whole(50, 1, 1000, "Layers L.")


def compounding(options: CompoundingOptions) -> Result:
    """gain^l for l = 0..L, and the published cases. Tables: `sizes`, `published`."""
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
