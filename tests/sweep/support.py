"""What tests of the sweep share: small grids, and the command line in a separate process."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from core.decoder.batch import Batch
from core.sweep.grid import SweepGrid
from core.sweep.run import SweepRun

ROOT = Path(__file__).parents[2]
TWO_ROWS = Batch.from_rows([[1, 2, 3, 4, 5], [3, 4, 5]], [[2, 3, 4, 5, 6], [4, 5, 6]])


def small_grid(**axes: Any) -> SweepGrid:
    """A grid of two depths and four seeds, changed by `axes`."""
    return SweepGrid(**{"blocks": (1, 3), "seeds": tuple(range(4)), **axes})


def finish(run: SweepRun) -> SweepRun:
    """Work a sweep off in this process."""
    while run.pending:
        run.step(10)
    return run


def command_line(*arguments: object) -> list[str]:
    """A run of `sweep` as a process's arguments."""
    return [sys.executable, "-m", "core", "sweep", *map(str, arguments)]


def sweep(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `sweep` in a separate process and wait for it."""
    return subprocess.run(
        command_line(*arguments), cwd=ROOT, capture_output=True, text=True, timeout=900, check=False, **options
    )


def start(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    """Start `sweep` in a separate process, which hears signals although the tests may be run deaf to some."""
    return subprocess.Popen(
        command_line(*arguments), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=_hear_signals, **options,
    )  # fmt: skip


def _hear_signals() -> None:
    for each in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(each, signal.SIG_DFL)


def files(folder: Path) -> dict[str, bytes]:
    """Every file of a folder by name."""
    return {name: (folder / name).read_bytes() for name in sorted(os.listdir(folder))}


def csv_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with open(path, newline="") as stream:
        return list(csv.DictReader(stream))


def columns_of(rows: Sequence[Mapping[str, str]], *names: str) -> list[tuple[str, ...]]:
    """Some columns of every row."""
    return [tuple(row[name] for name in names) for row in rows]
