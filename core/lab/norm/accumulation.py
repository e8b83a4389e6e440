"""Experiment: a row's mean square added up number by number in the row's own type, or in float32.

A sum stops growing where an addend is below half of its last place: in bfloat16, with 8 significant bits, a sum of
unit squares stalls near 256. Squares past 65504 leave float16.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from core.lab.norm.one_pass import DTYPES, OUTSIDE
from core.lab.norm.row import LongRowOptions
from core.lab.options import number, whole
from core.lab.result import Result

if TYPE_CHECKING:
    import torch

COLUMNS = ["row_dtype", "accumulator", "elements", "sum", "exact_sum"]


@dataclass(frozen=True, kw_only=True)
class AccumulationOptions(LongRowOptions):
    """A row and a factor on it."""

    drawn_width: int = whole(2048, 2, 16384, "Features of a drawn row; its seed is `seed`.")
    factor: float = number(1.0, 1e-6, 1e6, "Factor on the row; a unit row times 256 leaves float16 when squared.")


def accumulation(options: AccumulationOptions) -> Result:
    """Mean square by type of row and of accumulator. Tables: `partial_sums` at powers of two, `results` at the end."""
    import torch  # bfloat16 arithmetic

    row = torch.from_numpy(options.factor * options.row())
    width = len(row)
    marks = sorted({2**power for power in range(width.bit_length())} | {width})
    partial = []
    for stored in DTYPES:
        x = row.to(getattr(torch, stored))
        squares = [value * value for value in x.double().tolist()]
        exact = [math.fsum(squares[:mark]) for mark in marks]
        for accumulator in (stored,) if stored in ("float64", "float32") else (stored, "float32"):
            sums = _running(x.to(getattr(torch, accumulator)).square(), marks)
            partial += [(stored, accumulator, *cells) for cells in zip(marks, sums, exact, strict=True)]
    table = pd.DataFrame(partial, columns=COLUMNS)
    table["relative_error"] = (table["sum"] - table["exact_sum"]) / table["exact_sum"].where(table["exact_sum"] > 0)
    last = table[table["elements"] == width].reset_index(drop=True)
    results = last[COLUMNS[:2]].assign(
        mean_square=last["sum"] / width,
        exact_mean_square=last["exact_sum"] / width,
        relative_error=last["relative_error"],
        rmsnorm_output_rms=np.sqrt(last["exact_sum"] / last["sum"].where(last["sum"] > 0)),
    )
    return Result(
        summary={
            f"relative_error[{stored} in {accumulator}]": error
            for stored, accumulator, error in zip(
                results["row_dtype"], results["accumulator"], results["relative_error"], strict=True
            )
        },
        tables={"partial_sums": table, "results": results},
        notes=(OUTSIDE, "The RMSNorm output's RMS is its size with that mean square and epsilon 0."),
    )


def _running(addends: torch.Tensor, marks: list[int]) -> list[float]:
    """Partial sums after `marks` addends, each addition rounded to the addends' type."""
    total, found, wanted = addends.new_zeros(()), [], set(marks)
    for count, addend in enumerate(addends.unbind(), start=1):
        total = total + addend
        if count in wanted:
            found.append(float(total))
    return found
