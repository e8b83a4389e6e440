"""Experiment: the RMS of a pre-norm stream of GELU blocks grows like the square root of the depth, unless scaled.

Input rows and weights have standard deviation s. LayerNorm N has no gain and bias. A branch is x -> c gelu(N(x) U) D
with hidden width ff and coefficient c. A normalized row has length sqrt(d), so one branch adds the variance v = c^2 s^2
ff E[gelu(z)^2] with z ~ N(0, d s^2), at every depth. Without covariances the mean square after l blocks is s^2 + l v.
"""

from __future__ import annotations

from collections.abc import Iterator

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
    TableView,
    Told,
    cell,
    consecutive,
    counted,
    flag,
    near,
    number,
    plural,
    rounded,
    scalar,
    seed,
    silent,
    slope,
    whole,
)
from .activations import ACTIVATIONS

MAX_DRAWS = 2**29
NORM_EPSILON = 1e-5


class StreamGrowthOptions(Options):
    """Options: a toy model with one feed-forward branch per block."""

    blocks: int = whole(48, 2, 256, "Blocks L", "Blocks, one branch each.")
    width: int = whole(128, 8, 512, "Width d", "Features d of the stream; the published toy has 256.")
    ff_ratio: int = whole(4, 1, 8, "Feed-forward width over d", "Feed-forward width over d.", more=True)
    rows: int = whole(64, 1, 256, "Rows", "Independent rows.", more=True)
    spread: float = number(
        0.02, 1e-4, 1.0, "Spread of weights and embeddings", "Standard deviation of weights and embeddings.", step=0.01
    )
    scaled: bool = flag(False, "Scale branches by 1/sqrt(L)", "Scale every branch's output by 1/sqrt(blocks).")
    seeds: int = whole(1, 1, 32, "Seeds drawn", "Draws of the whole stack.", more=True)
    seed: int = seed(0, "Seed of the first draw; the next ones count up.", more=True)

    def check(self) -> None:
        """Raise `LabError` if there are too many weights to draw."""
        draws = 2 * self.seeds * self.blocks * self.width**2 * self.ff_ratio
        if draws > MAX_DRAWS:
            raise LabError(f"{draws:,} weights exceed the limit of {MAX_DRAWS:,}; choose fewer blocks, width or seeds.")


def stream_growth(options: StreamGrowthOptions, told: Told = silent) -> Result:
    """Return the RMS of the stream after every block, measured and by the formula of the module.

    Table `stream` has one row per seed and block; `mean` has one row per block, averaged over the seeds, beside the
    formula.
    """
    coefficient = options.blocks**-0.5 if options.scaled else 1.0
    blocks = np.arange(1, options.blocks + 1)
    draws = counted(consecutive(options.seed, options.seeds), "draws of the stack", told)
    measured = np.array([list(_sizes(options, each, coefficient)) for each in draws])
    _, mean_square, _ = ACTIVATIONS["gelu"].moments(options.width * options.spread**2)
    added = coefficient**2 * options.ff_ratio * options.width * options.spread**2 * mean_square
    mean = measured.mean(axis=0)
    seeds = np.repeat([str(each) for each in consecutive(options.seed, options.seeds)], options.blocks)
    stream = pd.DataFrame({"seed": seeds, "block": np.tile(blocks, options.seeds), "rms": measured.flat})
    return Result(
        summary={
            "first_rms": mean[0],
            "final_rms": mean[-1],
            "final_rms_expected": (options.spread**2 + options.blocks * added) ** 0.5,
            "growth_exponent": slope(blocks, mean),
            "branch_coefficient": coefficient,
            "branch_variance_expected": added,
        },
        tables={
            "stream": stream,
            "mean": pd.DataFrame(
                {
                    "block": blocks,
                    "rms": mean,
                    "first_times_sqrt_l": mean[0] * np.sqrt(blocks),
                    "expected_rms": np.sqrt(options.spread**2 + blocks * added),
                }
            ),
        },
        notes=(
            "Blocks are complete ones, counted from 1; the expected size drops every covariance of branch and stream.",
        ),
    )


