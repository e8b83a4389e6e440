"""Experiments: a norm whose features lie on several ranks, and a residual that must be added once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.decoder.splitmix64 import FloatArray
from core.errors import LabError
from core.lab.moments import rms
from core.lab.norm.law import RowNorm
from core.lab.norm.row import RowOptions, norm_kind
from core.lab.options import Options, choice, number, seed, whole
from core.lab.result import Result

SHARDED_EXAMPLE = ((4.0, -2.0, 6.0, 4.0, 1.0, 0.0, -3.0, 2.0),)


@dataclass(frozen=True, kw_only=True)
class ShardedMomentsOptions(RowOptions):
    """A row whose features are split over ranks in order, as evenly as they go."""

    norm: str = choice("layernorm", ("layernorm", "rmsnorm"), "Which norm.")
    epsilon: float = number(1e-5, 1e-30, 1e6, "Epsilon inside the root.")
    ranks: int = whole(2, 1, 64, "Ranks that hold the row.")

    def check(self) -> None:
        """Refuse ranks without a feature."""
        super().check()
        if self.ranks > self.length:
            raise LabError(
                f"ranks is {self.ranks} and the row has {self.length} features; give every rank at least one."
            )


def sharded_moments(options: ShardedMomentsOptions) -> Result:
    """The sharded norm right (summed moments) and wrong (local ones). Table: `outputs`, a row a method and feature."""
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


@dataclass(frozen=True, kw_only=True)
class ResidualOnceOptions(Options):
    """A branch whose output is a sum of one part a rank, and the stream it is added to."""

    ranks: int = whole(4, 1, 64, "Ranks P.")
    width: int = whole(64, 1, 4096, "Features d.")
    branch_spread: float = number(0.5, 0.0, 100.0, "RMS of the whole branch output.")
    seed: int = seed()


def residual_once(options: ResidualOnceOptions) -> Result:
    """x + sum u_r beside sum (x + u_r) = P x + sum u_r. Table: `states`, a row a method and feature."""
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
