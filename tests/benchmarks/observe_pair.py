"""Two arms observed together, beside two hooked LLaMA models one after another; and the laptop plan really run.

Run `python -m tests.benchmarks.observe_pair [--threads N]`. Medians of 7 interleaved pairs in one process. The narrow
case counts building on both sides; the laptop case leaves construction apart and prints the peak resident memory of a
separate process, imports included.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from core.construction.drawn_weights import DrawnWeights
from core.decoder.base_draw import BaseDraw
from core.decoder.batch import Batch
from core.decoder.config import DecoderConfig
from core.decoder.forward_pass import forward
from core.decoder.weights import Weights
from core.health.observation import measure
from core.health.report import observe_document
from core.health.request import ObserveRequest
from core.plan.presets import LAPTOP, PRESETS
from core.recipes.catalogue import recipe

PAIRS = 7
ARMS = ("depth-scaled", "unscaled")
LAPTOP_CONFIG = PRESETS[LAPTOP].request.config
LAPTOP_POSITIONS = 128
NARROW_LIMIT, LAPTOP_LIMIT, LAPTOP_GIGABYTES = 1 / 3, 2.5, 1.3


@dataclass(frozen=True)
class Held:
    """Weights drawn once and kept, so that construction is no part of what is timed."""

    config: DecoderConfig
    members: int
    parts: Mapping[int | str, Weights]

    @classmethod
    def of(cls, drawn: DrawnWeights) -> Held:
        blocks: dict[int | str, Weights] = {block: drawn.block(block) for block in range(drawn.config.blocks)}
        return cls(drawn.config, drawn.members, {**blocks, "stem": drawn.stem(), "tail": drawn.tail()})

    def stem(self) -> Weights:
        return self.parts["stem"]

    def block(self, block: int) -> Weights:
        return self.parts[block]

    def tail(self) -> Weights:
        return self.parts["tail"]


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def laptop_batch() -> Batch:
    ids = [(37 * position + 5) % LAPTOP_CONFIG.vocabulary for position in range(LAPTOP_POSITIONS + 1)]
    return Batch.from_rows([ids[:-1]], [ids[1:]])


def laptop_pass() -> Callable[[], object]:
    """Both arms of the laptop plan in float32, sites only, on weights that are already there."""
    arms = [recipe(name) for name in ARMS]
    held = Held.of(DrawnWeights(BaseDraw(LAPTOP_CONFIG, [4701]), arms, torch.float32))
    graph, batch = arms[0].graph(LAPTOP_CONFIG), laptop_batch()
    return lambda: measure(forward(graph, held, batch, contributions=False))


def narrow() -> None:
    from tests.benchmarks.hooked_llama import llama, observe_llama

    config, ids = DecoderConfig(), torch.tensor([[0, 99, 100, 101]])
    ours = [0.0] * PAIRS
    theirs = [0.0] * PAIRS
    for _ in range(3):
        observe_document(ObserveRequest())
        observe_llama(llama(config), ids)
    for pair in range(PAIRS):
        ours[pair] = seconds(lambda: observe_document(ObserveRequest()))
        theirs[pair] = seconds(lambda: [observe_llama(llama(config), ids) for _ in ARMS])
    ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    print(
        f"narrow, 8 blocks, both arms: {1e3 * statistics.median(ours):.1f} ms against "
        f"{1e3 * statistics.median(theirs):.1f} ms for two hooked models, ratio {ratio:.3f} (limit {NARROW_LIMIT:.3f})"
    )


def laptop() -> None:
    from tests.benchmarks.hooked_llama import llama, observe_llama

    run, model = laptop_pass(), llama(LAPTOP_CONFIG).to(torch.float32)
    ids = torch.from_numpy(laptop_batch().inputs)
    run()
    observe_llama(model, ids)
    pairs = [(seconds(run), seconds(lambda: observe_llama(model, ids))) for _ in range(PAIRS)]
    ratio = statistics.median(a / b for a, b in pairs)
    ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
    print(
        f"laptop plan, float32, {LAPTOP_POSITIONS} positions, both arms: {ours:.3f} s against {theirs:.3f} s for one "
        f"hooked pass, ratio {ratio:.2f} (limit {LAPTOP_LIMIT})"
    )


def peak_gigabytes() -> float:
    """Peak resident memory of a process that imports the engine, draws the laptop plan and observes it once."""
    script = (
        "import resource; from tests.benchmarks.observe_pair import laptop_pass; laptop_pass()(); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    return int(printed) * 1024 / 1e9


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--threads", type=int, default=1)
    torch.set_num_threads(options.parse_args().threads)
    narrow()
    laptop()
    print(f"laptop plan: peak resident memory {peak_gigabytes():.2f} GB (limit {LAPTOP_GIGABYTES})")


if __name__ == "__main__":
    main()
