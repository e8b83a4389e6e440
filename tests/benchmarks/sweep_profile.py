"""Where the time of a sweep goes, and how far it is from what this machine can do.

Printed at the end of `sweep_throughput`; by itself: `python -m tests.benchmarks.sweep_profile`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from core.construction.drawn_weights import DrawnWeights
from core.decoder.base_draw import BaseDraw
from core.decoder.batch import chapter_batch
from core.decoder.forward_pass import forward
from core.decoder.parameters import layout
from core.health.observation import measure
from core.recipes.catalogue import recipe
from core.sweep.engine import Engine
from core.sweep.grid import SweepGrid
from core.sweep.plan import Chunk, SweepPlan
from core.sweep.process import use_one_thread
from tests.benchmarks.sweep_throughput import CASES, Case

REPEATS = 7
PARTS = ("draws", "forward", "reverse", "statistics")


def fastest(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Processor seconds of the fastest repeat: a limit is what the machine can do when nothing disturbs it."""
    times = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)


def chunk_of(case: Case) -> Chunk:
    """The first chunk of the case's sweep."""
    grid = SweepGrid(blocks=(case.config.blocks,), seeds=tuple(range(case.seeds)), sizes=(case.config,))
    return SweepPlan(grid).groups[0].chunks[0]


def shares(chunk: Chunk) -> dict[str, float]:
    """Median processor seconds of each part of one pass."""
    batch, arms = chapter_batch(), [recipe(name) for name in chunk.recipes]
    graph = arms[0].graph(chunk.config)
    found: dict[str, list[float]] = {part: [] for part in PARTS}
    for _ in range(REPEATS):
        clock = [time.process_time()]
        draw = BaseDraw(chunk.config, chunk.seeds)
        draw.stem()
        for block in range(chunk.config.blocks):
            draw.block(block)
        clock.append(time.process_time())
        tape = forward(graph, DrawnWeights(draw, arms), batch, contributions=False)
        clock.append(time.process_time())
        torch.autograd.grad(tape.loss.sum(), tape.states, retain_graph=True)
        clock.append(time.process_time())
        measure(tape)
        clock.append(time.process_time())
        draws, forward_, reverse, both = np.diff(clock).tolist()
        # `measure` makes the reverse pass again and then the statistics.
        for part, seconds in zip(PARTS, (draws, forward_, reverse, max(0.0, both - reverse)), strict=True):
            found[part].append(seconds)
    return {part: statistics.median(values) for part, values in found.items()}


def matrix_products_a_second() -> float:
    """Multiply-adds a second of large float64 matrices on one thread."""
    size = 1024
    a, b = torch.randn(size, size, dtype=torch.float64), torch.randn(size, size, dtype=torch.float64)
    return size**3 / fastest(lambda: torch.mm(a, b))


def copied_bytes_a_second() -> float:
    """Bytes copied a second between arrays larger than any cache, read and written each counted once."""
    source = np.zeros(2**25)
    target = np.zeros_like(source)
    return 2 * source.nbytes / fastest(lambda: np.copyto(target, source))


def tiny_products_a_second(chunk: Chunk) -> float:
    """Multiply-adds a second of the case's own batched products: one query matrix a member."""
    width, members = chunk.config.width, len(chunk.seeds) * len(chunk.recipes)
    a = torch.randn(members, chunk.batch.inputs.size, width, dtype=torch.float64)
    b = torch.randn(members, width, width, dtype=torch.float64)
    calls = 20
    seconds = fastest(lambda: [torch.bmm(a, b) for _ in range(calls)]) / calls
    return members * chunk.batch.inputs.size * width * width / seconds


def describe() -> None:
    """Print the shares, the draws a second and the distance to the limits of every case."""
    products, copies = matrix_products_a_second(), copied_bytes_a_second()
    print(f"\nlimits of one thread: {products / 1e9:.1f} G multiply-adds/s, {copies / 1e9:.1f} GB/s copied")
    for case in CASES:
        chunk = chunk_of(case)
        parts, sizes = shares(chunk), layout(chunk.config)
        total = sum(parts.values())
        members, draws = len(chunk.seeds) * len(chunk.recipes), len(chunk.seeds) * sizes.draws
        # Forward, and once more for the adjoints of what a matrix reads; the tied head is one more matrix.
        needed = 2 * members * chunk.batch.inputs.size * sizes.parameters
        # Every weight is written once and read forward and in reverse.
        moved = 8 * 3 * draws
        alone = Chunk(**{**vars(chunk), "seeds": chunk.seeds[:1]})
        calls = fastest(lambda alone=alone: Engine().run(alone)) if members > 64 else None
        tiny = tiny_products_a_second(chunk)
        print(f"\n{case.name}: a pass of {members} members, {total * 1e3:.1f} ms, {members / total:,.0f} members/s")
        print("  " + ", ".join(f"{part} {seconds / total:.0%}" for part, seconds in parts.items()))
        print(f"  {draws / parts['draws'] / 1e6:,.0f} M draws/s")
        print(f"  at the matrix-product limit its products take {needed / products / total:.1%} of the time")
        print(f"  at the copy limit its weights take {moved / copies / total:.1%} of the time")
        print(f"  its own matrices multiply at {tiny / products:.1%} of that limit: {needed / tiny / total:.0%} of it")
        if calls is not None:
            print(f"  calls, whatever the number of members: {calls / total:.0%} of the time")


if __name__ == "__main__":
    use_one_thread()
    describe()
