"""Experiment: why an update that lines up with its input grows with width, and a random layer does not.

An update of size u a weight, signed like the input, adds u * sum |x| = u * d * sqrt(2/pi) on average to every output of
a unit-normal input; one draw scatters by u * sqrt(d) * sqrt(1 - 2/pi). A random layer of variance 1/d keeps size 1.
Source: Yang et al., "Tensor Programs V" (2022), whose rule for hidden matrices under Adam is a rate in 1 / fan-in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.decoder.progress import Told, counted, silent
from core.errors import LabError
from core.lab.moments import rms
from core.lab.options import Options, consecutive, number, seed, whole, wholes
from core.lab.result import Result

# Outputs of the random layer that are looked at; their RMS scatters by 1 / sqrt(2 * OUTPUTS).
OUTPUTS = 128
MAX_DRAWS = 2**26


@dataclass(frozen=True, kw_only=True)
class WidthUpdateOptions(Options):
    """Widths to compare, and the size of the update."""

    widths: tuple[int, ...] = wholes((256, 1024, 4096), 1, 16384, 12, "Widths d.")
    update: float = number(0.001, 0.0, 1.0, "Size of the update of every weight.")
    seeds: int = whole(1, 1, 64, "Draws a width.")
    seed: int = seed(0, "Seed of the first draw; the next ones count up.")

    def check(self) -> None:
        """Refuse what would draw for too long."""
        draws = self.seeds * sum(self.widths) * OUTPUTS
        if draws > MAX_DRAWS:
            raise LabError(
                f"{draws:,} weights pass the limit of {MAX_DRAWS:,}; choose fewer or smaller widths or seeds."
            )


def width_update(options: WidthUpdateOptions, told: Told = silent) -> Result:
    """Effect of the update beside a random layer's output, a row a width and seed. Tables: `effects`, `law`."""
    cases = [(width, each) for width in options.widths for each in consecutive(options.seed, options.seeds)]
    measured = [_one(options, width, each) for width, each in counted(cases, "draws of a layer", told)]
    effects = pd.DataFrame(measured)
    law = pd.DataFrame({"width": options.widths})
    law["update_effect"] = options.update * law["width"] * math.sqrt(2 / math.pi)
    law["standard_error_of_one_draw"] = options.update * np.sqrt(law["width"] * (1 - 2 / math.pi))
    law["measured_mean"] = effects.groupby("width", sort=False)["update_effect"].mean().to_numpy()
    law["with_rate_over_fan_in"] = law["measured_mean"] * options.widths[0] / law["width"]
    return Result(
        summary={
            f"update_effect[{width}]": mean for width, mean in zip(law["width"], law["measured_mean"], strict=True)
        },
        tables={"effects": effects, "law": law},
        notes=("A rate in 1/fan-in scales the update by first width / width, the rule that keeps its effect level.",),
    )


def _one(options: WidthUpdateOptions, width: int, of_seed: int) -> dict[str, float | str]:
    generator = np.random.default_rng([of_seed, width])
    x = generator.standard_normal(width)
    layer = generator.standard_normal((OUTPUTS, width)) / math.sqrt(width)
    return {
        "width": width,
        "seed": str(of_seed),
        "update_effect": options.update * float(np.sign(x) @ x),
        "random_layer_rms": rms(layer @ x),
    }
