"""Options that the experiments on paths share: a decoder small enough for dense Jacobians over its whole row."""

from __future__ import annotations

from ...decoder.graph import Addition
from ..decoder_source import DecoderOptions
from ..kit import FloatArray, LabError

MAX_STATE = 256
# Blocks times squared entries: the work of all Jacobians together.
MAX_WORK = 2**20
NORM_AXIS = "spectral norm"


class JacobianOptions(DecoderOptions):
    """Options: a decoder whose state of one row, positions times width, has at most 256 entries."""

    def check(self) -> None:
        """Raise `LabError` if the state, or all Jacobians together, are too large.

        Also raises it if the recipe passes attention scores from block to block beside the residual stream.
        """
        super().check()
        entries = self.batch().longest * self.width
        if entries > MAX_STATE:
            raise LabError(
                f"The state has {entries} entries (positions times width) and a dense Jacobian their square; keep to "
                f"{MAX_STATE} by a smaller width or a shorter text."
            )
        if self.blocks * entries**2 > MAX_WORK:
            raise LabError(
                f"{self.blocks} Jacobians of {entries} by {entries} are too many; at this size take up to "
                f"{MAX_WORK // entries**2} blocks."
            )
        if any(branch.score_sum for addition in self.additions() for branch in addition.branches):
            raise LabError(
                f"The recipe {self.recipe} also carries scores from block to block, so a product of stream Jacobians "
                "is not its derivative; choose another recipe."
            )


def refuse_norm_after(options: DecoderOptions) -> None:
    """Raise `LabError` if a norm follows the recipe's additions: then a state is not a sum of branch outputs."""
    if any(addition.norm_after is not None for addition in options.additions()):
        raise LabError(
            f"The recipe {options.recipe} normalizes after every addition, so the state is no sum of its updates; "
            "choose a recipe without a norm after the addition."
        )


def shortcut_of(addition: Addition) -> float:
    """Return the factor on the stream itself at an addition, as a float.

    It must not be a measured factor; those occur only before a norm, which `refuse_norm_after` excludes.
    """
    assert not isinstance(addition.shortcut, str)
    return float(addition.shortcut)


def kept(state: object, valid: object) -> FloatArray:
    """Return the rows of `state` `[1, B, T, D]` at the n valid positions as `[n, D]`; `valid` is a `[B, T]` mask."""
    kept: FloatArray = state.detach().numpy()[0][valid]  # type: ignore[attr-defined]
    return kept