def _sizes(options: StreamGrowthOptions, of_seed: int, coefficient: float) -> Iterator[float]:
    """Yield the RMS of the stream after each block of one drawn model."""
    import torch  # float32 products and draws, several times NumPy's speed
    from torch.nn.functional import gelu, layer_norm

    generator = torch.Generator().manual_seed(of_seed)
    d, ff, spread = options.width, options.ff_ratio * options.width, options.spread
    with torch.no_grad():
        x = spread * torch.randn(options.rows, d, generator=generator)
        for _ in range(options.blocks):
            up, down = (spread * torch.randn(*shape, generator=generator) for shape in ((d, ff), (ff, d)))
            x = x + coefficient * (gelu(layer_norm(x, (d,), eps=NORM_EPSILON) @ up) @ down)
            yield float(x.double().square().mean().sqrt())


def _pictures(result: Result) -> Pictures:
    """Return the chart of the RMS of the stream after every block beside both laws, on logarithmic axes."""
    mean, stream = result.tables["mean"], result.tables["stream"]
    seeds = stream["seed"].nunique()
    lines = [
        Line.of(mean, "block", "rms", "measured" if seeds == 1 else f"measured, mean of {seeds} seeds"),
        Line.of(mean, "block", "first_times_sqrt_l", "first RMS x sqrt(l)", 0, "predicted"),
        Line.of(mean, "block", "expected_rms", "without covariance", 1, "predicted"),
    ]
    return {"rms": Chart(
        title="Growth of the stream", lines=lines, x_title="blocks l, counted from 1",
        y_title="RMS of the stream, dimensionless", log_x=True,
    )}  # fmt: skip


def _growth_subject(options: StreamGrowthOptions) -> str:
    scaled = ", branches scaled by 1/sqrt(L)" if options.scaled else ""
    seeds = f"seed {options.seed}" if options.seeds == 1 else f"{options.seeds} seeds from {options.seed}"
    return f"L = {plural(options.blocks, 'block')}, d = {options.width}, spread {options.spread:g}, {seeds}{scaled}"


EXPERIMENT = Experiment(
    title="Stream growth in a pre-norm stack",
    label="Stream growth",
    function=stream_growth,
    presets={
            "quick": {},
            "published": {"width": 256, "seeds": 20},
            "published, scaled": {"width": 256, "seeds": 20, "scaled": True},
        },
    torch=True,
    controls=("scaled", "blocks", "width", "spread", "ff_ratio", "rows", "seeds", "seed"),
    text=(
        "In a pre-norm stack every branch reads a normalized copy of the stream, so all branches have about one size "
        "and their variances add: the stream grows like the root of the depth. No constant is fitted here. Scale the "
        "branches by 1/sqrt(L), and the whole stack adds what one branch added before."
    ),
    formulas=(
        r"r_l^2=s^2+l\,c^2\,s^2 d_{\mathrm{ff}}\,\mathbb{E}[\operatorname{gelu}(z)^2]",
        r"z\sim\mathcal N(0,d\,s^2)",
    ),
    subject=_growth_subject,
    reading=lambda found: (
        f"After the first block the stream has RMS {rounded(found['first_rms'])}, after the last "
        f"{rounded(found['final_rms'])} (expected {rounded(found['final_rms_expected'])}); its size grows like l to "
        f"the power of {found['growth_exponent']:.3f}."
    ),
    draw=_pictures,
    tables={
        "mean": TableView(
            alt="RMS of the stream after every block, measured and by both laws.",
            titles={
                "block": "block", "rms": "measured RMS", "first_times_sqrt_l": "first RMS times sqrt(l)",
                "expected_rms": "expected RMS",
            },
        ),
        "stream": TableView(
            alt="RMS of the stream after every block and seed.",
            titles={"seed": "seed", "block": "block", "rms": "RMS"},
        ),
    },
    published=(
        *(
            Printed(
                what=f"RMS after block {block}", printed=text, find=cell("mean", "rms", block=block),
                between=near(float(text), 0.015), under={"width": 256, "seeds": 20},
            )
            for block, text in {1: "0.111", 12: "0.382", 24: "0.536", 48: "0.769"}.items()
        ),
        Printed(
            what="RMS after block 48, branches scaled", printed="0.112", find=scalar("final_rms"),
            between=near(0.112, 0.015), under={"width": 256, "seeds": 20, "scaled": True},
        ),
    ),
)  # fmt: skip
