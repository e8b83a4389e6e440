"""The rows that the norm experiments use: typed in, drawn at random, or taken from the residual stream of a decoder."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from ..decoder_source import DECODER, READ, DecoderOptions, decoder_tape
from ..kit import FloatArray, LabError, choice, number, numbers, plural, rows, whole
from .law import NORMS, NormKind, RowNorm

EXAMPLE = ((4.0, -2.0, 6.0, 4.0),)
MAX_WIDTH = 64
DRAWN = ("source", ("drawn",))
WITH_MOMENT = ("norm", ("layernorm", "rmsnorm", "prmsnorm", "scalenorm"))
# The order of the controls of a row, of one that may be long, and of a norm on a row.
ROW = ("source", "x", "site", "position", *DECODER)
LONG_ROW = (*ROW, "drawn_width")
NORM = ("norm", "epsilon", *ROW, "share", "alpha", "placement", "variance", "gain", "bias")
# Fields of every chart over the features of a row.
OVER_FEATURES: dict[str, Any] = {
    "x_title": "feature, counted from 0", "whole_x": True, "log_y": False, "levels": [(0.0, "0")],
}  # fmt: skip
# The floating types of the experiments on rounding, and what they say of a range that is left.
DTYPES = ("float64", "float32", "float16", "bfloat16")
OUTSIDE = "A value outside its type's range is null: float16 ends at 65504."


class RowOptions(DecoderOptions):
    """Options of an experiment on rows: typed rows `x`, or the rows of one state of a decoder's residual stream.

    If `source` is `decoder`, `site` is the index of the state (0 is the input) and `position` the examined position.
    """

    x: tuple[tuple[float, ...], ...] = rows(
        EXAMPLE, 1, MAX_WIDTH, "x, rows with semicolons between", "Rows of up to 64 numbers; the first is looked at.",
        when=("source", ("typed",)),
    )  # fmt: skip
    source: str = choice("typed", ("typed", "decoder"), "Row", "Take x, or a site of the decoder.")
    site: int = whole(0, 0, 512, "Residual site", "Residual site, 0 the input.", when=READ)
    position: int = whole(0, 0, 511, "Position", "Valid position that is looked at.", when=READ)

    def check(self) -> None:
        """Raise `LabError` if the decoder does not have the site or position, or is wider than 64 features."""
        if self.source != "decoder":
            return
        super().check()
        if self.width > MAX_WIDTH:
            raise LabError(f"width is {self.width}; the norm lab looks at rows of up to {MAX_WIDTH} features.")
        sites, positions = len(self.graph().site_labels()), self.batch().valid_count
        if self.site >= sites:
            raise LabError(f"site is {self.site}; this decoder has sites 0 to {sites - 1}.")
        if self.position >= positions:
            raise LabError(f"position is {self.position}; the row has positions 0 to {positions - 1}.")

    @property
    def length(self) -> int:
        """The number of features d of a row."""
        return len(self.x[0]) if self.source == "typed" else self.width

    @property
    def looked_at(self) -> int:
        """The index of the row that is examined."""
        return 0 if self.source == "typed" else self.position

    def all_rows(self) -> FloatArray:
        """Return all rows `[n, d]`: the typed ones, or those of the decoder's state at its n valid positions."""
        if self.source == "typed":
            return np.array(self.x)
        tape = decoder_tape(self)
        state: FloatArray = tape.states[self.site].detach().numpy()[0][tape.valid]
        return state

    def row(self) -> FloatArray:
        """Return the examined row `[d]`."""
        return np.asarray(self.all_rows()[self.looked_at])


class LongRowOptions(RowOptions):
    """Options of an experiment on one row that may also be drawn from N(0, 1), for effects that only long rows show."""

    source: str = choice(
        "drawn", ("drawn", "typed", "decoder"), "Row", "A unit-normal row, x, or a site of the decoder."
    )
    drawn_width: int = whole(
        128, 2, 16384, "Features of the drawn row", "Features of a drawn row; its seed is `seed`.", when=DRAWN
    )

    def row(self) -> FloatArray:
        """Return the examined row `[d]`: drawn from `seed`, typed, or from the decoder."""
        if self.source != "drawn":
            return super().row()
        return np.random.default_rng(self.seed).standard_normal(self.drawn_width)


