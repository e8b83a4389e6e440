"""Experiment: a norm of rows whose features are split over several ranks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from ..kit import (
    Chart,
    Experiment,
    FloatArray,
    LabError,
    Line,
    Pictures,
    Result,
    TableView,
    choice,
    number,
    plural,
    rounded,
    whole,
)
from .law import RowNorm
from .row import OVER_FEATURES, ROW, RowOptions, norm_kind, row_subject


class ShardedMomentsOptions(RowOptions):
    """Options: a row, a norm, and the number of ranks that hold the features, in order and as evenly as possible."""

    norm: str = choice("layernorm", ("layernorm", "rmsnorm"), "Norm", "Which norm.")
    epsilon: float = number(1e-5, 1e-30, 1e6, "Epsilon", "Epsilon inside the root.", step=1e-05)
    ranks: int = whole(2, 1, 64, "Ranks", "Ranks that hold the row.")

    def check(self) -> None:
        """Raise `LabError` if there are more ranks than features."""
        super().check()
        if self.ranks > self.length:
            raise LabError(
                f"ranks is {self.ranks} and the row has {self.length} features; give every rank at least one."
            )


def sharded_moments(options: ShardedMomentsOptions) -> Result:
    """Return the output of the norm when its features are split over ranks, by one right and two wrong methods.

    Right: the sums of x and x^2 are added over the ranks first. Wrong: every rank uses the moments of its own features,
    or their average over the ranks is used. Table `outputs` has one row per method and feature.
    """
    x, law = options.row(), RowNorm(kind=norm_kind(options.norm), epsilon=options.epsilon)
    shards = np.array_split(x, options.ranks)
    outputs = {
        "whole row": law(x),
        "summed moments": _summed(law, shards),
        "local moments": np.concatenate([law(shard) for shard in shards]),
        "averaged local moments": _averaged(law, shards),
    }
    reference = outputs["whole row"]
    rank = np.repeat(np.arange(options.ranks), [len(shard) for shard in shards])
    frames = [
        pd.DataFrame(
            {
                "method": name, "rank": rank, "index": np.arange(len(x)), "output": value,
                "difference": value - reference,
            }
        )
        for name, value in outputs.items()
    ]  # fmt: skip
    return Result(
        summary={f"largest_difference[{name}]": np.abs(value - reference).max() for name, value in outputs.items()},
        tables={"outputs": pd.concat(frames, ignore_index=True)},
        notes=(
            "Summed moments reduce the sums of x and of x^2 over the ranks before any rank divides.",
            "Averaged local variances miss the variance between the shards' means; averaged mean squares are right "
            "only where every rank holds as many features.",
        ),
    )


def _summed(law: RowNorm, shards: list[FloatArray]) -> FloatArray:
    width = sum(len(shard) for shard in shards)
    square = sum(float(shard @ shard) for shard in shards) / width
    mean = sum(float(shard.sum()) for shard in shards) / width if law.kind == "layernorm" else 0.0
    return np.asarray((np.concatenate(shards) - mean) / np.sqrt(square - mean * mean + law.epsilon))


def _averaged(law: RowNorm, shards: list[FloatArray]) -> FloatArray:
    moment = np.mean([law.moment(shard).item() for shard in shards])
    mean = np.mean([shard.mean() for shard in shards]) if law.kind == "layernorm" else 0.0
    return np.asarray((np.concatenate(shards) - mean) / np.sqrt(moment + law.epsilon))


def _pictures(result: Result) -> Pictures:
    """Return the chart of the output of every method."""
    first, *others = Line.each(result.tables["outputs"], "method", "index", "output")
    lines = [replace(first, look="predicted"), *others]
    chart = Chart(title="The sharded norm, right and wrong", lines=lines, y_title="output", **OVER_FEATURES)
    return {"outputs": chart}


EXPERIMENT = Experiment(
    title="Feature-sharded moments, right and wrong",
    label="Shards",
    function=sharded_moments,
    presets={"two ranks": {}, "uneven ranks": {"norm": "rmsnorm", "ranks": 3}},
    controls=("norm", "ranks", "epsilon", *ROW),
    shared=ROW,
    text=(
        "The features of a row lie on several ranks. Reducing the sums of x and of x² before anyone divides gives the "
        "norm of the whole row; a norm of each shard is another function, and averaged variances miss the variance "
        "between the shards' means."
    ),
    formulas=(
        r"\mu=\frac{1}{d}\sum_{\text{rank }r}\ \sum_{i\in r}x_i",
        r"s=\frac{1}{d}\sum_{\text{rank }r}\ \sum_{i\in r}x_i^2-\mu^2",
    ),
    subject=lambda options: (
        f"{options.norm}, {plural(options.ranks, 'rank')}, epsilon {options.epsilon:g}, {row_subject(options)}"
    ),
    reading=lambda found: (
        f"Summed moments differ from the whole row by {rounded(found['largest_difference[summed moments]'])}, local "
        f"moments by {rounded(found['largest_difference[local moments]'])}, averaged local moments by "
        f"{rounded(found['largest_difference[averaged local moments]'])}."
    ),
    draw=_pictures,
    tables={
        "outputs": TableView(
            alt="Output and its distance from the whole row's, by method.",
            titles={
                "method": "method", "rank": "rank", "index": "feature", "output": "output", "difference": "difference",
            },
        )
    },
)  # fmt: skip
