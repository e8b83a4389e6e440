"""A model that never fits, observed whole: time and memory beside the limit that this machine itself sets.

Run `python -m tests.benchmarks.giants [--layout llama-3-8b] [--blocks N] [--rows 1] [--positions 16] [--numpy]`.
Both arms, unscaled and depth-scaled, in float32, with contributions, cosines and token quantiles. Every weight is drawn
twice, once for the forward and once for the reverse pass, and the head once. The limit is the time of these draws and
of their products on all cores at the rates of one, medians in processor time right before and after the run, of which
the better counts; other work on the machine weighs on both. `--numpy` leaves the compiled draws out.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from core.construction.tiled_weights import TiledWeights
from core.decoder.base_draw import BaseDraw
from core.decoder.compiled_draws import kernel
from core.decoder.config import DecoderConfig
from core.decoder.drawn_matrix import TILE
from core.decoder.splitmix64 import affine
from core.decoder.threads import cores
from core.health.block_driver import BlockRun
from core.health.observation import Observation
from core.plan.presets import PRESETS
from core.recipes.catalogue import recipe
from core.sweep.process import use_one_thread
from core.sweep.request import uniform_batch

ARMS = ("unscaled", "depth-scaled")
PROBES = 60
# Bytes of blocks' graphs kept from the forward for the reverse; a block beyond them is computed, and drawn, once more.
GRAPHS = 2**29


@dataclass(frozen=True)
class Rates:
    """What one core does a second: draws into float32, and multiplications with additions in products of one tile."""

    draws: float
    products: float


def usual(work: Callable[[], object]) -> float:
    """The median processor time of many runs of `work` in this thread."""
    taken = []
    for _ in range(PROBES):
        began = time.thread_time()
        work()
        taken.append(time.thread_time() - began)
    return statistics.median(taken)


def rates(rows: int) -> Rates:
    """The rates of one core with tiles of the product and this many rows of activations."""
    states = np.arange(TILE, dtype=np.uint64)
    drawn = np.empty((TILE, TILE), np.float32)
    tile, x, total = torch.from_numpy(drawn), torch.randn(rows, TILE), torch.zeros(rows, TILE)
    draws = usual(lambda: affine(drawn, states, 2.0**52, 2.0**-60, kernel()))
    products = usual(lambda: total.addmm_(x, tile))
    return Rates(drawn.size / draws, rows * drawn.size / products)


def limit(config: DecoderConfig, rows: int, found: Rates) -> float:
    """Seconds that the draws and products of one observation take on all cores at the given rates."""
    layout = BaseDraw(config, [0]).layout
    head = config.vocabulary * config.width
    blocks = 2 * config.blocks * layout.block_draws
    # The head is drawn once for its logits and their adjoint.
    draws, products = blocks + head, rows * (blocks + 2 * head)
    return (draws / found.draws + products / found.products) / cores()


def observed(config: DecoderConfig, rows: int, positions: int, statistics: bool) -> Observation:
    """Both arms of one seed, every site, block by block."""
    arms = [recipe(name) for name in ARMS]
    weights = TiledWeights(BaseDraw(config, [0]), arms, torch.float32)
    batch = uniform_batch(rows, positions, config.vocabulary, 1)
    run = BlockRun(
        arms[0].graph(config), weights, batch, contributions=statistics, tokens=statistics, graph_room=GRAPHS
    )
    return run.finish()


def main() -> None:
    """Print the rates, the run's time and memory, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layout", choices=PRESETS, default="llama-3-8b")
    parser.add_argument("--blocks", type=int, help="fewer blocks than the layout has")
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--positions", type=int, default=16)
    parser.add_argument("--numpy", action="store_true", help="without the compiled draws")
    parser.add_argument("--plain", action="store_true", help="without contributions, cosines and token quantiles")
    options = parser.parse_args()
    if options.numpy:
        sys.modules["numba"] = None  # type: ignore[assignment]
    use_one_thread()
    config = PRESETS[options.layout].request.config
    config = replace(config, blocks=options.blocks or config.blocks)
    members = len(ARMS) * options.rows * options.positions
    before = rates(members)
    load, began, worked = os.getloadavg()[0], time.perf_counter(), time.process_time()
    observation = observed(config, options.rows, options.positions, not options.plain)
    wall, processor = time.perf_counter() - began, (time.process_time() - worked) / cores()
    after = rates(members)
    best = limit(config, members, Rates(max(before.draws, after.draws), max(before.products, after.products)))
    assert observation.sound.all()
    print(f"{options.layout}, {config.blocks} blocks, {members} rows, {'compiled' if kernel() else 'NumPy'} draws")
    for name, found in (("before", before), ("after", after)):
        print(f"one core {name}: {found.draws / 1e6:,.0f} M draws/s, {2 * found.products / 1e9:.1f} GF/s")
    print(f"limit {best:.1f} s; processor {processor:.1f} s a core, {processor / best:.2f} times; wall {wall:.1f} s")
    print(f"load {load:.1f} before, {os.getloadavg()[0]:.1f} after; {cores()} cores")
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB; loss {observation.loss_nats}")


if __name__ == "__main__":
    main()
