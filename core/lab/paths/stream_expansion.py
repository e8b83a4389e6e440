"""Experiment: the last state of the residual stream as a sum of the input and all branch outputs.

With x_0 the input, u_i the branch output at addition i, b_i its coefficient and a_j the factor on the stream at
addition j, the last state is x_L = (prod_j a_j) x_0 + sum_i (prod_{j > i} a_j) b_i u_i. This is exact for any branches.
It is not a linear model, since every branch output depends on the state that it is computed from.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from ..decoder_source import DECODER, DecoderOptions, decoder_subject, decoder_tape
from ..kit import Chart, Experiment, Line, Pictures, Result, TableView, closeness, rms, rounded
from .options import kept, refuse_norm_after, shortcut_of


class StreamExpansionOptions(DecoderOptions):
    """Options: the decoder whose last state is written as a sum."""

    def check(self) -> None:
        """Check the options. Raises `LabError` if the recipe has a norm after an addition.

        The last state is then not a sum of the input and the branch outputs.
        """
        super().check()
        refuse_norm_after(self)


def stream_expansion(options: StreamExpansionOptions) -> Result:
    """Return all terms of the last state: the input and one term per branch output.

    Table `terms` has one row per term, the input first, with the product of the later factors on the stream, the term's
    RMS and its share: its inner product with the last state, divided by the squared length of that state. The shares
    sum to 1.
    """
    tape = decoder_tape(options)
    shortcuts = [shortcut_of(addition) for addition in options.additions()]
    final = kept(tape.states[-1], tape.valid)
    parts = [("input", -1, "input", math.prod(shortcuts), kept(tape.states[0], tape.valid))]
    for part in tape.contributions:
        later = math.prod(shortcuts[part.site :])
        parts.append((tape.labels[part.site], part.block, part.branch, later, kept(part.contribution, tape.valid)))
    terms = [coefficient * value for *_, coefficient, value in parts]
    total, length = np.sum(terms, axis=0), float(np.sum(final * final))
    rows = [
        (label, block, branch, coefficient, rms(term), float(np.sum(term * final)) / length if length else math.nan)
        for (label, block, branch, coefficient, _), term in zip(parts, terms, strict=True)
    ]
    table = pd.DataFrame(rows, columns=["label", "block", "branch", "shortcut_product", "rms", "share"])
    return Result(
        summary={
            "final_rms": rms(final),
            "share_of_input": table["share"].iloc[0],
            "sum_of_shares": table["share"].sum(),
            "largest_share": table["share"].iloc[1:].max(),
            "expansion_error": np.abs(total - final).max() / np.abs(final).max(),
        },
        tables={"terms": table},
        notes=("A share may be negative or above 1: a term may point against the last state.",),
    )


def _pictures(result: Result) -> Pictures:
    """Return charts of share and RMS of every term of the last state."""
    terms = result.tables["terms"].reset_index(names="term")
    axis = "term, 0 is the input"
    named = [("input", "input"), ("attention", "attention"), ("feed_forward", "feed-forward")]
    known = [name for name, _ in named]
    rest = [(str(name), str(name)) for name in dict.fromkeys(terms["branch"]) if name not in known]
    groups = [(title, terms[terms["branch"] == name]) for name, title in [*named, *rest]]
    return {
        "shares": Chart(
            title="Share of every term in the last state", x_title=axis, y_title="share, sums to 1",
            log_y=False, levels=[(0.0, "0")],
            lines=[Line.of(rows, "term", "share", title, i, "bars") for i, (title, rows) in enumerate(groups)],
        ),
        "sizes": Chart(
            title="Size of every term", x_title=axis, y_title="RMS, dimensionless",
            lines=[Line.of(rows, "term", "rms", title, i, "points") for i, (title, rows) in enumerate(groups)],
        ),
    }  # fmt: skip


EXPERIMENT = Experiment(
    title="The last state as a sum of updates",
    label="Expansion",
    function=stream_expansion,
    presets={"fixture": {}, "scaled shortcuts": {"recipe": "deepscalelm"}},
    torch=True,
    controls=DECODER,
    shared=DECODER,
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
    reading=lambda found: (
        f"The input has a share of {rounded(found['share_of_input'])} in the last state, the largest update "
        f"{rounded(found['largest_share'])}; the terms add up to the last state {closeness(found['expansion_error'])}."
    ),
    draw=_pictures,
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
