"""Estimates of cost beside what the runs take: `python -m tests.benchmarks.estimates [--threads 2] [--shape NAME ...]`.

Each run is a separate process, so that none finds the memory of another; imports are not counted. Processor seconds
are those of one core and hold on a busy machine too. The machine of the constants gives a machine's pace of 1.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from core.decoder.base_draw import Distribution
from core.decoder.config import Budget, DecoderConfig
from core.health.estimate import estimate
from core.health.pace import machine_pace
from core.health.request import DTYPE_NAMES, ObserveRequest
from core.sweep.request import uniform_batch

# Sizes, rows and their length: deep and narrow, wide and shallow, few and many positions, a large vocabulary.
SHAPES: dict[str, dict[str, Any]] = {
    "deep": {"sizes": {"blocks": 2048}, "length": 4},
    "narrow": {"sizes": {"blocks": 1024, "width": 32, "heads": 4, "ff_width": 86}, "rows": 2, "length": 128},
    "usual": {
        "sizes": {"blocks": 12, "width": 768, "heads": 12, "ff_width": 2048, "vocabulary": 8000}, "length": 512,
    },
    "long": {"sizes": {"blocks": 2, "width": 128, "heads": 4, "ff_width": 344, "vocabulary": 1000}, "length": 2048},
    "vocabulary": {
        "sizes": {"blocks": 2, "width": 64, "heads": 4, "ff_width": 172, "vocabulary": 32768}, "rows": 4, "length": 256,
    },
    "wide": {
        "sizes": {
            "blocks": 2, "width": 4096, "heads": 32, "kv_heads": 8, "ff_width": 14336, "vocabulary": 1000,
        }, "length": 16,
    },
    "normal": {
        "sizes": {"blocks": 24, "width": 512, "heads": 8, "ff_width": 1536, "vocabulary": 4096}, "length": 16,
        "std": 0.02,
    },
}  # fmt: skip


def request_of(shape: str, dtype: str) -> ObserveRequest:
    """The observation of a shape in a floating type."""
    chosen = SHAPES[shape]
    config = DecoderConfig(**chosen["sizes"], positions=chosen["length"])
    return ObserveRequest(
        config=config,
        batch=uniform_batch(chosen.get("rows", 1), chosen["length"], config.vocabulary, 1),
        dtype=dtype,
        distribution=Distribution(chosen.get("std")),
        budget=Budget(max_parameters=2**33, max_positions=2**20),
    )


def measured(shape: str, dtype: str, threads: int) -> dict[str, float]:
    """What one run takes in this process, after a small one that wakes the kernels."""
    import torch

    from core.health.report import observe_document

    torch.set_num_threads(threads)
    observe_document(ObserveRequest(dtype=dtype))
    wall, cpu = time.perf_counter(), time.process_time()
    observe_document(request_of(shape, dtype))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {"cpu": cpu, "wall": wall, "mebibytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one line per run: the estimate, the measure and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--dtype", nargs="+", choices=DTYPE_NAMES, default=list(DTYPE_NAMES))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        print(json.dumps(measured(options.shape[0], options.dtype[0], options.threads)))
        return
    pace = machine_pace()
    print(f"pace of this machine: moves {pace.moves:.2f}, products {pace.products:.2f}")
    print(f"{'shape':<12}{'dtype':<10}{'estimate s':>11}{'cpu s':>9}{'wall s':>9}{'ratio':>7}{'peak MiB':>10}")
    for shape in options.shape:
        for dtype in options.dtype:
            command = [sys.executable, "-m", "tests.benchmarks.estimates", "--one", "--shape", shape, "--dtype", dtype]
            found = json.loads(
                subprocess.run(
                    [*command, "--threads", str(options.threads)], check=True, capture_output=True, text=True,
                    env={**os.environ, "OMP_NUM_THREADS": str(options.threads)},
                ).stdout
            )  # fmt: skip
            seconds = estimate(request_of(shape, dtype)).seconds
            print(
                f"{shape:<12}{dtype:<10}{seconds:>11.2f}{found['cpu']:>9.2f}{found['wall']:>9.2f}"
                f"{seconds / found['cpu']:>7.2f}{found['mebibytes']:>10.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
