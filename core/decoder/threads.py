"""The number of cores of this machine, and a function that shares work among them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Task = TypeVar("Task")


def cores() -> int:
    """Return the number of cores that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def on_all_cores(work: Callable[[Task], None], tasks: Iterable[Task]) -> None:
    """Call `work(task)` for every task, in several threads if cores are free.

    The number of threads is the number of cores divided by torch's own number of threads, which each of them uses;
    torch's setting is not changed. `work` must write only to memory that no other task writes to, so that the result
    does not depend on the number of threads.
    """
    import torch  # the number of cores needs none

    waiting = list(tasks)
    workers = min(cores() // torch.get_num_threads(), len(waiting))
    if workers <= 1:
        for task in waiting:
            work(task)
        return
    # In a new thread torch takes its setting over when it is first asked for it; products before that use all cores.
    with ThreadPoolExecutor(workers, initializer=torch.get_num_threads) as pool:
        for _ in pool.map(work, waiting):
            pass
