"""Experiment: the variance of a row of d numbers by three algorithms, in four floating types.

- One pass: with s1 = sum of x and s2 = sum of x^2, the variance is s2/d - (s1/d)^2, the difference of two large and
  nearly equal numbers.
- Two passes: first the mean, then the mean of the squared deviations.
- Online: Welford's update of the mean and of the sum of squared deviations.

Every operation is rounded to the floating type. The reference is the variance of the row after rounding to the type,
computed with exactly rounded binary64 sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ..kit import Chart, Experiment, LabError, Line, Pictures, Result, TableView, plural, rounded, whole
from .row import DTYPES, LONG_ROW, OUTSIDE, ROW, LongRowOptions, long_row_subject

if TYPE_CHECKING:
    import torch

MAX_WIDTH = 4096


class OnePassOptions(LongRowOptions):
    """Options: a row, and the largest of the offsets 0, 1, 10, 100, ... that are added to it."""

    largest_power: int = whole(8, 0, 12, "Largest offset, power of ten", "Largest offset as a power of ten.")

    def check(self) -> None:
        """Raise `LabError` if the row is longer than 4,096 numbers, which are added one by one."""
        super().check()
        if self.source == "drawn" and self.drawn_width > MAX_WIDTH:
            raise LabError(f"drawn_width is {self.drawn_width}; this experiment takes rows of up to {MAX_WIDTH}.")


def one_pass_moments(options: OnePassOptions) -> Result:
    """Return the variance of the row with growing offsets, by algorithm and floating type.

    Table `variances` has one row per type, algorithm and offset, with the reference and the relative error.
    """
    import torch  # bfloat16 arithmetic

    row = torch.from_numpy(np.ascontiguousarray(options.row()))
    offsets = [0.0, *(10.0**power for power in range(options.largest_power + 1))]
    frames = []
    for dtype in DTYPES:
        columns = (torch.tensor(offsets, dtype=torch.float64) + row[:, None]).to(getattr(torch, dtype))
        exact = [_exact_variance(column) for column in columns.T.double().tolist()]
        for algorithm, variance in _ALGORITHMS.items():
            named = {"dtype": dtype, "algorithm": algorithm, "offset": offsets}
            found = variance(columns).double().numpy()
            frames.append(pd.DataFrame({**named, "variance": found, "variance_of_stored_row": exact}))
    table = pd.concat(frames, ignore_index=True)
    error = (table["variance"] - table["variance_of_stored_row"]).abs() / table["variance_of_stored_row"]
    # A row whose stored entries are all equal has variance 0, and no relative error.
    table["relative_error"] = error.where(table["variance_of_stored_row"] > 0)
    finite = table[np.isfinite(table["relative_error"])]
    worst = finite.groupby(["algorithm", "dtype"], sort=False)["relative_error"].max()
    return Result(
        summary={
            **{f"worst_relative_error[{', '.join(map(str, key))}]": value for key, value in worst.items()},
            "negative_variances": int((table["variance"] < 0).sum()),
        },
        tables={"variances": table},
        notes=(OUTSIDE, "Storing the row in a narrow type changes the row; the error is against the stored row."),
    )


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
    """Return the population variance from exactly rounded sums; NaN if the dtype could not hold the row."""
    if not all(map(math.isfinite, values)):
        return math.nan
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / len(values)


_ALGORITHMS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "one pass": _one_pass,
    "two passes": _two_passes,
    "online": _online,
}
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def _power(offset: float) -> str:
    """Return the offset as a tick label: a power of ten, short enough for a narrow screen."""
    whole = f"{offset:.0f}"
    if len(whole) < 3 or whole != f"1{'0' * (len(whole) - 1)}":
        return f"{offset:g}"
    return "10" + str(len(whole) - 1).translate(RAISED)


def _pictures(result: Result) -> Pictures:
    """Return charts of the relative error of every algorithm against the offset, one figure per dtype."""
    found: dict[str, Chart] = {}
    for dtype, table in result.tables["variances"].groupby("dtype", sort=False):
        named = table.assign(offset=[_power(offset) for offset in table["offset"]])
        lines = Line.each(named, "algorithm", "offset", "relative_error")
        found[f"{dtype}"] = Chart(
            title=f"Error of the variance in {dtype}", lines=lines, names_on_x=True,
            x_title="offset added to the row", y_title="relative error", levels=[(1.0, "all digits lost, 1")],
        )  # fmt: skip
    return found


EXPERIMENT = Experiment(
    title="One-pass moments",
    label="One pass",
    function=one_pass_moments,
    presets={"usual": {}},
    torch=True,
    controls=("largest_power", *LONG_ROW),
    shared=ROW[1:],
    text=(
        "The mean of the squares minus the square of the mean needs one look at the row, and subtracts two large, "
        "nearly equal numbers once the mean is far from 0. Two passes, or Welford's online update, do not. A variance "
        "may even come out negative."
    ),
    formulas=(
        r"\underbrace{\tfrac1d\textstyle\sum x^2-\bigl(\tfrac1d\sum x\bigr)^2}_{\text{one pass}}\qquad "
        r"\underbrace{\tfrac1d\textstyle\sum(x-\mu)^2}_{\text{two passes}}",
    ),
    subject=long_row_subject,
    reading=lambda found: (
        f"In float32 one pass errs by up to {rounded(found['worst_relative_error[one pass, float32]'])} of the "
        f"variance, two passes by up to {rounded(found['worst_relative_error[two passes, float32]'])}; "
        f"{plural(found['negative_variances'], 'variance')} came out negative."
    ),
    draw=_pictures,
    tables={
        "variances": TableView(
            alt="Variance and its error by type, algorithm and offset.",
            titles={
                "dtype": "type", "algorithm": "algorithm", "offset": "offset", "variance": "variance",
                "variance_of_stored_row": "stored row's variance", "relative_error": "relative error",
            },
        )
    },
)  # fmt: skip
