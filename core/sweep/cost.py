"""What passes of the engine cost, by the formulas of `core.health.estimate`."""

from __future__ import annotations

from dataclasses import dataclass

from ..decoder.batch import Batch
from ..decoder.config import DecoderConfig
from ..health.estimate import call_seconds, member_seconds
from ..health.pace import REFERENCE, Pace


@dataclass(frozen=True, kw_only=True)
class SweepEstimate:
    """What the missing cells will take: seconds of one core, bytes at the peak, and how many cells they are."""

    cells: int
    seconds: float
    peak_bytes: int


def pass_seconds(config: DecoderConfig, batch: Batch, dtype: str, members: int, pace: Pace = REFERENCE) -> float:
    """Forward and reverse of `members` members in one pass, draws aside."""
    return call_seconds(config, pace) + members * member_seconds(config, batch, dtype, pace)
