"""Experiments: moments in narrow floating types, added one by one as a careless kernel would.

One pass: s1 += x, s2 += x^2, variance s2/d - (s1/d)^2, which subtracts two large, nearly equal numbers. Two passes: the
mean first, then the squared deviations. Online: Welford's update of mean and summed squares. Every operation is rounded
to the type named; the reference is the stored row's own variance in exactly rounded binary64 sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from core.lab.options import Options, number, seed, whole
from core.lab.result import Result

if TYPE_CHECKING:
    import torch

DTYPES = ("float64", "float32", "float16", "bfloat16")
LARGEST_OFFSET_POWER = 8
OUTSIDE = "A value outside the type's range is null: float16 ends at 65504."


@dataclass(frozen=True, kw_only=True)
class OnePassOptions(Options):
    """Rows offset + unit-normal, the offset swept over powers of ten."""

    width: int = whole(128, 2, 4096, "Features d of the row.")
    seed: int = seed()


def one_pass_moments(options: OnePassOptions) -> Result:
    """Variance of rows of growing mean, by algorithm and type. Table: `variances`."""
    import torch  # bfloat16 arithmetic

    pattern = torch.randn(options.width, generator=torch.Generator().manual_seed(options.seed), dtype=torch.float64)
    offsets = torch.tensor([0.0, *(10.0**power for power in range(LARGEST_OFFSET_POWER + 1))], dtype=torch.float64)
    frames = []
    for name in DTYPES:
        columns = (offsets + pattern[:, None]).to(getattr(torch, name))
        exact = np.array([_exact_variance(column) for column in columns.T.double().tolist()])
        for algorithm, function in _ALGORITHMS.items():
            found = function(columns).double().numpy()
            with np.errstate(all="ignore"):
                relative = np.abs(found - exact) / exact
            frames.append(
                pd.DataFrame(
                    {
                        "dtype": name,
                        "algorithm": algorithm,
                        "offset": offsets.numpy(),
                        "variance": found,
                        "variance_of_stored_row": exact,
                        "relative_error": relative,
                    }
                )
            )
    table = pd.concat(frames, ignore_index=True)
    worst = table[np.isfinite(table["relative_error"])].groupby(["dtype", "algorithm"])["relative_error"].max()
    negative = table[table["variance"] < 0]
    return Result(
        summary={
            **{
                f"worst_relative_error[{dtype}, {algorithm}]": worst[dtype, algorithm]
                for dtype, algorithm in worst.index
            },
            "negative_variances": len(negative),
        },
        tables={"variances": table},
        notes=(OUTSIDE, "Storing the row in a narrow type changes the row; the error is against the stored row."),
    )


@dataclass(frozen=True, kw_only=True)
class AccumulationOptions(Options):
    """One unit-normal row times a scale, its mean square added up number by number."""

    width: int = whole(2048, 2, 16384, "Features d of the row.")
    scale: float = number(1.0, 1e-6, 1e6, "RMS of the row; from 256 its largest squares leave float16.")
    seed: int = seed()


def accumulation(options: AccumulationOptions) -> Result:
    """Mean square by type of row and of accumulator. Tables: `partial_sums`, `results`."""
    import torch  # bfloat16 arithmetic

    generator = torch.Generator().manual_seed(options.seed)
    row = options.scale * torch.randn(options.width, generator=generator, dtype=torch.float64)
    marks = sorted({2**power for power in range(options.width.bit_length())} | {options.width})
    partial, results = [], []
    for stored in DTYPES:
        x = row.to(getattr(torch, stored))
        exact = [math.fsum(value * value for value in x.double().tolist()[:mark]) for mark in marks]
        for accumulator in dict.fromkeys((stored, "float32")):
            if accumulator == "float32" and stored == "float64":
                continue
            sums = _running(x.to(getattr(torch, accumulator)).square(), marks)
            partial += [(stored, accumulator, *cells) for cells in zip(marks, sums, exact, strict=True)]
            results.append((stored, accumulator, sums[-1] / options.width, exact[-1] / options.width))
    table = pd.DataFrame(results, columns=["row_dtype", "accumulator", "mean_square", "exact_mean_square"])
    table["relative_error"] = (table["mean_square"] - table["exact_mean_square"]) / table["exact_mean_square"]
    table["rmsnorm_output_rms"] = np.sqrt(table["exact_mean_square"] / table["mean_square"])
    sums_table = pd.DataFrame(partial, columns=["row_dtype", "accumulator", "elements", "sum", "exact_sum"])
    sums_table["ratio"] = sums_table["sum"] / sums_table["exact_sum"]
    return Result(
        summary={
            f"relative_error[{found.row_dtype} in {found.accumulator}]": found.relative_error
            for found in table.itertuples()
        },
        tables={"partial_sums": sums_table, "results": table},
        notes=(OUTSIDE, "A sum stops growing where an addend is below half its last place; bfloat16 has 8 bits."),
    )


def _running(addends: torch.Tensor, marks: list[int]) -> list[float]:
    """Partial sums after `marks` addends, each addition rounded to the addends' type."""
    total, found = addends.new_zeros(()), []
    wanted = set(marks)
    for count, addend in enumerate(addends.unbind(), start=1):
        total = total + addend
        if count in wanted:
            found.append(float(total))
    return found


def _one_pass(columns: torch.Tensor) -> torch.Tensor:
    first, second = columns.new_zeros(columns.shape[1]), columns.new_zeros(columns.shape[1])
    for x in columns.unbind():
        first, second = first + x, second + x * x
    mean = first / len(columns)
    return second / len(columns) - mean * mean


def _two_passes(columns: torch.Tensor) -> torch.Tensor:
    total, squares = columns.new_zeros(columns.shape[1]), columns.new_zeros(columns.shape[1])
    for x in columns.unbind():
        total = total + x
    mean = total / len(columns)
    for x in columns.unbind():
        squares = squares + (x - mean) * (x - mean)
    return squares / len(columns)


def _online(columns: torch.Tensor) -> torch.Tensor:
    mean, squares = columns.new_zeros(columns.shape[1]), columns.new_zeros(columns.shape[1])
    for count, x in enumerate(columns.unbind(), start=1):
        away = x - mean
        mean = mean + away / count
        squares = squares + away * (x - mean)
    return squares / len(columns)


def _exact_variance(values: list[float]) -> float:
    """Population variance with exactly rounded sums."""
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / len(values) if math.isfinite(mean) else math.nan


_ALGORITHMS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "one pass": _one_pass,
    "two passes": _two_passes,
    "online": _online,
}
