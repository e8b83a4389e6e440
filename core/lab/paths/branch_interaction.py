"""Experiment: what a block with attention and then feed-forward has that a block with both in parallel does not.

J_A and J_M are the Jacobians of the attention and feed-forward branches, with their coefficients; a1 and a2 multiply
the stream itself at the two additions. The sequential block has the Jacobian (a2 I + J_M)(a1 I + J_A), with J_M at the
state after attention. The parallel block has both branches at the block's input. The two differ by the interaction J_M
J_A, and by the change of J_M between the two states.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..decoder_source import DECODER, decoder_subject
from ..kit import (
    Chart,
    Experiment,
    FloatArray,
    LabError,
    Line,
    Pictures,
    Result,
    TableView,
    closeness,
    rounded,
    spectral_norm,
)
from .options import NORM_AXIS, JacobianOptions, refuse_norm_after, shortcut_of


class BranchInteractionOptions(JacobianOptions):
    """Options: a decoder whose blocks add attention, then feed-forward, with no norm after an addition."""

    def check(self) -> None:
        """Raise `LabError` if a block of the recipe adds both branches at once, or has a norm after an addition."""
        super().check()
        refuse_norm_after(self)
        if any(len(addition.branches) > 1 for addition in self.additions()):
            raise LabError(f"The recipe {self.recipe} is parallel already; choose one that adds its branches in turn.")


def branch_interaction(options: BranchInteractionOptions) -> Result:
    """Return the spectral norms of the terms of every block's Jacobian.

    Table `blocks` has one row per block: both branches, the interaction, the shift, the sequential and the parallel
    block, their difference, and what of it the interaction and the shift do not explain (`identity_error`).
    """
    from ...decoder.attention import AttentionGeometry
    from ..decoder_source import decoder_weights
    from .jacobians import addition_jacobian, path_jacobians

    paths = path_jacobians(options)
    weights = decoder_weights(options)
    geometry = AttentionGeometry.of(weights.config, options.batch(), paths.tape.states[0])
    rows = []
    for block, (attention, feed_forward) in enumerate(paths.graph.blocks):
        state = paths.tape.states[2 * block].detach()
        at_input = addition_jacobian(feed_forward, block, state, weights, geometry)
        first, second = paths.additions[block]
        a1, a2 = shortcut_of(attention), shortcut_of(feed_forward)
        rows.append({"block": block, **_terms(first, second, at_input, a1, a2)})
    table = pd.DataFrame(rows)
    return Result(
        summary={
            "largest_interaction": table["interaction"].max(),
            "largest_difference": table["difference"].max(),
            "largest_identity_error": table["identity_error"].max(),
        },
        tables={"blocks": table},
        notes=("sequential - parallel = interaction (J_M J_A) + shift (J_M read after attention, not before).",),
    )


def _terms(first: FloatArray, second: FloatArray, at_input: FloatArray, a1: float, a2: float) -> dict[str, float]:
    """Return spectral norms from the Jacobians of the two additions, and of the second at the block's input.

    `a1` and `a2` are the shortcuts; `identity_error` is the part of the difference that interaction and shift do not
    explain.
    """
    identity = np.eye(len(first))
    attention, feed_forward, unshifted = first - a1 * identity, second - a2 * identity, at_input - a2 * identity
    sequential, interaction = second @ first, feed_forward @ attention
    parallel = a2 * a1 * identity + a2 * attention + a1 * unshifted
    shift = a1 * (feed_forward - unshifted)
    named = {
        "attention": attention,
        "feed_forward": feed_forward,
        "interaction": interaction,
        "shift": shift,
        "sequential": sequential,
        "parallel": parallel,
        "difference": sequential - parallel,
        "identity_error": sequential - parallel - interaction - shift,
    }
    return {name: spectral_norm(matrix) for name, matrix in named.items()}


def _pictures(result: Result) -> Pictures:
    """Return the chart of the norms of the branches' Jacobians and of the terms that a parallel block does not have."""
    table, axis = result.tables["blocks"], "block, counted from 0"
    names = {"attention": "attention's J", "feed_forward": "feed-forward's J", "interaction": "interaction",
             "shift": "shift", "difference": "difference"}  # fmt: skip
    return {
        "terms": Chart(
            title="Terms of every block's Jacobian", x_title=axis, y_title=NORM_AXIS, whole_x=True,
            lines=[Line.of(table, "block", name, title, index) for index, (name, title) in enumerate(names.items())],
        ),
        "orders": Chart(
            title="Sequential and parallel block", x_title=axis, y_title=NORM_AXIS, whole_x=True,
            lines=[
                Line.of(table, "block", "sequential", "sequential", 0),
                Line.of(table, "block", "parallel", "parallel", 1),
            ],
        ),
    }  # fmt: skip


EXPERIMENT = Experiment(
    title="Sequential against parallel branches",
    label="Interaction",
    function=branch_interaction,
    presets={"fixture": {}, "unscaled": {"recipe": "unscaled"}},
    torch=True,
    controls=DECODER,
    shared=DECODER,
    text=(
        "A sequential block lets its feed-forward read what attention wrote; a parallel block does not. They differ by "
        "the interaction, the product of both branches' Jacobians, and by the shift of the second branch's Jacobian "
        "between the two states that it may be read at."
    ),
    formulas=(
        r"\begin{aligned}&(a_2I+J_M)(a_1I+J_A)\\&-\bigl(a_2a_1I+a_2J_A+a_1J_M^{0}\bigr)\\&="
        r"\underbrace{J_MJ_A}_{\text{interaction}}+\underbrace{a_1\,(J_M-J_M^{0})}_{\text{shift}}\end{aligned}",
    ),
    subject=decoder_subject,
    reading=lambda found: (
        f"The largest interaction has norm {rounded(found['largest_interaction'])}, the largest difference of the two "
        f"orders {rounded(found['largest_difference'])}; the terms add up {closeness(found['largest_identity_error'])}."
    ),
    draw=_pictures,
    tables={
        "blocks": TableView(
            alt="Spectral norms of every term, one row per block.",
            titles={
                "block": "block",
                "attention": "attention",
                "feed_forward": "feed-forward",
                "interaction": "interaction",
                "shift": "shift",
                "sequential": "sequential",
                "parallel": "parallel",
                "difference": "difference",
                "identity_error": "error of the sum",
            },
        )
    },
)
