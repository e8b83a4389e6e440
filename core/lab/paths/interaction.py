"""Experiment: what a sequential block has and a parallel one lacks: the interaction of its two branches.

Sequential: (a2 I + J_M)(a1 I + J_A), with J_M taken at the state after attention and branch coefficients inside the J.
Parallel: both branches at the block's input. They differ by J_M J_A and by the shift of J_M between the two states.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.decoder.splitmix64 import FloatArray
from core.errors import LabError
from core.lab.paths.options import JacobianOptions, refuse_norm_after, shortcut_of
from core.lab.result import Result


@dataclass(frozen=True, kw_only=True)
class BranchInteractionOptions(JacobianOptions):
    """The decoder; its graph must add attention and feed-forward in turn, with nothing after the addition."""

    def check(self) -> None:
        """Refuse other graphs."""
        super().check()
        refuse_norm_after(self)
        if any(len(addition.branches) > 1 for addition in self.additions()):
            raise LabError(f"The recipe {self.recipe} is parallel already; choose one that adds its branches in turn.")


def branch_interaction(options: BranchInteractionOptions) -> Result:
    """Norms of the terms of every block's Jacobian. Table: `blocks`, spectral norms."""
    from core.decoder.attention import AttentionGeometry
    from core.lab.decoder_source import decoder_weights
    from core.lab.paths.jacobians import addition_jacobian, path_jacobians

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
    """Spectral norms from the two additions' Jacobians, and the second's taken at the block's input.

    `a1` and `a2` are the shortcuts; `identity_error` is what the difference has beside interaction and shift.
    """
    from core.lab.paths.jacobians import spectral_norm

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
