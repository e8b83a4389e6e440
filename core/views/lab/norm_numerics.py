"""Views of the numerical traps: moments in one pass, low precision, sharded features, a residual added too often."""

from __future__ import annotations

from collections.abc import Mapping

from core.lab.norm.accumulation import AccumulationOptions
from core.lab.norm.one_pass import OnePassOptions
from core.lab.norm.row import LongRowOptions
from core.lab.norm.sharding import ResidualOnceOptions, ShardedMomentsOptions
from core.lab.result import Result
from core.views.lab.chart import Chart, Line
from core.views.lab.norm_rows import FEATURE_AXIS, row_subject
from core.views.lab.view import LabView, Picture, TableView, counted, number

RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def long_row_subject(options: LongRowOptions) -> str:
    """Which row is looked at, where it may be drawn."""
    return (
        f"drawn row of {options.drawn_width}, seed {options.seed}"
        if options.source == "drawn"
        else row_subject(options)
    )


def one_pass_pictures(result: Result, subject: str) -> Mapping[str, Picture]:
    """Relative error of every algorithm against the offset, a figure a type."""
    found: dict[str, Picture] = {}
    for dtype, table in result.tables["variances"].groupby("dtype", sort=False):
        named = table.assign(offset=[_power(offset) for offset in table["offset"]])
        lines = [
            Line.of(rows, "offset", "relative_error", str(name), index)
            for index, (name, rows) in enumerate(named.groupby("algorithm", sort=False))
        ]
        found[f"one-pass-moments-{dtype}"] = Chart(
            title=f"Error of the variance in {dtype}", subject=subject, lines=lines, names_on_x=True,
            x_title="offset added to the row", y_title="relative error", levels=[(1.0, "all digits lost, 1")],
        )  # fmt: skip
    return found


def _power(offset: float) -> str:
    """The offset as a tick: a power of ten, short enough that a telephone need not turn it on end."""
    whole = f"{offset:.0f}"
    if len(whole) < 3 or whole != f"1{'0' * (len(whole) - 1)}":
        return f"{offset:g}"
    return "10" + str(len(whole) - 1).translate(RAISED)


def _one_pass_reading(result: Result) -> str:
    found = result.summary
    worst = number(found["worst_relative_error[one pass, float32]"])
    negative = counted(found["negative_variances"], "variance")
    return (
        f"In float32 one pass errs by up to {worst} of the variance, two passes by up to "
        f"{number(found['worst_relative_error[two passes, float32]'])}; {negative} came "
        "out negative."
    )


def _one_pass_subject(options: OnePassOptions) -> str:
    return long_row_subject(options)


