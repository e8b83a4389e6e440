"""Compute what a sweep is missing: in this process, in several, or on a scheduler's workers."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any, TextIO

from .process import cores, use_one_thread
from .progress import Progress
from .run import SweepRun

# A second process costs an import of torch, which is worth it from here on.
SECONDS_FOR_WORKERS = 6.0
SLICE_SECONDS = 0.5


def compute_missing(run: SweepRun, client: Any, workers: int | None, stream: TextIO) -> None:
    """Finish `run` on the scheduler of `client`, or in `workers` processes, and tell on `stream` how far it is.

    Without a client and a number of workers, there are as many as cores where that saves time.
    """
    if not run.pending:
        return
    progress = Progress(run, stream)
    if client is None and workers is None:
        workers = cores() if run.estimate.seconds > SECONDS_FOR_WORKERS else 1
    for _ in _slices(run, client, workers or 1):
        progress.show()
    progress.show(last=True)


def _slices(run: SweepRun, client: Any, workers: int) -> Iterator[int]:
    """Finished cells, first when computing begins."""
    if client is not None:
        from .distributed import run_on_client

        yield from run_on_client(run, client)
    elif workers > 1:
        from .pool import run_in_processes

        yield from run_in_processes(run, workers)
    else:
        use_one_thread()
        # Before the clock starts.
        import_module(".engine", __package__)
        yield run.done
        while run.pending:
            run.step(SLICE_SECONDS)
            yield run.done
