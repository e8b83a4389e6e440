"""Experiments on the stream as a sum: its exact expansion, and the geometry of every update.

x_L = (prod a_j) x_0 + sum_i (prod_{j > i} a_j) b_i u_i, exactly, whatever the branches; the updates are evaluated at
different states, so this is an account and no linear model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.decoder.splitmix64 import FloatArray
from core.lab.decoder_source import DecoderOptions, decoder_tape
from core.lab.moments import rms
from core.lab.paths.options import refuse_norm_after, shortcut_of
from core.lab.result import Result


@dataclass(frozen=True, kw_only=True)
class StreamExpansionOptions(DecoderOptions):
    """The decoder whose last state is taken apart."""

    def check(self) -> None:
        """Refuse streams that are no sums."""
        super().check()
        refuse_norm_after(self)


def stream_expansion(options: StreamExpansionOptions) -> Result:
    """Every term of x_L with its shortcut product, RMS and share. Table: `terms`, input first.

    A share is the term's inner product with x_L over that of x_L itself; the shares sum to 1.
    """
    tape = decoder_tape(options)
    shortcuts = [shortcut_of(addition) for addition in options.additions()]
    final = _kept(tape.states[-1], tape.valid)
    parts = [("input", -1, "input", math.prod(shortcuts), _kept(tape.states[0], tape.valid))]
    for part in tape.contributions:
        later = math.prod(shortcuts[part.site :])
        parts.append((tape.labels[part.site], part.block, part.branch, later, _kept(part.contribution, tape.valid)))
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


@dataclass(frozen=True, kw_only=True)
class UpdateGeometryOptions(DecoderOptions):
    """The decoder whose updates are measured."""


def update_geometry(options: UpdateGeometryOptions) -> Result:
    """rho = |u| / |x|, cosine c and growth |x + u|^2 / |x|^2 = 1 + rho^2 + 2 rho c. Tables: `rows`, `pooled`.

    x is the shortcut term, u what the addition adds to it, all branches of an addition together.
    """
    tape = decoder_tape(options)
    frames, pooled = [], []
    for site in range(1, len(tape.states)):
        parts = [part for part in tape.contributions if part.site == site]
        x = _kept(parts[0].stream, tape.valid)
        u = np.sum([_kept(part.contribution, tape.valid) for part in parts], axis=0)
        named = {"addition": site - 1, "label": tape.labels[site]}
        frames.append(pd.DataFrame({**named, "position": np.arange(len(x)), **_geometry(x, u)}))
        whole = _geometry(x.reshape(1, -1), u.reshape(1, -1))
        pooled.append({**named, **{name: float(values[0]) for name, values in whole.items()}})
    rows, table = pd.concat(frames, ignore_index=True), pd.DataFrame(pooled)
    return Result(
        summary={
            "largest_rho": rows["rho"].max(),
            "smallest_cosine": rows["cosine"].min(),
            "largest_cosine": rows["cosine"].max(),
            "product_of_growths": math.prod(table["growth"]),
            "largest_identity_error": rows["identity_error"].max(),
        },
        tables={"rows": rows, "pooled": table},
        notes=("The cosine of a zero update is undefined and null; pooled values take all rows as one vector.",),
    )


def _geometry(x: FloatArray, u: FloatArray) -> dict[str, FloatArray]:
    """Ratio, cosine and growth of every row of `[n, d]`; the identity's error is relative to its terms."""
    y = x + u
    xx, uu, yy, xu = (np.einsum("nd,nd->n", *pair) for pair in ((x, x), (u, u), (y, y), (x, u)))
    with np.errstate(all="ignore"):
        rho, cosine, growth = np.sqrt(uu / xx), xu / np.sqrt(xx * uu), yy / xx
        expected = 1 + rho**2 + 2 * np.where(uu == 0, 0.0, rho * cosine)
        error = np.abs(growth - expected) / (1 + rho**2 + 2 * rho)
    return {"rho": rho, "cosine": cosine, "growth": growth, "growth_expected": expected, "identity_error": error}


def _kept(state: object, valid: object) -> FloatArray:
    """The valid rows `[n, D]` of the one member."""
    kept: FloatArray = state.detach().numpy()[0][valid]  # type: ignore[attr-defined]
    return kept
