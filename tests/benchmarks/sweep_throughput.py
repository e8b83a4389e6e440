"""How many decoders a second a sweep observes, beside one model after another.

Run `python -m tests.benchmarks.sweep_throughput [--pairs N]`.
Three cases, both arms, one row of four positions, float64, from a grid to stored cells, building included on every
side. Each pair of measurements runs the sweep and the two baselines right after one another in this one process, on one
thread and with the same allocator settings, so that other work on the machine weighs on all alike; the ratios are
medians over pairs. Processor time stands beside elapsed time, for other work moves the one and hardly the other.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from core.decoder.batch import chapter_batch
from core.decoder.config import DecoderConfig
from core.sweep.grid import SweepGrid
from core.sweep.process import use_one_thread
from core.sweep.run import SweepRun
from core.sweep.store import Store
from tests.benchmarks.hooked_llama import llama, observe_llama
from tests.benchmarks.plain_modules import PlainDecoder, observe_plain


@dataclass(frozen=True)
class Case:
    """A decoder, the seeds of one measurement, models of each baseline in it, and the ratio aimed at."""

    name: str
    config: DecoderConfig
    seeds: int
    models: int
    aim: float


CASES = (
    Case("narrow, 8 blocks", DecoderConfig(blocks=8), 512, 12, 250),
    Case("narrow, 64 blocks", DecoderConfig(blocks=64), 64, 2, 150),
    Case("256 wide, 12 blocks", DecoderConfig(blocks=12, width=256, heads=8, ff_width=688), 16, 4, 2),
)


@dataclass(frozen=True)
class Rates:
    """Members or models a second of elapsed time and of processor time, of the sweep and both baselines."""

    sweep: tuple[float, float]
    hooked: tuple[float, float]
    plain: tuple[float, float]


def ratio(rates: list[Rates], baseline: str, clock: int = 0) -> float:
    """Median over pairs of the sweep's rate by a baseline's; clock 0 is elapsed time, 1 processor time."""
    return statistics.median(pair.sweep[clock] / getattr(pair, baseline)[clock] for pair in rates)


def rate(count: int, work: Callable[[], object]) -> tuple[float, float]:
    """How many of `count` a second, by both clocks."""
    began, worked = time.perf_counter(), time.process_time()
    work()
    return count / (time.perf_counter() - began), count / (time.process_time() - worked)


def sweep_rate(case: Case, first_seed: int, store: Store) -> tuple[float, float]:
    """Members a second from a grid to its stored cells."""

    def work() -> None:
        seeds = tuple(range(first_seed, first_seed + case.seeds))
        run = SweepRun(SweepGrid(blocks=(case.config.blocks,), seeds=seeds, sizes=(case.config,)), store)
        assert run.done == 0
        while run.pending:
            run.step(60)

    return rate(2 * case.seeds, work)


def measure(case: Case, pairs: int) -> list[Rates]:
    """Interleaved pairs, after one round that is thrown away."""
    batch = chapter_batch()
    ids, targets = torch.from_numpy(batch.inputs), torch.from_numpy(batch.targets)
    scale = case.config.blocks**-0.5

    def hooked() -> None:
        for _ in range(case.models):
            observe_llama(llama(case.config), ids)

    def plain() -> None:
        for _ in range(case.models):
            observe_plain(PlainDecoder(case.config, scale), ids, targets)

    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "cells.sqlite") as store:
        found = [
            Rates(sweep_rate(case, pair * case.seeds, store), rate(case.models, hooked), rate(case.models, plain))
            for pair in range(pairs + 1)
        ]
    return found[1:]


def peak_mebibytes(case: int) -> float:
    """Peak memory of one measurement in a separate process, torch included."""
    code = f"""if True:
        import resource
        from tests.benchmarks.sweep_throughput import *
        use_one_thread()
        with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "cells.sqlite") as store:
            sweep_rate(CASES[{case}], 0, store)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout) / 1024


def line(case: Case, rates: list[Rates], clock: int) -> str:
    """Rates and ratios of a case by one clock."""
    medians = (statistics.median(getattr(pair, name)[clock] for pair in rates) for name in ("sweep", "hooked", "plain"))
    ratios = f"{ratio(rates, 'hooked', clock):>10.1f}{case.aim:>10g}{ratio(rates, 'plain', clock):>10.1f}"
    return f"{case.name:<22}" + "".join(f"{median:>10.1f}" for median in medians) + ratios


def main() -> None:
    """Print the rates, their ratios and the peak memory of every case, then where the time goes."""
    from tests.benchmarks.sweep_profile import describe  # imports this module

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=7)
    pairs = parser.parse_args().pairs
    use_one_thread()
    titles = ("sweep/s", "hooked/s", "plain/s", "x hooked", "aim", "x plain", "peak MiB")
    print(f"{'':<40}" + "".join(f"{title:>10}" for title in titles))
    for index, case in enumerate(CASES):
        rates, peak = measure(case, pairs), peak_mebibytes(index)
        for clock, name in enumerate(("elapsed time", "processor time")):
            print(f"{name:<18}{line(case, rates, clock)}{peak:>10.0f}", flush=True)
    describe()


if __name__ == "__main__":
    main()
