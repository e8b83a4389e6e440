"""Experiment: size and direction of every update (what an addition adds), relative to the stream it is added to."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from ..decoder_source import DECODER, DecoderOptions, decoder_subject, decoder_tape
from ..kit import Chart, Experiment, FloatArray, Line, Pictures, Result, TableView, closeness, rounded
from ..signal.variance_identity import ADDITION_AXIS, COSINES
from .options import kept


def update_geometry(options: DecoderOptions) -> Result:
    """Return the size, direction and effect of every update u that is added to the stream x.

    |.| is the Euclidean length. rho = |u| / |x| is the relative size, c the cosine between u and x, and the growth of
    the squared length is |x + u|^2 / |x|^2 = 1 + rho^2 + 2 rho c. u is the sum of all branches of an addition, x the
    stream after its factor. Table `rows` has one row per addition and position; `pooled` takes all positions as one
    vector.
    """
    tape = decoder_tape(options)
    frames, pooled = [], []
    for site in range(1, len(tape.states)):
        parts = [part for part in tape.contributions if part.site == site]
        x = kept(parts[0].stream, tape.valid)
        u = np.sum([kept(part.contribution, tape.valid) for part in parts], axis=0)
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
    """Return ratio, cosine and growth of every row of `[n, d]`, and the error of the identity relative to its terms."""
    y = x + u
    xx, uu, yy, xu = (np.einsum("nd,nd->n", *pair) for pair in ((x, x), (u, u), (y, y), (x, u)))
    with np.errstate(all="ignore"):
        rho, cosine, growth = np.sqrt(uu / xx), xu / np.sqrt(xx * uu), yy / xx
        expected = 1 + rho**2 + 2 * np.where(uu == 0, 0.0, rho * cosine)
        error = np.abs(growth - expected) / (1 + rho**2 + 2 * rho)
    return {"rho": rho, "cosine": cosine, "growth": growth, "growth_expected": expected, "identity_error": error}


GEOMETRY_TITLES = {
    "addition": "addition", "label": "site", "rho": "rho", "cosine": "cosine", "growth": "growth",
    "growth_expected": "growth by the identity", "identity_error": "error",
}  # fmt: skip


def _pictures(result: Result) -> Pictures:
    """Return charts of ratio, cosine and growth of every addition, pooled and by position."""
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
        found[f"{name}"] = Chart(
            title=title, lines=lines, x_title=ADDITION_AXIS, y_title=name, log_y=log, whole_x=True,
            levels=[(1.0, "1")] if log else [(0.0, "orthogonal, 0")], y_range=None if log else COSINES,
        )  # fmt: skip
    return found


EXPERIMENT = Experiment(
    title="Size and direction of every update",
    label="Update geometry",
    function=update_geometry,
    presets={"fixture": {}, "unscaled": {"recipe": "unscaled"}},
    torch=True,
    controls=DECODER,
    shared=DECODER,
    text=(
        "An update of one size does different things: along the stream it makes it longer, across it turns it, against "
        "it it cancels. Size and cosine together say by how much the squared length grows."
    ),
    formulas=(r"\frac{\|x+u\|^2}{\|x\|^2}=1+\rho^2+2\rho\cos\theta", r"\rho=\frac{\|u\|}{\|x\|}"),
    subject=decoder_subject,
    reading=lambda found: (
        f"The largest update is {rounded(found['largest_rho'])} times its stream; cosines run from "
        f"{rounded(found['smallest_cosine'])} to {rounded(found['largest_cosine'])}. The growth identity holds "
        f"{closeness(found['largest_identity_error'])}."
    ),
    draw=_pictures,
    tables={
        "pooled": TableView(alt="Geometry of every addition, all positions together.", titles=GEOMETRY_TITLES),
        "rows": TableView(
            alt="Geometry of every addition and position.",
            titles={"position": "position", **GEOMETRY_TITLES},
        ),
    },
)
