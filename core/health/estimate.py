"""Estimates the peak memory and the time of an observation; nothing is run and no array is made.

All constants and formulas of cost are here. The choice between the drivers (the whole decoder at once, or block by
block) is here too, because it depends on memory.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from ..decoder.base_draw import KEPT_DRAW, XAVIER, Distribution
from ..decoder.batch import Batch
from ..decoder.config import DecoderConfig
from ..decoder.parameters import WRITERS, layout
from ..errors import BudgetError, Remedy
from ..recipes.catalogue import recipe
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
# Tiles, their rows and the draws' own workspace.
TILED_BYTES = 2**27
# What `auto` lets the whole graph use.
GRAPH_SHARE = 0.5
# A pass with the blocks' second forward beside one without: three products of a row with each matrix in place of two.
SECOND_FORWARD = 1.5


@dataclass(frozen=True)
class Estimate:
    """The estimated cost of a request: peak bytes by use, and seconds. Meant to be right within a factor of two."""

    request: ObserveRequest
    weight_bytes: int
    activation_bytes: int
    logit_bytes: int

    @property
    def total_bytes(self) -> int:
        """Peak bytes beyond what the process uses before the run, without the optional graphs that blocks may keep."""
        return self.weight_bytes + self.activation_bytes + self.logit_bytes

    @property
    def seconds(self) -> float:
        """Estimated seconds on one core of this machine, without the time of imports."""
        request, pace = self.request, machine_pace()
        by_block, tiled = request.driver == "block", is_tiled(request)
        return (
            (2 if by_block and tiled else 1) * draw_seconds(request.config, 1, request.distribution, pace)
            + call_seconds(request.config, pace)
            + (SECOND_FORWARD if by_block and not tiled else 1.0)
            * ARMS
            * member_seconds(request.config, request.batch, request.dtype, pace)
            + self.total_bytes * SECONDS_PER_BYTE * pace.moves
        )


def estimate(request: ObserveRequest) -> Estimate:
    """Return the estimated peak memory and time of observing `request`, with its recipe and without; nothing is run.

    The driver `auto` is first replaced by the one that would be used; `Estimate.request` has it.
    """
    request = decided(request)
    config, batch = request.config, request.batch
    sizes, item = layout(config), ITEM_BYTES[request.dtype]
    writers = sum(spec.coordinates for spec in sizes.block_template if spec.role in WRITERS)
    graph = graph_bytes(config, batch, item)
    if request.driver == "graph":
        weights = item * (sizes.parameters + 2 * config.blocks * writers) + 8 * sizes.block_draws
        activations = config.blocks * graph
    else:
        weights = TILED_BYTES if is_tiled(request) else _held_bytes(config, request.dtype, writers)
        states = (config.blocks + 1) * batch.inputs.size * config.width * item
        activations = states + graph + config.blocks * _carried_bytes(request)
    return Estimate(
        request=request,
        weight_bytes=weights,
        activation_bytes=ARMS * activations,
        logit_bytes=ARMS * 3 * batch.valid_count * config.vocabulary * max(item, 4),
    )


def _held_bytes(config: DecoderConfig, dtype: str, writers: int) -> int:
    """Return the most bytes of dense weights that exist at once block by block.

    The base draw is binary64, and is converted to a narrower type; writers differ between the arms.
    """
    sizes = layout(config)
    outside = max(sizes.stem_draws, sizes.draws - sizes.stem_draws - config.blocks * sizes.block_draws)
    converted = 0 if dtype == "float64" else ITEM_BYTES[dtype]
    base = sizes.draws if is_kept(config) else max(sizes.block_draws, outside)
    return 8 * base + max(converted * sizes.block_draws + 2 * 8 * writers, converted * outside)


def _carried_bytes(request: ObserveRequest) -> int:
    """Return the bytes that one member's `Carry` from block to block takes: the scores, if the recipe sums them."""
    graph, batch = recipe(request.recipe).graph(request.config), request.batch
    if not any(branch.score_sum for addition in graph.blocks[0] for branch in addition.branches):
        return 0
    return batch.inputs.size * batch.longest * request.config.heads * max(ITEM_BYTES[request.dtype], 4)


def is_kept(config: DecoderConfig) -> bool:
    """Return True if the base matrices of one seed (before a recipe) are few enough to stay in memory."""
    return layout(config).draws <= KEPT_DRAW


def is_tiled(request: ObserveRequest) -> bool:
    """Return True if a block-by-block run of `request` draws its matrices tile by tile, inside products."""
    return not is_kept(request.config) and request.device == "cpu"


