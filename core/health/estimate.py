"""What an observation will cost, by arithmetic alone: bytes at the peak and seconds on one ordinary core."""

from __future__ import annotations

import os
from dataclasses import dataclass

from core.decoder.parameters import WRITERS, layout
from core.errors import BudgetError
from core.health.request import ObserveRequest

ITEM_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2}
ARMS = 2
# Measured on one core: products in float64 and float32, the fixed cost of a block's kernels, and a draw.
PRODUCTS_PER_SECOND = {"float64": 8e9, "float32": 16e9, "bfloat16": 4e9}
SECONDS_PER_BLOCK = 1.2e-3
SECONDS_PER_DRAW = 1.5e-8
SECONDS_PER_SCORE = 2e-8
# The softmax is kept for the reverse pass; products and masked scores pass through.
KEPT_SCORES = 1.5
MEMORY_SHARE = 0.8


@dataclass(frozen=True)
class Estimate:
    """Bytes held at the peak, by what holds them, and seconds; all rough, meant to be within a factor of two."""

    weight_bytes: int
    activation_bytes: int
    logit_bytes: int
    seconds: float

    @property
    def total_bytes(self) -> int:
        """Peak above the process's own size."""
        return self.weight_bytes + self.activation_bytes + self.logit_bytes


def estimate(request: ObserveRequest) -> Estimate:
    """Cost of observing both arms of `request`."""
    config, batch = request.config, request.batch
    sizes, item = layout(config), ITEM_BYTES[request.dtype]
    rows = batch.inputs.size
    writers = config.blocks * sum(spec.coordinates for spec in sizes.block_template if spec.role in WRITERS)
    features = config.heads * config.head_width + 2 * config.key_value_heads * config.head_width
    # Kept for the reverse pass a row and block: norms, projections with their rotated copies, gate, up and product.
    kept = 12 * config.width + 4 * features + 5 * config.ff_width
    scores = config.heads * batch.longest
    wide = max(item, 4)
    block_bytes = rows * (kept * item + KEPT_SCORES * scores * wide)
    products = ARMS * 4 * rows * (sizes.parameters + config.blocks * config.heads * config.head_width * batch.longest)
    return Estimate(
        weight_bytes=item * (sizes.parameters + 2 * writers) + 8 * sizes.block_draws,
        activation_bytes=int(ARMS * config.blocks * block_bytes),
        logit_bytes=ARMS * 3 * batch.valid_count * config.vocabulary * wide,
        seconds=products / PRODUCTS_PER_SECOND[request.dtype]
        + ARMS * config.blocks * rows * scores * SECONDS_PER_SCORE
        + config.blocks * SECONDS_PER_BLOCK
        + sizes.draws * SECONDS_PER_DRAW,
    )


def check_memory(request: ObserveRequest) -> Estimate:
    """The estimate, refused where it passes this machine's available memory."""
    cost = estimate(request)
    allowed = int(MEMORY_SHARE * available_memory())
    if cost.total_bytes > allowed:
        raise BudgetError(
            f"This run needs about {cost.total_bytes / 2**30:.1f} GiB and {allowed / 2**30:.1f} GiB may be used; "
            "shorten the rows or make the decoder smaller."
        )
    return cost


def available_memory() -> int:
    """Bytes that a process may still take: what the kernel calls available, else all physical memory."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
