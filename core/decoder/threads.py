"""The cores of this machine, and work that is shared among them."""

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
    """Call `work` on every task, in as many threads as cores where torch runs on one thread.

    Each of these threads runs torch on as many threads as the process has set for torch, so their number is the number
    of cores divided by it: threads do not multiply, and torch's setting is not touched. `work` must write to places of
    its own, so that the result does not depend on the number of threads.
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
