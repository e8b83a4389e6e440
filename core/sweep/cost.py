"""What passes of the engine cost, by the formulas of `core.health.estimate`: seconds of one core, bytes at the peak."""

from __future__ import annotations

from dataclasses import dataclass

from ..decoder.base_draw import KEPT_DRAW
from ..decoder.batch import Batch
from ..decoder.config import DecoderConfig
from ..decoder.parameters import layout
from ..health.estimate import ARMS, call_seconds, draw_seconds, estimate, member_seconds
from ..health.pace import REFERENCE, Pace
from ..health.request import ObserveRequest

__all__ = ["SweepEstimate", "call_seconds", "draw_seconds", "member_seconds", "pass_bytes", "pass_seconds"]


@dataclass(frozen=True, kw_only=True)
class SweepEstimate:
    """What the missing cells will take: seconds of one core, bytes at the peak, and how many cells they are."""

    cells: int
    seconds: float
    peak_bytes: int


def pass_seconds(config: DecoderConfig, batch: Batch, dtype: str, members: int, pace: Pace = REFERENCE) -> float:
    """Forward and reverse of `members` members in one pass, draws aside."""
    return call_seconds(config, pace) + members * member_seconds(config, batch, dtype, pace)


def pass_bytes(config: DecoderConfig, batch: Batch, dtype: str, seeds: int, arms: int) -> int:
    """Peak of one pass over `seeds` seeds with `arms` arms each, with the base draws it keeps."""
    cost = estimate(ObserveRequest(config=config, batch=batch, dtype=dtype))
    kept = 8 * seeds * layout(config).draws
    return seeds * arms * (cost.total_bytes // ARMS) + (kept if kept <= 8 * KEPT_DRAW else 0)
