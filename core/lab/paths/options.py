"""Options that the path experiments share: a decoder small enough for dense Jacobians over its whole row."""

from __future__ import annotations

from ...decoder.graph import Addition
from ..decoder_source import DecoderOptions
from ..kit import FloatArray, LabError

MAX_STATE = 256
# Blocks times squared entries: the work of all Jacobians together.
MAX_WORK = 2**20
NORM_AXIS = "spectral norm"


class JacobianOptions(DecoderOptions):
    """A decoder whose row has at most 256 entries (positions times width)."""

    def check(self) -> None:
        """Raise `LabError` for states too large for a dense Jacobian.

        Also raises it for decoders that carry attention scores from block to block beside the stream.
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
    """Raise `LabError` if a norm rescales the stream after its additions: then it is not a sum of its updates."""
    if any(addition.norm_after is not None for addition in options.additions()):
        raise LabError(
            f"The recipe {options.recipe} normalizes after every addition, so the state is no sum of its updates; "
            "choose a recipe without a norm after the addition."
        )


def shortcut_of(addition: Addition) -> float:
    """Return the shortcut's number; measured shortcuts occur only before a norm, which `refuse_norm_after` excludes."""
    assert not isinstance(addition.shortcut, str)
    return float(addition.shortcut)


def kept(state: object, valid: object) -> FloatArray:
    """Return the valid rows `[n, D]` of the one member."""
    kept: FloatArray = state.detach().numpy()[0][valid]  # type: ignore[attr-defined]
    return kept
