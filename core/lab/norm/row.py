"""The rows that the norm lab works on: typed by a person, or read from a real decoder's stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import numpy as np

from core.decoder.splitmix64 import FloatArray
from core.errors import LabError
from core.lab.decoder_source import DecoderOptions, decoder_tape
from core.lab.norm.law import NORMS, NormKind, RowNorm
from core.lab.options import choice, number, numbers, rows, whole

EXAMPLE = ((4.0, -2.0, 6.0, 4.0),)
MAX_WIDTH = 64


@dataclass(frozen=True, kw_only=True)
class RowOptions(DecoderOptions):
    """Rows `x`, or where `source` is `decoder` the valid rows of one residual site of the decoder described."""

    x: tuple[tuple[float, ...], ...] = rows(EXAMPLE, 1, MAX_WIDTH, "Rows of up to 64 numbers; the first is looked at.")
    source: str = choice("typed", ("typed", "decoder"), "Take x, or a site of the decoder.")
    site: int = whole(0, 0, 512, "Residual site, 0 the input.")
    position: int = whole(0, 0, 511, "Valid position that is looked at.")

    def check(self) -> None:
        """Refuse sites and positions that the decoder does not have, and rows too wide to be shown."""
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
        """Features d of a row."""
        return len(self.x[0]) if self.source == "typed" else self.width

    @property
    def looked_at(self) -> int:
        """Index of the row that is looked at."""
        return 0 if self.source == "typed" else self.position

    def all_rows(self) -> FloatArray:
        """Every row `[n, d]`."""
        if self.source == "typed":
            return np.array(self.x)
        tape = decoder_tape(self)
        state: FloatArray = tape.states[self.site].detach().numpy()[0][tape.valid]
        return state

    def row(self) -> FloatArray:
        """The row `[d]` that is looked at."""
        return np.asarray(self.all_rows()[self.looked_at])


@dataclass(frozen=True, kw_only=True)
class LongRowOptions(RowOptions):
    """A row that may also be drawn, for what only shows on long rows."""

    source: str = choice("drawn", ("drawn", "typed", "decoder"), "A unit-normal row, x, or a site of the decoder.")
    drawn_width: int = whole(128, 2, 16384, "Features of a drawn row; its seed is `seed`.")

    def row(self) -> FloatArray:
        """The row `[d]` that is looked at."""
        if self.source != "drawn":
            return super().row()
        return np.random.default_rng(self.seed).standard_normal(self.drawn_width)


@dataclass(frozen=True, kw_only=True)
class NormOptions(RowOptions):
    """Rows and one norm."""

    norm: str = choice("layernorm", NORMS, "Which norm.")
    epsilon: float = number(1e-5, 0.0, 1e6, "Epsilon.")
    placement: str = choice("inside", ("inside", "outside"), "Epsilon inside or outside the root.")
    variance: str = choice("population", ("population", "sample"), "LayerNorm's divisor: d or d - 1.")
    share: float = number(0.5, 0.0, 1.0, "pRMSNorm: part of the coordinates in the moment, the first ceil(share d).")
    alpha: float = number(0.5, -100.0, 100.0, "DyT: slope inside the tanh.")
    gain: tuple[float, ...] | None = numbers(None, 1, MAX_WIDTH, "Gain of every channel; ones unless given.")
    bias: tuple[float, ...] | None = numbers(None, 1, MAX_WIDTH, "Bias of every channel; zeros unless given.")

    def check(self) -> None:
        """Refuse gains and biases of another width, and an empty moment."""
        super().check()
        d = self.length
        for name in ("gain", "bias"):
            given = getattr(self, name)
            if given is not None and len(given) != d:
                raise LabError(f"{name} has {len(given)} numbers and the row has {d}; give one for each.")
        if self.norm == "prmsnorm" and self.share == 0.0:
            raise LabError("share is 0, so pRMSNorm's moment would have no coordinate; give a positive share.")

    def law(self) -> RowNorm:
        """The norm described."""
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
    """A checked choice as the type that the law takes."""
    (kind,) = (known for known in get_args(NormKind) if known == name)
    found: NormKind = kind
    return found
