"""Experiment: an update of the weights that is aligned with the input has a larger effect in a wider layer.

If each of the d weights of an output changes by u with the sign of its input x_i, the output changes by u times the sum
of all absolute values of x_i. For inputs from N(0, 1) this is u * d * sqrt(2/pi) on average, with standard deviation u
* sqrt(d) * sqrt(1 - 2/pi). The output of a random layer with weights of variance 1/d has size 1 at any width. Source:
Yang et al., "Tensor Programs V" (2022), where Adam's learning rate for hidden matrices is proportional to 1 / fan_in
for this reason.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from ..kit import (
    Chart,
    Experiment,
    LabError,
    Line,
    Options,
    Pictures,
    Printed,
    Result,
    Summary,
    TableView,
    Told,
    cell,
    consecutive,
    counted,
    near,
    number,
    plural,
    rms,
    rounded,
    seed,
    silent,
    whole,
    wholes,
)

# Outputs of the random layer that are looked at; their RMS scatters by 1 / sqrt(2 * OUTPUTS).
OUTPUTS = 128
MAX_DRAWS = 2**26


class WidthUpdateOptions(Options):
    """Options: the widths to compare, the size of the update of every weight, and the seeds."""

    widths: tuple[int, ...] = wholes((256, 1024, 4096), 1, 16384, 12, "Widths d", "Widths d.")
    update: float = number(0.001, 0.0, 1.0, "Update of every weight", "Size of the update of every weight.", step=0.001)
    seeds: int = whole(1, 1, 64, "Draws a width", "Draws a width.")
    seed: int = seed(0, "Seed of the first draw; the next ones count up.", more=True)

    def check(self) -> None:
        """Raise `LabError` if there are too many weights to draw."""
        draws = self.seeds * sum(self.widths) * OUTPUTS
        if draws > MAX_DRAWS:
            raise LabError(
                f"{draws:,} weights exceed the limit of {MAX_DRAWS:,}; choose fewer or smaller widths or seeds."
            )


def width_update(options: WidthUpdateOptions, told: Told = silent) -> Result:
    """Return the change of an output by an aligned update (see the module), beside the output of a random layer.

    Table `effects` has one row per width and seed; `law` has one row per width, with the formula, the measured mean,
    and the effect if the update is made smaller in proportion to 1 / width.
    """
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


def _pictures(result: Result) -> Pictures:
    """Return the chart of the update's effect against width beside its law, and of a random layer's output."""
    effects, law = result.tables["effects"], result.tables["law"]
    lines = [
        Line.of(effects, "width", "update_effect", "update, every draw", 0, "points"),
        Line.of(law, "width", "update_effect", "update, law", 0, "predicted"),
        Line.of(law, "width", "with_rate_over_fan_in", "update, rate 1/fan-in", 1),
        Line.of(effects, "width", "random_layer_rms", "random layer, draws", 2, "points"),
    ]
    return {"effects": Chart(
        title="An aligned update grows with width", lines=lines, x_title="width d, features",
        y_title="size of the output, dimensionless", log_x=True, ticks_at_points=True,
    )}  # fmt: skip


def _width_reading(found: Summary) -> str:
    told = [f"{rounded(value)} at width {name[len('update_effect[') : -1]}" for name, value in found.items()]
    return f"The same update of every weight moves the output by {', '.join(told)}."


EXPERIMENT = Experiment(
    title="An aligned update against width",
    label="Width and update",
    function=width_update,
    presets={"one draw": {}, "published": {"seeds": 50}},
    text=(
        "The terms of a random layer mostly cancel, so its output keeps its size at any width. An update that was made "
        "from its own input does not cancel: all d terms push the same way, and a step that suits a narrow model is "
        "too long for a wide one. A rate in 1/fan-in keeps the effect level."
    ),
    formulas=(r"\Delta y=u\sum_j|x_j|\approx u\,d\,\sqrt{2/\pi}",),
    subject=lambda options: (
        f"update {options.update:g} a weight, {plural(options.seeds, 'draw')} a width from seed {options.seed}"
    ),
    reading=_width_reading,
    draw=_pictures,
    tables={
        "law": TableView(
            alt="The law, its scatter and the measured mean, one row per width.",
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
    published=tuple(
        Printed(
            what=f"mean effect at width {width}, published a single draw", printed=text,
            between=near(law, 0.01), find=cell("law", "measured_mean", width=width), under={"seeds": 50},
        )
        for width, text, law in ((256, "0.214", 0.2043), (1024, "0.811", 0.8170), (4096, "3.264", 3.2682))
    ),
)  # fmt: skip
