"""Compute the missing cells of a sweep: in this process, in several processes, or on a Dask scheduler.

Each worker process runs its own torch; if workers are lost, their tasks are tried again.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from itertools import islice
from multiprocessing.connection import Connection
from threading import Thread
from typing import TYPE_CHECKING, Any, TextIO

from ..decoder.threads import cores
from ..errors import SweepError
from .plan import Chunk
from .process import compute, use_one_thread
from .progress import Progress
from .run import SweepRun

if TYPE_CHECKING:
    from .engine import ChunkResult

# A second process costs an import of torch, which is worth it from here on.
SECONDS_FOR_WORKERS = 6.0
SLICE_SECONDS = 0.5
MAX_TRIES = 3


def compute_missing(run: SweepRun, client: Any, workers: int | None, stream: TextIO) -> None:
    """Compute and store the missing (recipe, seed) cells of `run`, and write the progress to `stream`.

    They are computed on the scheduler of `client`, if given, or in `workers` processes. If both are None, there are as
    many processes as cores, or one if the work is short.
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
    """Yield the number of finished cells, first when computing begins."""
    if client is not None:
        from .distributed import run_on_client

        yield from run_on_client(run, client)
    elif workers > 1:
        yield from run_in_processes(run, workers)
    else:
        use_one_thread()
        # Before the clock starts.
        import_module(".engine", __package__)
        yield run.done
        while run.pending:
            run.step(SLICE_SECONDS)
            yield run.done


def run_in_processes(run: SweepRun, workers: int) -> Iterator[int]:
    """Compute the missing (recipe, seed) cells of `run` in `workers` processes, and store them in this one.

    Yields the number of finished cells, first when a worker has started and then after each task. If a worker is lost,
    the others end too, and the rest is tried again; the last try runs one task at a time, in reverse order. Raises
    `SweepError` if it fails too.
    """
    lost = 0
    while run.pending:
        before, is_last = run.done, lost == MAX_TRIES - 1
        try:
            yield from _run_once(run, 1 if is_last else workers, backwards=is_last)
        except BrokenProcessPool as error:
            lost = 1 if run.done > before else lost + 1
            if lost == MAX_TRIES:
                raise SweepError(
                    f"A worker process ended {MAX_TRIES} times over the same cells, perhaps for want of memory; run "
                    "fewer workers or smaller decoders."
                ) from error


def _run_once(run: SweepRun, workers: int, *, backwards: bool) -> Iterator[int]:
    context = multiprocessing.get_context("spawn")
    theirs, ours = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(workers, context, _begin, (theirs,))
    work = reversed(list(run.missing_work())) if backwards else run.missing_work()
    running: dict[Future[list[tuple[ChunkResult, float]]], list[Chunk]] = {}
    try:
        pool.submit(int).result()
        yield run.done
        while True:
            # One more than are computed, so that no worker waits for this process.
            for parts in islice(work, workers + 1 - len(running)):
                running[pool.submit(compute, parts)] = parts
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                for part, (result, seconds) in zip(running.pop(future), future.result(), strict=True):
                    run.accept(part, result, seconds)
            yield run.done
    finally:
        # Ends every worker, in the middle of whatever it computes.
        ours.close()
        pool.shutdown(cancel_futures=True)


def _begin(pipe: Connection) -> None:
    """Prepare a worker to end when the other end of the pipe is closed, which also happens if its parent is killed."""
    # Ctrl-C reaches the whole group; only the program that stores results decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with, args=(pipe,), name="end with parent", daemon=True).start()
    use_one_thread()


def _end_with(pipe: Connection) -> None:
    multiprocessing.connection.wait([pipe])
    os._exit(1)
