"""Run a sweep on an existing Dask scheduler: its workers compute, and the results are stored here.

Needs the optional packages dask and distributed. Workers on other machines must be able to import this package.
"""

from __future__ import annotations

import logging
import os
import pickle
import socket
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..errors import Remedy, SweepError, shown
from .plan import Chunk
from .run import SweepRun

if TYPE_CHECKING:
    from .engine import ChunkResult

REACH_SECONDS = 2.0
CONNECT_SECONDS = 5.0
RETRIES = 3
FINDER = "depthscope-project"
POLL_SECONDS = 0.02
ASK_SECONDS = 2.0
WORKERLESS_SECONDS = 60.0


def check_address(address: str) -> tuple[str, int]:
    """Return the host and port in the address of a scheduler. Raises `SweepError` if the text is not an address.

    Nothing is contacted.
    """
    _distributed()
    try:
        parts = urlsplit(address if "://" in address else f"tcp://{address}")
        if parts.hostname and parts.port and address.isascii():
            return parts.hostname, parts.port
    except ValueError:
        pass
    raise SweepError(
        f"{shown(address)} is no address of a Dask scheduler; write it as `dask scheduler` shows it, such as "
        "tcp://127.0.0.1:8786."
    )


def _greeted(address: str, place: tuple[str, int]) -> None:
    """Wait for the first message of a scheduler.

    Dask itself would retry a closed port and wait forever for a silent one.
    """
    with socket.create_connection(place, timeout=REACH_SECONDS) as probe:
        probe.settimeout(CONNECT_SECONDS)
        # Over tcp the scheduler speaks first; over tls and ws the client.
        if address.partition("://")[0] not in ("tls", "ws", "wss") and not probe.recv(1):
            raise ConnectionError("closed without a word")


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Connect to the scheduler at `address` and yield a Dask client while the block runs.

    Raises `SweepError` within seconds if no scheduler answers.
    """
    dask, place = _distributed(), check_address(address)
    try:
        _greeted(address, place)
        client = dask.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise SweepError(
            f"No Dask scheduler answers at {address[:80]!r}", "start one with `dask scheduler`", Remedy.NO_SCHEDULER
        ) from error
    with client:
        yield client


def run_on_client(run: SweepRun, client: Any) -> Iterator[int]:
    """Compute the missing (recipe, seed) cells of `run` on the workers of a Dask scheduler, and store them here.

    Yields the number of finished cells, first at the start and then after every task. A task is a list of chunks
    (batched passes) with the same random base weights. If a worker is lost, its task is tried again; if that fails
    repeatedly, raises `SweepError`.
    """
    dask = _distributed()
    client.register_plugin(_project_finder(dask), name=FINDER)
    work = _portable_compute()
    open_parts: dict[str, list[Chunk]] = {}
    futures = []
    for parts in run.missing_work():
        # Not pure: a second sweep of the same grid must not be handed another one's answer by its name.
        future = client.submit(work, pickle.dumps(parts), retries=RETRIES, pure=False)
        open_parts[future.key] = parts
        futures.append(future)
    yield run.done
    for future in _answered(client, dask.as_completed(futures, loop=client.loop)):
        for part, (result, seconds) in zip(open_parts.pop(future.key), _answer(dask, future), strict=True):
            run.accept(part, result, seconds)
        future.release()
        yield run.done


def _distributed() -> Any:
    """Import the optional package distributed with its log silenced. Raises `SweepError` if it is not installed."""
    try:
        dask = import_module("distributed")
    except ImportError as error:
        raise SweepError(
            "A scheduler needs the optional package distributed",
            "install the packages dask and distributed",
            Remedy.NO_SCHEDULER,
        ) from error
    # It logs lost connections with their tracebacks; here they end in a sentence or in another try.
    for name in list(logging.root.manager.loggerDict):
        if name.split(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    return dask


def _portable_compute() -> Callable[[bytes], bytes]:
    """Return a version of `compute` on bytes.

    A local function is sent by value, so the scheduler need not import this project.
    """

    def work(parts: bytes) -> bytes:
        import pickle

        from .process import compute

        return pickle.dumps(compute(pickle.loads(parts)))

    return work


def _project_finder(dask: Any) -> Any:
    """Return a plugin that lets every worker, now and later, import this project from here or from its start folder."""
    folder = str(Path(__file__).parents[2])

    class ProjectFinder(dask.WorkerPlugin):  # type: ignore[misc]
        # Local for the same reason.
        def setup(self, worker: Any) -> None:
            del worker
            for place in (os.getcwd(), folder):
                if place not in sys.path:
                    sys.path.append(place)

    return ProjectFinder()


def _answered(client: Any, completed: Any) -> Iterator[Any]:
    """Yield futures as they complete. Raises `SweepError` if the scheduler has had no worker for too long."""
    asked = alive = time.monotonic()
    while not completed.is_empty():
        if completed.has_ready():
            yield next(completed)
            alive = time.monotonic()
            continue
        time.sleep(POLL_SECONDS)
        now = time.monotonic()
        if now - asked >= ASK_SECONDS:
            asked = now
            with suppress(OSError, TimeoutError):
                alive = now if client.nthreads() else alive
        if now - alive > WORKERLESS_SECONDS:
            raise SweepError(
                f"The scheduler has had no worker for {WORKERLESS_SECONDS:.0f} seconds; start one with `dask worker` "
                "and run the sweep again, which goes on where it stopped."
            )


def _answer(dask: Any, future: Any) -> list[tuple[ChunkResult, float]]:
    try:
        answer: list[tuple[ChunkResult, float]] = pickle.loads(future.result())
    except dask.KilledWorker as error:
        raise SweepError(
            "The scheduler lost every worker that tried the same cells; look at the workers' memory and logs, then run "
            "the sweep again."
        ) from error
    except CancelledError as error:
        raise SweepError(
            "The connection to the scheduler was lost; finished cells are stored, so start it and run the sweep again."
        ) from error
    except ModuleNotFoundError as error:
        raise SweepError(
            f"A worker cannot import {error.name}; start `dask worker` where the package "
            f"{__package__.partition('.')[0]} is installed under that name, or in the folder that holds it."
        ) from error
    return answer
