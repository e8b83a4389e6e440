"""Estimate what an observation costs before any array exists: peak bytes, and seconds on one core of this machine.

All constants and formulas of cost are here; the cost of a sweep is a sum of them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..decoder.base_draw import XAVIER, Distribution
from ..decoder.batch import Batch
from ..decoder.config import DecoderConfig
from ..decoder.parameters import WRITERS, layout
from ..errors import BudgetError
from .pace import REFERENCE, Pace, has_bfloat16, machine_pace
from .request import ObserveRequest

ITEM_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2}
ARMS = 2
# Seconds of one core of the reference machine, fitted by `python -m tests.benchmarks.estimates` and multiplied by what
# `core.health.pace` measures of this one. A draw, uniform and normal:
SECONDS_PER_DRAW, SECONDS_PER_NORMAL_DRAW = 4.5e-9, 1.3e-8
# A byte that is held at the peak: memory that no process has used costs more to touch than to compute with.
SECONDS_PER_BYTE = 9e-10
# The calls of a block's kernels, however few the members.
SECONDS_PER_BLOCK = 8e-4
# A row through a block, however narrow.
SECONDS_PER_ROW = 2e-6
# An operation of a product; a feature of a row through a block's kernels and back; a score; a logit.
SECONDS_PER_FLOP = {"float64": 1.8e-11, "float32": 1.05e-11, "bfloat16": 3e-12}
# On a processor without bfloat16 arithmetic, by the one measured: 54 s where float32 took 21, draws included.
SECONDS_PER_EMULATED_FLOP = 1e-10
SECONDS_PER_FEATURE = {"float64": 7e-9, "float32": 2.5e-9, "bfloat16": 3.5e-9}
SECONDS_PER_SCORE = {"float64": 2.5e-8, "float32": 1.1e-8, "bfloat16": 9e-9}
SECONDS_PER_LOGIT = {"float64": 2e-8, "float32": 4e-9, "bfloat16": 5e-9}
# The softmax is kept for the reverse pass; products and masked scores pass through.
KEPT_SCORES = 1.5
MEMORY_SHARE = 0.8
# What `auto` lets the whole graph use.
GRAPH_SHARE = 0.5


@dataclass(frozen=True)
class Estimate:
    """Peak bytes, split by what uses them, and seconds; rough values, meant to be right within a factor of two."""

    request: ObserveRequest
    weight_bytes: int
    activation_bytes: int
    logit_bytes: int

    @property
    def total_bytes(self) -> int:
        """Peak bytes in addition to the size of the process before the run."""
        return self.weight_bytes + self.activation_bytes + self.logit_bytes

    @property
    def seconds(self) -> float:
        """Seconds on one core of this machine, without imports."""
        config, pace = self.request.config, machine_pace()
        return (
            draw_seconds(config, 1, self.request.distribution, pace)
            + call_seconds(config, pace)
            + ARMS * member_seconds(config, self.request.batch, self.request.dtype, pace)
            + self.total_bytes * SECONDS_PER_BYTE * pace.moves
        )


def estimate(request: ObserveRequest) -> Estimate:
    """Estimate the cost of observing both arms of `request`."""
    config, batch = request.config, request.batch
    sizes, item = layout(config), ITEM_BYTES[request.dtype]
    rows = batch.inputs.size
    writers = config.blocks * sum(spec.coordinates for spec in sizes.block_template if spec.role in WRITERS)
    wide = max(item, 4)
    block_bytes = rows * (block_features(config) * item + KEPT_SCORES * config.heads * batch.longest * wide)
    return Estimate(
        request=request,
        weight_bytes=item * (sizes.parameters + 2 * writers) + 8 * sizes.block_draws,
        activation_bytes=int(ARMS * config.blocks * block_bytes),
        logit_bytes=ARMS * 3 * batch.valid_count * config.vocabulary * wide,
    )


def draw_seconds(
    config: DecoderConfig, seeds: int, distribution: Distribution = XAVIER, pace: Pace = REFERENCE
) -> float:
    """Return the seconds that the base draws of `seeds` seeds take on one core at `pace`."""
    each = SECONDS_PER_DRAW if distribution.std is None else SECONDS_PER_NORMAL_DRAW
    return seeds * layout(config).draws * each * pace.moves


def call_seconds(config: DecoderConfig, pace: Pace = REFERENCE) -> float:
    """Return the seconds of a pass that do not depend on the number of members: the kernel calls of every block."""
    return config.blocks * SECONDS_PER_BLOCK * pace.moves


def member_seconds(config: DecoderConfig, batch: Batch, dtype: str, pace: Pace = REFERENCE) -> float:
    """Return the seconds that each member adds to a pass, forward and reverse, without draws."""
    rows = batch.inputs.size
    scores = config.heads * batch.longest
    products = 4 * rows * (layout(config).parameters + config.blocks * config.heads * config.head_width * batch.longest)
    row = SECONDS_PER_ROW + block_features(config) * SECONDS_PER_FEATURE[dtype] + scores * SECONDS_PER_SCORE[dtype]
    moved = config.blocks * rows * row + batch.valid_count * config.vocabulary * SECONDS_PER_LOGIT[dtype]
    emulated = dtype == "bfloat16" and not has_bfloat16()
    each = SECONDS_PER_EMULATED_FLOP if emulated else SECONDS_PER_FLOP[dtype]
    return moved * pace.moves + products * each * pace.products


def block_features(config: DecoderConfig) -> int:
    """Return how many numbers per row and block are kept for the reverse pass.

    They are norms, projections with their rotated copies, gate, up and product.
    """
    heads = config.heads + 2 * config.key_value_heads
    return 12 * config.width + 4 * heads * config.head_width + 5 * config.ff_width


def check_run(request: ObserveRequest) -> Estimate:
    """Check that the request can run, and return its estimate.

    Raises the errors of `request.check` and `BudgetError`.
    """
    request.check()
    return check_memory(request)


def check_memory(request: ObserveRequest) -> Estimate:
    """Return the estimate; raises `BudgetError` if it exceeds this machine's available memory."""
    cost = estimate(request)
    allowed = int(MEMORY_SHARE * available_memory())
    if cost.total_bytes > allowed:
        rows = "" if cost.weight_bytes > allowed else "shorten the rows or "
        raise BudgetError(
            f"This run needs about {cost.total_bytes / 2**30:.1f} GiB and {allowed / 2**30:.1f} GiB may be used; "
            f"{rows}make the decoder smaller."
        )
    return cost


def available_memory() -> int:
    """Return how many bytes a process can still use: what the kernel calls available, else all physical memory."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
