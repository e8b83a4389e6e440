"""Experiments: epsilon's two jobs, its two places, and the two variances.

First job: no division of 0 by 0. Second job: a floor, for an output has the share sqrt(s / (s + epsilon)) of its full
size, so inputs below sqrt(epsilon) are shrunk instead of blown up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.decoder.splitmix64 import FloatArray
from core.errors import UndefinedNorm
from core.lab.moments import rms
from core.lab.norm.law import RowNorm
from core.lab.norm.row import NormOptions, RowOptions, norm_kind
from core.lab.options import choice, number
from core.lab.result import Result

# Powers of ten from and to which a row is scaled, and how many steps lie between.
LOWEST, HIGHEST, STEPS = -8, 4, 121
MOMENT_NORMS = ("layernorm", "rmsnorm", "scalenorm")


@dataclass(frozen=True, kw_only=True)
class NormEpsilonOptions(NormOptions):
    """A row, a norm with a moment, and the factor that makes the row small."""

    norm: str = choice("rmsnorm", MOMENT_NORMS, "Which norm.")
    factor: float = number(0.0001, 1e-12, 1e6, "Factor on the row.")
    constant: float = number(5.0, -1e6, 1e6, "Entry of the constant row.")


def norm_epsilon(options: NormEpsilonOptions) -> Result:
    """The scaled row's output and share of full size; the constant row. Tables: `scales`, `output`, `constant_row`."""
    x, law = options.row(), options.law()
    scaled = options.factor * x
    output = law(scaled)
    constant = np.full(len(x), options.constant)
    try:
        flat, refusal = law(constant), ""
    except UndefinedNorm as error:
        flat, refusal = np.full(len(x), np.nan), str(error)
    return Result(
        summary={
            "output_rms": rms(output),
            "share_of_full_size": float(np.sqrt(law.moment(scaled)[0]) / law.denominator(scaled)[0]),
            "moment": law.moment(scaled)[0],
            "half_size_moment": options.epsilon / 3 if law.inside else options.epsilon**2,
            "constant_row_refusal": refusal,
        },
        tables={
            "scales": _scales(x, {"share_of_full_size": law}),
            "output": pd.DataFrame({"index": np.arange(len(x)), "input": scaled, "output": output}),
            "constant_row": pd.DataFrame({"index": np.arange(len(x)), "input": constant, "output": flat}),
        },
    )


def _scales(x: FloatArray, laws: Mapping[str, RowNorm]) -> pd.DataFrame:
    """Share of full size of the scaled row, sqrt(moment) / denominator, a column a law."""
    factors = np.logspace(LOWEST, HIGHEST, STEPS)
    rows = factors[:, None] * x
    roots = np.sqrt(next(iter(laws.values())).moment(rows)[:, 0])
    shares = {name: roots / law.denominator(rows)[:, 0] for name, law in laws.items()}
    return pd.DataFrame({"factor": factors, "root_of_moment": roots, **shares})


@dataclass(frozen=True, kw_only=True)
class EpsilonPlacementOptions(RowOptions):
    """A row, a norm with a moment, and epsilon."""

    norm: str = choice("layernorm", MOMENT_NORMS, "Which norm.")
    epsilon: float = number(1e-5, 1e-30, 1e6, "The same number in both places; it has other units in each.")
    factor: float = number(1.0, 1e-12, 1e6, "Factor on the row.")


def epsilon_placement(options: EpsilonPlacementOptions) -> Result:
    """Outputs with epsilon inside and outside the root. Tables: `scales`, `output`."""
    x = options.factor * options.row()
    places = {
        name: RowNorm(kind=norm_kind(options.norm), epsilon=options.epsilon, inside=name == "inside")
        for name in ("inside", "outside")
    }
    outputs = {name: law(x) for name, law in places.items()}
    return Result(
        summary={
            "inside_rms": rms(outputs["inside"]),
            "outside_rms": rms(outputs["outside"]),
            "largest_difference": np.abs(outputs["inside"] - outputs["outside"]).max(),
        },
        tables={
            "scales": _scales(x, places),
            "output": pd.DataFrame({"index": np.arange(len(x)), "input": x, **outputs}),
        },
        notes=(
            "The two curves are the share of full size: sqrt(s / (s + epsilon)) and sqrt(s) / (sqrt(s) + epsilon).",
        ),
    )


@dataclass(frozen=True, kw_only=True)
class VarianceDivisorOptions(RowOptions):
    """A row for LayerNorm with either divisor."""

    epsilon: float = number(1e-5, 0.0, 1e6, "Epsilon inside the root.")


WIDTHS = (2, 3, 4, 8, 16, 64, 256, 1024, 4096)


def variance_divisor(options: VarianceDivisorOptions) -> Result:
    """LayerNorm with the population (d) and the sample (d - 1) variance. Tables: `output`, `widths`."""
    x = options.row()
    laws = {
        name: RowNorm(kind="layernorm", epsilon=options.epsilon, sample=name == "sample")
        for name in ("population", "sample")
    }
    outputs = {name: law(x) for name, law in laws.items()}
    widths = np.array(WIDTHS)
    return Result(
        summary={
            **{f"{name}_variance": law.moment(x)[0] for name, law in laws.items()},
            "output_ratio": rms(outputs["sample"]) / rms(outputs["population"]) if rms(outputs["population"]) else None,
            "output_ratio_at_epsilon_0": np.sqrt(1 - 1 / len(x)),
        },
        tables={
            "output": pd.DataFrame({"index": np.arange(len(x)), "input": x, **outputs}),
            "widths": pd.DataFrame({"width": widths, "output_ratio_at_epsilon_0": np.sqrt(1 - 1 / widths)}),
        },
    )
