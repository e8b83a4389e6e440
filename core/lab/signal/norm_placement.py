"""Experiment: the gradient of the last layer's weights against depth, with the norm before or after the addition.

The toy model has one branch per block, x -> gelu(x U) D with hidden width 4 d, Xavier weights and LayerNorm without
gain and bias; the pre-norm model has a final norm. Input rows are drawn from N(0, 1), the upstream gradient from N(0,
1) divided by the number of rows. Measured is the Frobenius norm of the gradient of the last D. In theory (Xiong et al.
2020, Theorem 1) it does not depend on the depth L for post-norm, and falls like L^(-1/2) for pre-norm.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

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
    TableView,
    Told,
    consecutive,
    counted,
    plural,
    rounded,
    scalar,
    seed,
    silent,
    slope,
    whole,
    wholes,
)

if TYPE_CHECKING:
    import torch

MAX_DRAWS = 2**28
FF_RATIO = 4
NORM_EPSILON = 1e-5
PLACEMENTS = ("post-norm", "pre-norm")
THEORY = {"post-norm": 0.0, "pre-norm": -0.5}


class NormPlacementOptions(Options):
    """Options: depths, width, rows and seeds; for one seed, a shallower model is the first blocks of a deeper one."""

    depths: tuple[int, ...] = wholes((6, 12, 24, 48), 1, 128, 12, "Depths, in blocks", "Numbers of blocks.")
    width: int = whole(64, 8, 512, "Width d", "Features d of the stream.")
    rows: int = whole(64, 1, 256, "Rows", "Independent rows.", more=True)
    seeds: int = whole(3, 1, 32, "Seeds drawn", "Draws of the stacks.", more=True)
    seed: int = seed(0, "Seed of the first draw; the next ones count up.", more=True)

    def check(self) -> None:
        """Raise `LabError` if there are too many weights to draw."""
        draws = 2 * self.seeds * self.depths[-1] * self.width**2 * FF_RATIO
        if draws > MAX_DRAWS:
            raise LabError(f"{draws:,} weights exceed the limit of {MAX_DRAWS:,}; choose fewer blocks, width or seeds.")


def norm_placement(options: NormPlacementOptions, told: Told = silent) -> Result:
    """Return the Frobenius norm of the last layer's weight gradient at each depth, for both placements of the norm.

    Table `gradients` has one row per placement, depth and seed; `mean` is averaged over the seeds. Its column
    `by_theory` starts at the mean of the shallowest model and follows the power of the depth that the theorem gives.
    """
    draws = counted(consecutive(options.seed, options.seeds), "draws of the stacks", told)
    rows = [row for each in draws for row in _gradients(options, each)]
    gradients = pd.DataFrame(rows, columns=["placement", "seed", "blocks", "gradient_norm"])
    mean = gradients.groupby(["placement", "blocks"])["gradient_norm"].mean().reset_index()
    first = mean.groupby("placement")[["blocks", "gradient_norm"]].transform("first")
    growth = (mean["blocks"] / first["blocks"]) ** mean["placement"].map(THEORY)
    mean["by_theory"] = first["gradient_norm"] * growth
    summary: dict[str, float | None] = {}
    for placement in PLACEMENTS:
        chosen = mean[mean["placement"] == placement]
        x, y = chosen["blocks"].to_numpy(), chosen["gradient_norm"].to_numpy()
        summary[f"slope[{placement}]"] = slope(x, y) if len(x) > 1 else None
        summary[f"slope_in_theory[{placement}]"] = THEORY[placement]
    return Result(
        summary=summary,
        tables={"gradients": gradients, "mean": mean},
        notes=(
            "Slopes are log-log least squares over the depths; the theorem's limit is for wider and deeper stacks.",
        ),
    )


def _gradients(options: NormPlacementOptions, of_seed: int) -> Iterator[tuple[str, str, int, float]]:
    """Yield the gradient norms of one drawn model with both placements, at each depth."""
    import torch  # float32 products, and autograd for the last writer

    d, ff = options.width, FF_RATIO * options.width
    generator = torch.Generator().manual_seed(of_seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    start, upstream = normal(options.rows, d), normal(options.rows, d) / options.rows
    xavier, states = (2 / (d + ff)) ** 0.5, dict.fromkeys(PLACEMENTS, start)
    for block in range(1, options.depths[-1] + 1):
        up, down = xavier * normal(d, ff), (xavier * normal(ff, d)).requires_grad_()
        for placement, x in states.items():
            next_x, output = _block(x, up, down, pre=placement == "pre-norm")
            if block in options.depths:
                (gradient,) = torch.autograd.grad(output, down, upstream)
                yield placement, str(of_seed), block, float(gradient.double().norm())
            states[placement] = next_x.detach()


def _block(x: torch.Tensor, up: torch.Tensor, down: torch.Tensor, *, pre: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the state after one block, and the output of a model that ends with this block."""
    from torch.nn.functional import gelu, layer_norm

    shape = (x.shape[-1],)
    if pre:
        x = x + gelu(layer_norm(x, shape, eps=NORM_EPSILON) @ up) @ down
        return x, layer_norm(x, shape, eps=NORM_EPSILON)
    x = layer_norm(x + gelu(x @ up) @ down, shape, eps=NORM_EPSILON)
    return x, x


