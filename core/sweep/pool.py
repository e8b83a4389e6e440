"""Worker processes on this machine, each with its own torch; a lost worker costs one more try of what it held."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from threading import Thread
from typing import Any

from core.errors import DepthscopeError, EngineError
from core.sweep.plan import Chunk
from core.sweep.run import SweepRun

MAX_TRIES = 3
STOP_SECONDS = 5.0


@dataclass(eq=False)
class _Task:
    parts: tuple[Chunk, ...]
    tries: int = 0


@dataclass(eq=False)
class _Worker:
    process: SpawnProcess
    pipe: Connection
    task: _Task | None = None
    open: deque[Chunk] = field(default_factory=deque)


def run_in_processes(run: SweepRun, workers: int) -> Iterator[int]:
    """Finish `run` in `workers` processes; yields the number of finished cells when a worker has started and after
    every chunk.

    Chunks that share base draws go to one worker. Results are stored by this process alone, as they arrive.
    """
    tasks = deque(_Task(group.chunks) for group in run.pending_groups())
    context = multiprocessing.get_context("spawn")
    crew: list[_Worker] = []
    try:
        while tasks or any(worker.task for worker in crew):
            while len(crew) < min(workers, len(tasks) + sum(worker.task is not None for worker in crew)):
                crew.append(_hire(context))
            for worker in crew:
                while worker.task is None and tasks:
                    _assign(run, worker, tasks.popleft())
            busy = [worker for worker in crew if worker.task]
            for ready in wait([worker.pipe for worker in busy]):
                worker = next(worker for worker in busy if worker.pipe is ready)
                try:
                    message = worker.pipe.recv()
                except (EOFError, OSError):
                    crew.remove(worker)
                    tasks.appendleft(_given_back(worker))
                    continue
                # The first word says that it has started.
                if message is not None:
                    _receive(run, worker, message)
                yield run.done
    finally:
        _dismiss(crew)


def _hire(context: Any) -> _Worker:
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _assign(run: SweepRun, worker: _Worker, task: _Task) -> None:
    """Hand over what is still missing of a task; a task that others finished meanwhile is dropped."""
    parts = [part for chunk in task.parts for part in run.missing_parts(chunk)]
    if not parts:
        return
    worker.task, worker.open = task, deque(parts)
    # A worker that is gone is found by the next wait, which gives its task back.
    with suppress(OSError):
        worker.pipe.send(parts)


def _receive(run: SweepRun, worker: _Worker, message: Any) -> None:
    if isinstance(message, DepthscopeError):
        raise message
    result, seconds = message
    run.accept(worker.open.popleft(), result, seconds)
    if not worker.open:
        worker.task = None


def _given_back(worker: _Worker) -> _Task:
    task = worker.task
    assert task is not None
    task.tries += 1
    if task.tries >= MAX_TRIES:
        raise EngineError(
            f"A worker process ended {MAX_TRIES} times over the same cells, perhaps for want of memory; run fewer "
            "workers or smaller decoders."
        )
    return task


def _dismiss(crew: Sequence[_Worker]) -> None:
    for worker in crew:
        worker.pipe.close()
        if worker.task is not None:
            worker.process.terminate()
    for worker in crew:
        worker.process.join(STOP_SECONDS)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()


def serve(pipe: Connection) -> None:
    """A worker's life: compute lists of chunks until the other end of the pipe is closed."""
    # Ctrl-C reaches the whole group; only the program that stores results decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, name="end with parent", daemon=True).start()
    from core.sweep.engine import Engine
    from core.sweep.process import use_one_thread

    use_one_thread()
    engine = Engine()
    try:
        pipe.send(None)
        while True:
            for chunk in pipe.recv():
                started = time.perf_counter()
                try:
                    result = engine.run(chunk)
                except DepthscopeError as error:
                    pipe.send(error)
                    return
                pipe.send((result, time.perf_counter() - started))
    except (EOFError, OSError):
        return


def _end_with_parent() -> None:
    """End this process in the middle of whatever it computes once its parent is gone, even if that was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
