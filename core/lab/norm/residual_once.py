"""Experiment: with tensor parallelism, the residual must be added once, not on every rank."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..kit import (
    Chart,
    Experiment,
    Line,
    Options,
    Pictures,
    Result,
    TableView,
    number,
    plural,
    rms,
    rounded,
    seed,
    whole,
)
from .row import OVER_FEATURES


class ResidualOnceOptions(Options):
    """Options: the number of ranks, the width, and the RMS of the branch output, a sum of one part per rank."""

    ranks: int = whole(4, 1, 64, "Ranks P", "Ranks P.")
    width: int = whole(64, 1, 4096, "Width d", "Features d.")
    branch_spread: float = number(0.5, 0.0, 100.0, "RMS of the branch", "RMS of the whole branch output.", step=0.1)
    seed: int = seed(more=True)


def residual_once(options: ResidualOnceOptions) -> Result:
    """Compare a residual x that is added once with one that is added on each of P ranks before the sum over ranks.

    With u_r the part of the branch output on rank r, the states are x + sum_r u_r (right) and sum_r (x + u_r) = P x +
    sum_r u_r (wrong). Table `states` has one row per method and feature.
    """
    generator = np.random.default_rng(options.seed)
    x = generator.standard_normal(options.width)
    parts = generator.standard_normal((options.ranks, options.width))
    parts *= options.branch_spread / np.sqrt(options.ranks)
    states = {"added once": x + parts.sum(axis=0), "added on every rank": (x + parts).sum(axis=0)}
    once, every = states.values()
    index = np.arange(options.width)
    return Result(
        summary={
            "shortcut_multiplier": 1.0 + float((every - once) @ x) / float(x @ x),
            "once_rms": rms(once),
            "every_rank_rms": rms(every),
            "relative_error": rms(every - once) / rms(once),
        },
        tables={
            "states": pd.concat(
                [pd.DataFrame({"method": name, "index": index, "value": value}) for name, value in states.items()],
                ignore_index=True,
            )
        },
    )


def _pictures(result: Result) -> Pictures:
    """Return the chart of the state with the residual added once and on every rank."""
    lines = Line.each(result.tables["states"], "method", "index", "value")
    return {"states": Chart(title="The state after the reduction", lines=lines, y_title="state", **OVER_FEATURES)}


EXPERIMENT = Experiment(
    title="A residual added once or on every rank",
    label="Add once",
    function=residual_once,
    presets={"four ranks": {}},
    text=(
        "A row-parallel branch ends in a sum over ranks. If every rank adds the residual before that sum, the stream "
        "is added once a rank; all shapes still fit."
    ),
    formulas=(r"\text{right:}\quad x+\sum_r u_r", r"\text{wrong:}\quad\sum_r(x+u_r)=P\,x+\sum_r u_r"),
    subject=lambda options: (
        f"{plural(options.ranks, 'rank')}, d = {options.width}, branch RMS {options.branch_spread:g}, "
        f"seed {options.seed}"
    ),
    reading=lambda found: (
        f"Added on every rank the shortcut counts {rounded(found['shortcut_multiplier'])} times: the state has RMS "
        f"{rounded(found['every_rank_rms'])} instead of {rounded(found['once_rms'])}."
    ),
    draw=_pictures,
    tables={
        "states": TableView(
            alt="The state by method.", titles={"method": "method", "index": "feature", "value": "value"}
        )
    },
)
