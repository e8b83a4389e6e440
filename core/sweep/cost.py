"""What passes of the engine cost, by arithmetic alone: seconds of one core and bytes at the peak."""

from __future__ import annotations

from dataclasses import dataclass

from core.decoder.base_draw import KEPT_DRAW
from core.decoder.batch import Batch
from core.decoder.config import DecoderConfig
from core.decoder.parameters import layout
from core.health.estimate import (
    ARMS,
    PRODUCTS_PER_SECOND,
    SECONDS_PER_BLOCK,
    SECONDS_PER_SCORE,
    estimate,
)
from core.health.request import ObserveRequest

# Measured on one core: a feature of a row through a block's kernels and back, a logit and back, and a cached draw.
SECONDS_PER_FEATURE = 2e-8
SECONDS_PER_LOGIT = 1e-8
SECONDS_PER_DRAW = 5e-9


@dataclass(frozen=True, kw_only=True)
class SweepEstimate:
    """What the missing cells will take: seconds of one core, bytes at the peak, and how many cells they are."""

    cells: int
    seconds: float
    peak_bytes: int


def pass_seconds(config: DecoderConfig, batch: Batch, dtype: str, members: int) -> float:
    """Forward and reverse of `members` members in one pass, draws aside."""
    return call_seconds(config) + members * member_seconds(config, batch, dtype)


def call_seconds(config: DecoderConfig) -> float:
    """What a pass costs however few its members: the calls of every block's kernels."""
    return config.blocks * SECONDS_PER_BLOCK


def member_seconds(config: DecoderConfig, batch: Batch, dtype: str) -> float:
    """What each further member adds to a pass."""
    rows = batch.inputs.size
    features = 12 * config.width + 4 * (config.heads + 2 * config.key_value_heads) * config.head_width
    features += 5 * config.ff_width
    scores = config.heads * batch.longest
    products = 4 * rows * (layout(config).parameters + config.blocks * config.heads * config.head_width * batch.longest)
    return (
        config.blocks * rows * (features * SECONDS_PER_FEATURE + scores * SECONDS_PER_SCORE)
        + products / PRODUCTS_PER_SECOND[dtype]
        + batch.valid_count * config.vocabulary * SECONDS_PER_LOGIT
    )


def draw_seconds(config: DecoderConfig, seeds: int) -> float:
    """The base draws of `seeds` seeds."""
    return seeds * layout(config).draws * SECONDS_PER_DRAW


def pass_bytes(config: DecoderConfig, batch: Batch, dtype: str, seeds: int, arms: int) -> int:
    """Peak of one pass over `seeds` seeds with `arms` arms each, with the base draws it keeps."""
    cost = estimate(ObserveRequest(config=config, batch=batch, dtype=dtype))
    kept = 8 * seeds * layout(config).draws
    return seeds * arms * (cost.total_bytes // ARMS) + (kept if kept <= 8 * KEPT_DRAW else 0)
