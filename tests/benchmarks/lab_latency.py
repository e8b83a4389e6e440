"""How long each experiment of the labs takes: `python -m tests.benchmarks.lab_latency [--repeats N]`.

Medians of repeated calls in one process, after one call that imports what it needs: at the defaults, where a control's
answer should take at most 250 ms, and for the published chains, 512 wide and 50 layers deep, at most 2 s. Processor
time stands beside elapsed time, for other work on the machine moves the one and hardly the other.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import torch

from core.lab.experiment import Experiment
from core.lab.experiments import EXPERIMENTS, experiment

CONTROL_LIMIT, WIDE_LIMIT = 0.25, 2.0
WIDE = {
    "linear-chain": {},
    "relu-chain": {},
    "tanh-chain": {},
    "chain": {"width": 512, "layers": 50},
}


def timed(entry: Experiment[Any], given: dict[str, object], repeats: int) -> tuple[float, float]:
    """Median elapsed and processor seconds of options to document."""
    elapsed, worked = [], []
    for _ in range(repeats + 1):
        clock, processor = time.perf_counter(), time.process_time()
        entry.document(entry.options(given))
        elapsed.append(time.perf_counter() - clock)
        worked.append(time.process_time() - processor)
    return statistics.median(elapsed[1:]), statistics.median(worked[1:])


def main() -> None:
    """Print a row an experiment and how many exceed their limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    cases = [(name, {}, CONTROL_LIMIT) for name in EXPERIMENTS if name not in WIDE or name == "chain"]
    cases += [(name, given, WIDE_LIMIT) for name, given in WIDE.items()]
    over = 0
    print(f"{'experiment':<24}{'elapsed ms':>12}{'processor ms':>14}{'limit ms':>10}")
    for name, given, limit in cases:
        elapsed, worked = timed(experiment(name), dict(given), repeats)
        over += elapsed > limit
        label = f"{name} 512 x 50" if given else name
        print(f"{label:<24}{1e3 * elapsed:>12.1f}{1e3 * worked:>14.1f}{1e3 * limit:>10.0f}")
    print(f"{over} of {len(cases)} over their limit")


if __name__ == "__main__":
    main()