class NormOptions(RowOptions):
    """Options of an experiment on rows and one norm; gain and bias are per feature."""

    norm: str = choice("layernorm", NORMS, "Norm", "Which norm.")
    epsilon: float = number(1e-5, 0.0, 1e6, "Epsilon", "Epsilon.", step=1e-5, when=WITH_MOMENT)
    placement: str = choice(
        "inside", ("inside", "outside"), "Epsilon stands", "Epsilon inside or outside the root.", when=WITH_MOMENT,
        more=True,
    )  # fmt: skip
    variance: str = choice(
        "population", ("population", "sample"), "Variance", "LayerNorm's divisor: d or d - 1.",
        when=("norm", ("layernorm",)), more=True,
    )  # fmt: skip
    share: float = number(
        0.5, 0.0, 1.0, "Part of the features",
        "pRMSNorm: part of the coordinates in the moment, the first ceil(share d).", widget="slider", step=0.1,
        when=("norm", ("prmsnorm",)),
    )  # fmt: skip
    alpha: float = number(0.5, -100.0, 100.0, "Alpha", "DyT: slope inside the tanh.", step=0.1, when=("norm", ("dyt",)))
    gain: tuple[float, ...] | None = numbers(
        None, 1, MAX_WIDTH, "Gain", "Gain of every channel; ones unless given.", more=True
    )
    bias: tuple[float, ...] | None = numbers(
        None, 1, MAX_WIDTH, "Bias", "Bias of every channel; zeros unless given.", more=True
    )

    def check(self) -> None:
        """Raise `LabError` if gain or bias has another length than the row, or pRMSNorm's moment has no feature."""
        super().check()
        d = self.length
        for name in ("gain", "bias"):
            given = getattr(self, name)
            if given is not None and len(given) != d:
                raise LabError(f"{name} has {len(given)} numbers and the row has {d}; give one for each.")
        if self.norm == "prmsnorm" and self.share == 0.0:
            raise LabError("share is 0, so pRMSNorm's moment would have no coordinate; give a positive share.")

    def law(self) -> RowNorm:
        """Return the `RowNorm` that the options describe."""
        return RowNorm(
            kind=norm_kind(self.norm),
            epsilon=self.epsilon,
            inside=self.placement == "inside",
            sample=self.variance == "sample",
            share=self.share,
            alpha=self.alpha,
            gain=None if self.gain is None else np.array(self.gain),
            bias=None if self.bias is None else np.array(self.bias),
        )


def norm_kind(name: str) -> NormKind:
    """Return `name` unchanged, typed as the literal that `RowNorm` takes; the caller has checked it."""
    return cast(NormKind, name)


def row_subject(options: RowOptions) -> str:
    """Return text that says which row is examined, for the line under a figure's title."""
    if options.source == "decoder":
        return (
            f"site {options.site}, position {options.position}, L = {plural(options.blocks, 'block')}, "
            f"d = {options.width}, {options.recipe}"
        )
    return f"typed row of {options.length}"


def norm_subject(options: NormOptions) -> str:
    """Return text that says which norm is applied to which row, for the line under a figure's title."""
    parts = [options.norm, f"epsilon {options.epsilon:g} {options.placement}" if options.norm != "dyt" else ""]
    parts += ["sample variance"] if (options.norm, options.variance) == ("layernorm", "sample") else []
    return ", ".join([*filter(None, parts), row_subject(options)])


def long_row_subject(options: LongRowOptions) -> str:
    """Return text that says which row is examined, possibly a drawn one, for the line under a figure's title."""
    return (
        f"drawn row of {options.drawn_width}, seed {options.seed}"
        if options.source == "drawn"
        else row_subject(options)
    )
