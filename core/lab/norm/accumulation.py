"""Experiment: the mean square of a row in low precision, its squares added one by one in the row's dtype or in float32.

A sum stops growing when the next addend is less than half of the last digit that the dtype can store. In bfloat16, with
8 significant bits, a sum of ones stops at 256. Squares above 65504 overflow float16.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ..kit import Chart, Experiment, Line, Pictures, Result, TableView, number, rounded, whole
from .row import DTYPES, LONG_ROW, OUTSIDE, ROW, LongRowOptions, long_row_subject

if TYPE_CHECKING:
    import torch

COLUMNS = ["row_dtype", "accumulator", "elements", "sum", "exact_sum"]


class AccumulationOptions(LongRowOptions):
    """Options: a row and the factor that multiplies it."""

    drawn_width: int = whole(
        2048,
        2,
        16384,
        "Features of the drawn row",
        "Features of a drawn row; its seed is `seed`.",
        when=("source", ("drawn",)),
    )
    factor: float = number(
        1.0,
        1e-6,
        1e6,
        "Factor on the row",
        "Factor on the row; a unit row times 256 leaves float16 when squared.",
        step=0.01,
    )


def accumulation(options: AccumulationOptions) -> Result:
    """Return the mean square of the row for every pair of a row dtype and an accumulator dtype.

    Table `partial_sums` has the sum after 1, 2, 4, ... squares and after all of them, beside the exact sum; `results`
    has the final mean square and its error.
    """
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
    """Return the partial sums after `marks` addends, each addition rounded to the addends' dtype."""
    total, found, wanted = addends.new_zeros(()), [], set(marks)
    for count, addend in enumerate(addends.unbind(), start=1):
        total = total + addend
        if count in wanted:
            found.append(float(total))
    return found


def _pictures(result: Result) -> Pictures:
    """Return the chart of the running sum of squares by dtype and accumulator, beside the exact one."""
    partial = result.tables["partial_sums"]
    groups = [
        (" in ".join(map(str, key)), rows) for key, rows in partial.groupby(["row_dtype", "accumulator"], sort=False)
    ]
    sums = [Line.of(rows, "elements", "sum", name, index) for index, (name, rows) in enumerate(groups)]
    exact = Line.of(groups[0][1], "elements", "exact_sum", "exact", 0, "predicted")
    return {
        "sums": Chart(
            title="Sum of squares, number by number", lines=[*sums, exact], x_title="squares added",
            y_title="sum", log_x=True,
        ),
        "errors": Chart(
            title="Error of the sum, relative to the exact one", x_title="squares added",
            y_title="relative error", log_x=True, log_y=False, levels=[(0.0, "exact, 0")],
            lines=[
                Line.of(rows, "elements", "relative_error", name, index) for index, (name, rows) in enumerate(groups)
            ],
        ),
    }  # fmt: skip


EXPERIMENT = Experiment(
    title="Sums in low precision",
    label="Low precision",
    function=accumulation,
    presets={"unit row": {}, "past float16": {"factor": 300.0}},
    torch=True,
    controls=("factor", *LONG_ROW),
    shared=ROW[1:],
    text=(
        "A sum stops growing where an addend is smaller than half of its last place: in bfloat16, with eight "
        "significant bits, a sum of unit squares stalls near 256. Squares above 65504 leave float16 altogether. This "
        "is why norms convert to float32 before they square and add."
    ),
    formulas=(r"s\leftarrow\operatorname{round}(s+x_i^2)",),
    subject=lambda options: f"{long_row_subject(options)}, times {options.factor:g}",
    reading=lambda found: (
        "A bfloat16 row added up in bfloat16 misses its sum of squares by "
        f"{rounded(found['relative_error[bfloat16 in bfloat16]'])} of it; added up in float32 by "
        f"{rounded(found['relative_error[bfloat16 in float32]'])}."
    ),
    draw=_pictures,
    tables={
        "results": TableView(
            alt="Mean square at the end, by type and accumulator.",
            titles={
                "row_dtype": "row's type", "accumulator": "accumulator", "mean_square": "mean square",
                "exact_mean_square": "exact", "relative_error": "relative error",
                "rmsnorm_output_rms": "RMSNorm output's RMS",
            },
        ),
        "partial_sums": TableView(
            alt="The sum after every power of two.",
            titles={
                "row_dtype": "row's type", "accumulator": "accumulator", "elements": "squares", "sum": "sum",
                "exact_sum": "exact", "relative_error": "relative error",
            },
        ),
    },
)  # fmt: skip
