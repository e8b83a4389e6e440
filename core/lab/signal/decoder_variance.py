"""Experiment: variance and covariance at every addition to the residual stream of a decoder.

At each addition, Var(h + F) = Var(h) + Var(F) + 2 Cov(h, F), with h the stream and F what is added to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ..decoder_source import DECODER, DecoderOptions, decoder_subject, decoder_tape
from ..kit import Experiment, Result, Summary, TableView, closeness, rounded
from .variance_identity import (
    IDENTITY,
    IDENTITY_TITLES,
    VarianceIdentity,
    addition_pictures,
    identity_table,
)


def decoder_variance(options: DecoderOptions) -> Result:
    """Return the terms of the identity at every addition, over all valid positions and features.

    Table `additions` has one row per addition, with the columns of `identity_table`.
    """
    table = identity_table(_additions(options))
    last = table.iloc[-1]
    return Result(
        summary={
            "final_variance": last["measured_variance"],
            "final_variance_if_independent": last["independence_from_input"],
            "measured_over_independence": last["measured_variance"] / last["independence_from_input"],
            "largest_correlation": table["correlation"].abs().max(),
            "largest_identity_error": table["identity_error"].max(),
        },
        tables={"additions": table},
        notes=(
            "A branch reads the stream it is added to, so weights drawn independently do not make their covariance 0.",
            "Where a recipe normalizes after the addition, the measured variance is that of the sum before the norm.",
        ),
    )


def _additions(options: DecoderOptions) -> Iterator[tuple[str, float, VarianceIdentity]]:
    from ...decoder.valid import select_valid

    tape = decoder_tape(options)
    for site, addition in enumerate(options.additions(), start=1):
        parts = [part for part in tape.contributions if part.site == site]
        # The branches of one addition are added together; a measured shortcut only stands before a norm.
        gained = np.sum([select_valid(part.contribution, tape.valid).numpy() for part in parts], axis=0)
        stream = select_valid(parts[0].stream, tape.valid).numpy()
        known = addition.norm_after is None and not isinstance(addition.shortcut, str)
        shortcut = float(addition.shortcut) ** 2 if known else math.nan
        yield tape.labels[site], shortcut, VarianceIdentity.of(stream, gained)


def _decoder_reading(found: Summary) -> str:
    if found["final_variance_if_independent"] != found["final_variance_if_independent"]:
        return (
            f"A norm follows every addition, so no variance is handed on; the largest correlation of stream and branch "
            f"is {rounded(found['largest_correlation'])}."
        )
    return (
        f"The last state has variance {rounded(found['final_variance'])}; independence predicts "
        f"{rounded(found['final_variance_if_independent'])}. The largest correlation of stream and branch is "
        f"{rounded(found['largest_correlation'])}, and the identity holds {closeness(found['largest_identity_error'])}."
    )


EXPERIMENT = Experiment(
    title="Variance and covariance at every addition of a decoder",
    label="Decoder additions",
    function=decoder_variance,
    presets={"fixture": {}, "unscaled": {"recipe": "unscaled"}},
    torch=True,
    controls=DECODER,
    text=(
        "The same identity at every addition of a real decoder, over all valid positions and features. A branch reads "
        "the stream that it is added to, so independent weights do not make the covariance vanish: the dashed line is "
        "what one would believe, the solid one what is there."
    ),
    formulas=(IDENTITY,),
    subject=decoder_subject,
    reading=_decoder_reading,
    draw=addition_pictures,
    tables={"additions": TableView(alt="The identity's terms at every addition.", titles=IDENTITY_TITLES)},
)
