"""How many decoders a second a sweep observes, beside one model after another.

Run `python -m tests.benchmarks.sweep_throughput [--pairs N]`.
Three cases, both arms, one row of four positions, float64, from a grid to stored cells, building included on every
side. Each pair of measurements runs the sweep and the two baselines right after one another in this one process, on one
thread and with the same allocator settings, so that other work on the machine weighs on all alike; the ratios are
medians over pairs.
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
from core.sweep.process import settle
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
class Measured:
    """Members or models a second of each pair."""

    sweep: list[float]
    hooked: list[float]
    plain: list[float]

    def ratio(self, baseline: str) -> float:
        """The median over pairs of the sweep's rate and a baseline's."""
        return statistics.median(a / b for a, b in zip(self.sweep, getattr(self, baseline), strict=True))


def sweep_rate(case: Case, first_seed: int, store: Store) -> float:
    """Members a second from a grid to its stored cells."""
    began = time.perf_counter()
    seeds = range(first_seed, first_seed + case.seeds)
    run = SweepRun(SweepGrid(blocks=(case.config.blocks,), seeds=tuple(seeds), sizes=(case.config,)), store)
    assert run.done == 0
    while run.pending:
        run.step(60)
    return run.total / (time.perf_counter() - began)


def model_rate(models: int, observe: Callable[[], object]) -> float:
    """Models a second, each built and observed."""
    began = time.perf_counter()
    for _ in range(models):
        observe()
    return models / (time.perf_counter() - began)


def measure(case: Case, pairs: int) -> Measured:
    """Interleaved pairs, after one round that is thrown away."""
    batch = chapter_batch()
    ids, targets = torch.from_numpy(batch.inputs), torch.from_numpy(batch.targets)
    scale = case.config.blocks**-0.5
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "cells.sqlite") as store:
        rates = [
            (
                sweep_rate(case, pair * case.seeds, store),
                model_rate(case.models, lambda: observe_llama(llama(case.config), ids)),
                model_rate(case.models, lambda: observe_plain(PlainDecoder(case.config, scale), ids, targets)),
            )
            for pair in range(pairs + 1)
        ]
    sweep, hooked, plain = (list(column) for column in zip(*rates[1:], strict=True))
    return Measured(sweep, hooked, plain)


def peak_mebibytes(case: int) -> float:
    """Peak memory of one measurement in a process of its own, torch included."""
    code = f"""if True:
        import resource
        from tests.benchmarks.sweep_throughput import *
        settle()
        with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "cells.sqlite") as store:
            sweep_rate(CASES[{case}], 0, store)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout) / 1024


def main() -> None:
    """Print the rates, their ratios and the peak memory of every case, then where the time goes."""
    from tests.benchmarks.sweep_profile import describe  # imports this module

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=7)
    pairs = parser.parse_args().pairs
    settle()
    titles = ("sweep/s", "hooked/s", "plain/s", "x hooked", "aim", "x plain", "peak MiB")
    print(f"{'case':<22}" + "".join(f"{title:>10}" for title in titles))
    for index, case in enumerate(CASES):
        measured = measure(case, pairs)
        rates = "".join(f"{statistics.median(r):>10.1f}" for r in (measured.sweep, measured.hooked, measured.plain))
        print(
            f"{case.name:<22}{rates}{measured.ratio('hooked'):>10.1f}{case.aim:>10g}{measured.ratio('plain'):>10.1f}"
            f"{peak_mebibytes(index):>10.0f}",
            flush=True,
        )
    describe()


if __name__ == "__main__":
    main()