def _pictures(result: Result) -> Pictures:
    """Return the chart of the last writer's gradient against depth, every draw and the mean, on logarithmic axes."""
    gradients, mean, lines = result.tables["gradients"], result.tables["mean"], []
    for index, (placement, rows) in enumerate(mean.groupby("placement", sort=False)):
        drawn = gradients[gradients["placement"] == placement]
        lines.append(Line.of(rows, "blocks", "gradient_norm", f"{placement}, mean", index))
        lines.append(Line.of(drawn, "blocks", "gradient_norm", f"{placement}, draws", index, "points"))
        lines.append(Line.of(rows, "blocks", "by_theory", f"{placement}, theory", index, "predicted"))
    return {"gradients": Chart(
        title="Gradient of the last layer's weights", lines=lines, x_title="depth L, blocks",
        y_title="Frobenius norm of the gradient", log_x=True, ticks_at_points=True,
    )}  # fmt: skip


EXPERIMENT = Experiment(
    title="Norm placement and the last layer's gradient",
    label="Norm placement",
    function=norm_placement,
    presets={"quick": {}, "wide": {"width": 256}},
    torch=True,
    text=(
        "Where the norm stands decides what the last layer's weights are told. In post-norm their gradient does not "
        "depend on the depth; in pre-norm the final norm divides by a stream that has grown, so the gradient falls. A "
        "small toy falls less steeply than the theorem's limit."
    ),
    formulas=(
        r"\text{post-norm:}\quad x_{l+1}=N\bigl(x_l+f(x_l)\bigr)",
        r"\text{pre-norm:}\quad x_{l+1}=x_l+f\bigl(N(x_l)\bigr)",
    ),
    subject=lambda options: (
        f"d = {options.width}, {plural(options.rows, 'row')}, {plural(options.seeds, 'draw')} from seed {options.seed}"
    ),
    reading=lambda found: (
        f"Against depth on logarithmic axes the gradient has slope {rounded(found['slope[post-norm]'])} in post-norm "
        f"(theory {found['slope_in_theory[post-norm]']:g}) and {rounded(found['slope[pre-norm]'])} in pre-norm (theory "
        f"{found['slope_in_theory[pre-norm]']:g})."
    ),
    draw=_pictures,
    tables={
        "mean": TableView(
            alt="Mean gradient norm, one row per placement and depth.",
            titles={
                "placement": "placement",
                "blocks": "blocks",
                "gradient_norm": "gradient norm",
                "by_theory": "by theory, from the first depth",
            },
        ),
        "gradients": TableView(
            alt="Gradient norm of every draw.",
            titles={"placement": "placement", "seed": "seed", "blocks": "blocks", "gradient_norm": "gradient norm"},
        ),
    },
    published=(
        Printed(
            what="slope of the gradient against depth, pre-norm",
            printed="-0.38",
            find=scalar("slope[pre-norm]"),
            between=(-0.43, -0.33),
        ),
        Printed(
            what="slope of the gradient against depth, post-norm",
            printed="0",
            find=scalar("slope[post-norm]"),
            between=(-0.03, 0.03),
        ),
    ),
)
