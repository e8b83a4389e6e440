"""Experiment: what a sequential block has and a parallel one lacks: the interaction of its two branches.

Sequential: (a2 I + J_M)(a1 I + J_A), with J_M taken at the state after attention and branch coefficients inside the J.
Parallel: both branches at the block's input. They differ by J_M J_A and by the shift of J_M between the two states.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.errors import LabError
from core.lab.paths.options import JacobianOptions, additions_of, refuse_norm_after, shortcut_of
from core.lab.result import Result


@dataclass(frozen=True, kw_only=True)
class BranchInteractionOptions(JacobianOptions):
    """The decoder; its graph must add attention and feed-forward in turn, with nothing after the addition."""

    def check(self) -> None:
        """Refuse other graphs."""
        super().check()
        refuse_norm_after(self)
        if any(len(addition.branches) > 1 for addition in additions_of(self)):
            raise LabError(f"The recipe {self.recipe} is parallel already; choose one that adds its branches in turn.")


def branch_interaction(options: BranchInteractionOptions) -> Result:
    """Norms of the terms of every block's Jacobian. Table: `blocks`, spectral norms."""
    from core.decoder.attention import AttentionGeometry
    from core.lab.decoder_source import decoder_weights
    from core.lab.paths.jacobians import addition_jacobian, path_jacobians, spectral_norm

    paths = path_jacobians(options)
    _, weights = decoder_weights(options)
    geometry = AttentionGeometry.of(weights.config, options.batch(), paths.tape.states[0])
    rows = []
    for block, (attention, feed_forward) in enumerate(paths.graph.blocks):
        first, second = paths.additions[block]
        identity = np.eye(len(first))
        a1, a2 = shortcut_of(attention), shortcut_of(feed_forward)
        ja, jm = first - a1 * identity, second - a2 * identity
        at_input = addition_jacobian(feed_forward, block, paths.tape.states[2 * block].detach(), weights, geometry)
        jm_at_input = at_input - a2 * identity
        sequential, product = second @ first, jm @ ja
        # The same two branches, both reading the block's input.
        parallel = a2 * a1 * identity + a2 * ja + a1 * jm_at_input
        gap = sequential - parallel
        rows.append(
            {
                "block": block,
                "attention": spectral_norm(ja),
                "feed_forward": spectral_norm(jm),
                "interaction": spectral_norm(product),
                "shift": spectral_norm(a1 * (jm - jm_at_input)),
                "sequential": spectral_norm(sequential),
                "parallel": spectral_norm(parallel),
                "difference": spectral_norm(gap),
                "identity_error": spectral_norm(gap - product - a1 * (jm - jm_at_input)),
            }
        )
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