def decided(request: ObserveRequest) -> ObserveRequest:
    """Return the request with the driver `auto` replaced by `graph` or `block`; any other request unchanged.

    `graph` is chosen if the whole decoder fits into the memory and parameter limits of the request.
    """
    if request.driver != "auto":
        return request
    whole = replace(request, driver="graph")
    allowed = usable_memory(request)
    fits = layout(request.config).parameters <= request.budget.max_parameters
    return whole if fits and estimate(whole).total_bytes <= allowed else replace(request, driver="block")


def draw_seconds(
    config: DecoderConfig, seeds: int, distribution: Distribution = XAVIER, pace: Pace = REFERENCE
) -> float:
    """Return the estimated seconds on one core of drawing the base matrices of `seeds` seeds at the speed `pace`."""
    each = SECONDS_PER_DRAW if distribution.std is None else SECONDS_PER_NORMAL_DRAW
    return seeds * layout(config).draws * each * pace.moves


def call_seconds(config: DecoderConfig, pace: Pace = REFERENCE) -> float:
    """Return the estimated seconds of one pass that do not grow with the members: kernel calls of all blocks."""
    return config.blocks * SECONDS_PER_BLOCK * pace.moves


def member_seconds(config: DecoderConfig, batch: Batch, dtype: str, pace: Pace = REFERENCE) -> float:
    """Return the estimated seconds that each member (model) adds to a pass, forward and reverse, without draws."""
    rows = batch.inputs.size
    scores = config.heads * batch.longest
    products = 4 * rows * (layout(config).parameters + config.blocks * config.heads * config.head_width * batch.longest)
    row = SECONDS_PER_ROW + block_features(config) * SECONDS_PER_FEATURE[dtype] + scores * SECONDS_PER_SCORE[dtype]
    moved = config.blocks * rows * row + batch.valid_count * config.vocabulary * SECONDS_PER_LOGIT[dtype]
    emulated = dtype == "bfloat16" and not has_bfloat16()
    each = SECONDS_PER_EMULATED_FLOP if emulated else SECONDS_PER_FLOP[dtype]
    return moved * pace.moves + products * each * pace.products


def block_features(config: DecoderConfig) -> int:
    """Return how many numbers per position and block are kept for the reverse pass.

    They are the outputs of norms and projections (with rotated copies), and the gate, up and product activations.
    """
    heads = config.heads + 2 * config.key_value_heads
    return 12 * config.width + 4 * heads * config.head_width + 5 * config.ff_width


def graph_bytes(config: DecoderConfig, batch: Batch, item: int) -> int:
    """Return the estimated bytes of the activations that autograd keeps for one block of one model of a batched run.

    `item` is the size of one number in bytes.
    """
    scores = KEPT_SCORES * config.heads * batch.longest * max(item, 4)
    return int(batch.inputs.size * (block_features(config) * item + scores))


def check_run(request: ObserveRequest) -> Estimate:
    """Return the `Estimate` of a request that can run; its `request` has the driver that is used.

    Raises the errors of `request.check`, and `BudgetError` if memory does not suffice.
    """
    request.check()
    return check_memory(request)


def check_memory(request: ObserveRequest) -> Estimate:
    """Return the `Estimate` of a request. Raises `BudgetError` if it needs more than `allowed_memory` bytes."""
    cost = estimate(request)
    allowed = allowed_memory(request)
    if cost.total_bytes <= allowed:
        return cost
    ways = ["make the decoder smaller"]
    if cost.weight_bytes <= allowed:
        ways.insert(0, "shorten the rows")
    if cost.request.driver == "graph" and estimate(replace(request, driver="block")).total_bytes <= allowed:
        ways.append(Remedy.BY_BLOCK)
    if request.max_memory is not None:
        ways.append(Remedy.MEMORY)
    raise BudgetError(
        f"This run needs about {cost.total_bytes / 2**30:.1f} GiB and {allowed / 2**30:.1f} GiB may be used", *ways
    )


def usable_memory(request: ObserveRequest) -> int:
    """Return how many bytes the driver `auto` may use for a whole decoder.

    It is `max_memory` if given, else half of the available memory.
    """
    return int(GRAPH_SHARE * available_memory()) if request.max_memory is None else request.max_memory


def allowed_memory(request: ObserveRequest) -> int:
    """Return how many bytes a run may use: `max_memory`, but at most 80 % of the available memory."""
    allowed = int(MEMORY_SHARE * available_memory())
    return allowed if request.max_memory is None else min(allowed, request.max_memory)


def available_memory() -> int:
    """Return how many bytes a process can still use: what Linux calls available, or all physical memory elsewhere."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
