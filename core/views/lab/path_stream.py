"""Views of the stream as a sum, of the geometry of its updates, and of what it costs."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from core.lab.paths.ledger import ResidualLedgerOptions
from core.lab.result import Result
from core.views.lab.chart import Chart, Line
from core.views.lab.signal_residuals import ADDITION_AXIS, COSINES, decoder_subject
from core.views.lab.view import LabView, Picture, TableView, closeness, counted, number


def expansion_pictures(result: Result, subject: str) -> Mapping[str, Picture]:
    """Share and RMS of every term of the last state."""
    terms = result.tables["terms"].reset_index(names="term")
    axis = "term, 0 is the input"
    named = [("input", "input"), ("attention", "attention"), ("feed_forward", "feed-forward")]
    known = [name for name, _ in named]
    rest = [(str(name), str(name)) for name in dict.fromkeys(terms["branch"]) if name not in known]
    groups = [(title, terms[terms["branch"] == name]) for name, title in [*named, *rest]]
    return {
        "stream-expansion-shares": Chart(
            title="Share of every term in the last state", subject=subject, x_title=axis, y_title="share, sums to 1",
            log_y=False, levels=[(0.0, "0")],
            lines=[Line.of(rows, "term", "share", title, i, "bars") for i, (title, rows) in enumerate(groups)],
        ),
        "stream-expansion-sizes": Chart(
            title="Size of every term", subject=subject, x_title=axis, y_title="RMS, dimensionless",
            lines=[Line.of(rows, "term", "rms", title, i, "points") for i, (title, rows) in enumerate(groups)],
        ),
    }  # fmt: skip


def _expansion_reading(result: Result) -> str:
    found = result.summary
    return (
        f"The input has a share of {number(found['share_of_input'])} in the last state, the largest update "
        f"{number(found['largest_share'])}; the terms add up to the last state {closeness(found['expansion_error'])}."
    )


STREAM_EXPANSION = LabView(
    text=(
        "The last state is the input plus every update, each multiplied by the shortcuts after it: exactly, whatever "
        "the branches compute. It is an account and no linear model, for every update was made at its own state. A "
        "share may be negative where a term points against the last state."
    ),
    formulas=(
        r"x_L=\Bigl(\prod_j a_j\Bigr)x_0+\sum_i\Bigl(\prod_{j>i}a_j\Bigr)b_i\,u_i",
        r"\text{share}_i=\frac{\langle\text{term}_i,x_L\rangle}{\langle x_L,x_L\rangle}",
    ),
    subject=decoder_subject,
    reading=_expansion_reading,
    pictures=expansion_pictures,
    tables={
        "terms": TableView(
            alt="Every term of the last state.",
            titles={
                "label": "site", "branch": "branch", "shortcut_product": "shortcuts after it", "rms": "RMS",
                "share": "share",
            },
        )
    },
)  # fmt: skip


def geometry_pictures(result: Result, subject: str) -> Mapping[str, Picture]:
    """Ratio, cosine and growth of every addition, pooled and by position."""
    rows, pooled, found = result.tables["rows"], result.tables["pooled"], {}
    for name, title, log in (
        ("rho", "Size of the update, rho = |u| / |x|", True),
        ("cosine", "Direction of the update, cosine", False),
        ("growth", "Growth |x + u|² / |x|²", True),
    ):
        lines = [
            Line.of(pooled, "addition", name, "pooled", 0),
            Line.of(rows, "addition", name, "every position", 1, "points"),
        ]
        if name == "growth":
            expected = Line.of(pooled, "addition", "growth_expected", "by the identity", 0, "predicted")
            lines.append(expected)
        found[f"update-geometry-{name}"] = Chart(
            title=title, subject=subject, lines=lines, x_title=ADDITION_AXIS, y_title=name, log_y=log, whole_x=True,
            levels=[(1.0, "1")] if log else [(0.0, "orthogonal, 0")], y_range=None if log else COSINES,
        )  # fmt: skip
    return found


def _geometry_reading(result: Result) -> str:
    found = result.summary
    return (
        f"The largest update is {number(found['largest_rho'])} times its stream; cosines run from "
        f"{number(found['smallest_cosine'])} to {number(found['largest_cosine'])}. The growth identity holds "
        f"{closeness(found['largest_identity_error'])}."
    )


GEOMETRY_TITLES = {
    "addition": "addition", "label": "site", "rho": "rho", "cosine": "cosine", "growth": "growth",
    "growth_expected": "growth by the identity", "identity_error": "error",
}  # fmt: skip
UPDATE_GEOMETRY = LabView(
    text=(
        "An update of one size does different things: along the stream it makes it longer, across it turns it, against "
        "it it cancels. Size and cosine together say by how much the squared length grows."
    ),
    formulas=(r"\frac{\|x+u\|^2}{\|x\|^2}=1+\rho^2+2\rho\cos\theta", r"\rho=\frac{\|u\|}{\|x\|}"),
    subject=decoder_subject,
    reading=_geometry_reading,
    pictures=geometry_pictures,
    tables={
        "pooled": TableView(alt="Geometry of every addition, all positions together.", titles=GEOMETRY_TITLES),
        "rows": TableView(
            alt="Geometry of every addition and position.",
            titles={"position": "position", **GEOMETRY_TITLES},
        ),
    },
)


def ledger_pictures(result: Result, subject: str) -> Mapping[str, Picture]:
    """Every item's size as a bar."""
    table = result.tables["ledger"]
    numbers = [str(number) for number in range(1, len(table) + 1)]
    lines = [Line(name="MiB", x=numbers, y=table["mebibytes"].tolist(), look="bars")]
    chart = Chart(
        title="The ledger", subject=subject, lines=lines, x_title="item, as numbered below", y_title="MiB",
        names_on_x=True, legend=False,
    )  # fmt: skip
    return {"residual-ledger-items": chart}


def ledger_view(table: pd.DataFrame) -> pd.DataFrame:
    """The ledger as people read it: whole numbers with separators, exact however large."""
    return pd.DataFrame(
        {
            "no.": range(1, len(table) + 1),
            "item": table["item"],
            "elements": [f"{count:,}" for count in table["elements"]],
            "bytes": [f"{count:,}" for count in table["bytes"]],
            "MiB": table["mebibytes"],
        }
    )


def _ledger_reading(result: Result) -> str:
    found = result.summary
    return (
        f"The residual state has {found['elements']:,} elements, {number(found['state_mebibytes'])} MiB; one unfused "
        f"addition moves {number(found['unfused_addition_mebibytes'])} MiB, and a block keeps "
        f"{number(found['saved_a_block_mebibytes'])} MiB for its backward."
    )


def _ledger_subject(options: ResidualLedgerOptions) -> str:
    blocks = counted(options.blocks, "block")
    return f"{options.batch} x {options.positions} x {options.width}, {options.dtype}, L = {blocks}"


RESIDUAL_LEDGER = LabView(
    text=(
        "What the residual stream costs in memory and traffic, counted in whole tensors as if each came from main "
        "memory and went back; a fused kernel moves fewer. No array is made, so any size can be asked for."
    ),
    formulas=(
        r"\text{elements}=B\,S\,d",
        r"\text{two reads, one write}=3\,B\,S\,d\cdot\text{bytes}",
    ),
    subject=_ledger_subject,
    reading=_ledger_reading,
    pictures=ledger_pictures,
    tables={"ledger": TableView(alt="Elements, bytes and MiB of every item, exact.", shape=ledger_view)},
)