ONE_PASS = LabView(
    text=(
        "The mean of the squares minus the square of the mean needs one look at the row, and subtracts two large, "
        "nearly equal numbers once the mean is far from 0. Two passes, or Welford's online update, do not. A variance "
        "may even come out negative."
    ),
    formulas=(
        r"\underbrace{\tfrac1d\textstyle\sum x^2-\bigl(\tfrac1d\sum x\bigr)^2}_{\text{one pass}}\qquad "
        r"\underbrace{\tfrac1d\textstyle\sum(x-\mu)^2}_{\text{two passes}}",
    ),
    subject=_one_pass_subject,
    reading=_one_pass_reading,
    pictures=one_pass_pictures,
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


def accumulation_pictures(result: Result, subject: str) -> Mapping[str, Picture]:
    """The running sum of squares by type and accumulator, beside the exact one."""
    partial = result.tables["partial_sums"]
    groups = [
        (" in ".join(map(str, key)), rows) for key, rows in partial.groupby(["row_dtype", "accumulator"], sort=False)
    ]
    sums = [Line.of(rows, "elements", "sum", name, index) for index, (name, rows) in enumerate(groups)]
    exact = Line.of(groups[0][1], "elements", "exact_sum", "exact", 0, "predicted")
    return {
        "accumulation-sums": Chart(
            title="Sum of squares, number by number", subject=subject, lines=[*sums, exact], x_title="squares added",
            y_title="sum", log_x=True,
        ),
        "accumulation-errors": Chart(
            title="Error of the sum, relative to the exact one", subject=subject, x_title="squares added",
            y_title="relative error", log_x=True, log_y=False, levels=[(0.0, "exact, 0")],
            lines=[
                Line.of(rows, "elements", "relative_error", name, index) for index, (name, rows) in enumerate(groups)
            ],
        ),
    }  # fmt: skip


def _accumulation_reading(result: Result) -> str:
    found = result.summary
    own, wide = found["relative_error[bfloat16 in bfloat16]"], found["relative_error[bfloat16 in float32]"]
    return (
        f"A bfloat16 row added up in bfloat16 misses its sum of squares by {number(own)} of it; added up in float32 by "
        f"{number(wide)}."
    )


def _accumulation_subject(options: AccumulationOptions) -> str:
    return f"{long_row_subject(options)}, times {options.factor:g}"


ACCUMULATION = LabView(
    text=(
        "A sum stops growing where an addend is smaller than half of its last place: in bfloat16, with eight "
        "significant bits, a sum of unit squares stalls near 256. Squares above 65504 leave float16 altogether. This "
        "is why norms convert to float32 before they square and add."
    ),
    formulas=(r"s\leftarrow\operatorname{round}(s+x_i^2)",),
    subject=_accumulation_subject,
    reading=_accumulation_reading,
    pictures=accumulation_pictures,
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


def sharding_pictures(result: Result, subject: str) -> Mapping[str, Picture]:
    """The output by every method."""
    table = result.tables["outputs"]
    lines = [
        Line.of(rows, "index", "output", str(name), index, "predicted" if name == "whole row" else "measured")
        for index, (name, rows) in enumerate(table.groupby("method", sort=False))
    ]
    chart = Chart(
        title="The sharded norm, right and wrong", subject=subject, lines=lines, x_title=FEATURE_AXIS,
        y_title="output", log_y=False, whole_x=True, levels=[(0.0, "0")],
    )  # fmt: skip
    return {"sharded-moments-outputs": chart}


def _sharding_reading(result: Result) -> str:
    found = result.summary
    return (
        f"Summed moments differ from the whole row by {number(found['largest_difference[summed moments]'])}, local "
        f"moments by {number(found['largest_difference[local moments]'])}, averaged local moments by "
        f"{number(found['largest_difference[averaged local moments]'])}."
    )


def _sharding_subject(options: ShardedMomentsOptions) -> str:
    return f"{options.norm}, {counted(options.ranks, 'rank')}, epsilon {options.epsilon:g}, {row_subject(options)}"


SHARDED_MOMENTS = LabView(
    text=(
        "The features of a row lie on several ranks. Reducing the sums of x and of x² before anyone divides gives the "
        "norm of the whole row; a norm of each shard is another function, and averaged variances miss the variance "
        "between the shards' means."
    ),
    formulas=(
        r"\mu=\frac{1}{d}\sum_{\text{rank }r}\ \sum_{i\in r}x_i",
        r"s=\frac{1}{d}\sum_{\text{rank }r}\ \sum_{i\in r}x_i^2-\mu^2",
    ),
    subject=_sharding_subject,
    reading=_sharding_reading,
    pictures=sharding_pictures,
    tables={
        "outputs": TableView(
            alt="Output and its distance from the whole row's, by method.",
            titles={
                "method": "method", "rank": "rank", "index": "feature", "output": "output", "difference": "difference",
            },
        )
    },
)  # fmt: skip


def once_pictures(result: Result, subject: str) -> Mapping[str, Picture]:
    """The state with the residual added once and on every rank."""
    table = result.tables["states"]
    lines = [
        Line.of(rows, "index", "value", str(name), index)
        for index, (name, rows) in enumerate(table.groupby("method", sort=False))
    ]
    chart = Chart(
        title="The state after the reduction", subject=subject, lines=lines, x_title=FEATURE_AXIS, y_title="state",
        log_y=False, whole_x=True, levels=[(0.0, "0")],
    )  # fmt: skip
    return {"residual-once-states": chart}


def _once_reading(result: Result) -> str:
    found = result.summary
    return (
        f"Added on every rank the shortcut counts {number(found['shortcut_multiplier'])} times: the state has RMS "
        f"{number(found['every_rank_rms'])} instead of {number(found['once_rms'])}."
    )


def _once_subject(options: ResidualOnceOptions) -> str:
    ranks = counted(options.ranks, "rank")
    return f"{ranks}, d = {options.width}, branch RMS {options.branch_spread:g}, seed {options.seed}"


RESIDUAL_ONCE = LabView(
    text=(
        "A row-parallel branch ends in a sum over ranks. If every rank adds the residual before that sum, the stream "
        "is added once a rank; all shapes still fit."
    ),
    formulas=(r"\text{right:}\quad x+\sum_r u_r", r"\text{wrong:}\quad\sum_r(x+u_r)=P\,x+\sum_r u_r"),
    subject=_once_subject,
    reading=_once_reading,
    pictures=once_pictures,
    tables={
        "states": TableView(
            alt="The state by method.", titles={"method": "method", "index": "feature", "value": "value"}
        )
    },
)
