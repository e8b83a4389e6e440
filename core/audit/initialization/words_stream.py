"""The sentences of the findings about the stream itself."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .words import listed


def lost(names: Sequence[str]) -> str:
    """Return the sentence of a `stream-lost` finding; `names` are the matrices that take the stream's place."""
    return (
        f"The stream is lost at {listed(names)}: what comes after depends on the state before only through these "
        "matrices, with no shortcut around them; add the state to the branch's output instead of overwriting it."
    )


def mixed(labels: Sequence[str], additions: int) -> str:
    """Return the sentence of a `mixed-topology` finding; `labels` are the additions that a norm follows."""
    return (
        f"A norm stands on the stream after {listed(labels)}, {len(labels)} of {additions} additions, and not after "
        "the others: the residual is taken behind the norm at some places and before it at others; take it from one "
        "side of the norm everywhere."
    )


def embedding(names: Sequence[str], size: float, factor: float, typical: float) -> str:
    """Return the sentence of an `embedding-scale` finding.

    `size` is the RMS of the first state, `factor` what the forward multiplies the tables by, `typical` the median RMS
    of a contribution.
    """
    by = f": the forward multiplies {listed(names)} by {factor:.4g}" if factor > 1 else f", from {listed(names)}"
    draw = f"draw the table {size:.3g} times smaller" + (", or leave the factor out" if factor > 1 else "")
    return (
        f"The first state has RMS {size:.3g}{by}, where a contribution has {typical:.2g}, so the branches hardly "
        f"change it; {draw}."
    )


def narrow(labels: Sequence[str], states: int, dtype: torch.dtype, weights: torch.dtype) -> str:
    """Return the sentence of a `narrow-stream` finding; `labels` are the states in the coarser type `dtype`."""
    coarse, fine = (str(each).removeprefix("torch.") for each in (dtype, weights))
    where = "at every state" if len(labels) == states else f"at {len(labels)} of {states} states, {labels[0]} the first"
    return (
        f"The stream is kept in {coarse} {where}, beside {fine} weights, so what is smaller than its rounding is lost "
        f"at every addition; keep the stream in {fine}."
    )
