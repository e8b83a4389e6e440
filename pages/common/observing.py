"""The process of a run at true size: it reads a pickled `ObserveRequest` and a folder from standard input.

It writes the run's state after every block, then the `observe` document or the error, each pickled to standard output.
`pages.common.true_runs` starts it as `python -m pages.common.observing`; what is finished stays in the folder.
"""

import os
import pickle
import sys
from typing import Any

from core.errors import DepthscopeError
from core.health.kept_run import kept_document
from core.health.run_watch import RunWatch

# The server's own work, which somebody waits for, goes first.
NICE = 10


def tell(message: Any) -> None:
    """Hand a message to the server; without one, there is nobody to go on for."""
    try:
        pickle.dump(message, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os._exit(1)


if __name__ == "__main__":
    os.nice(NICE)
    request, folder = pickle.load(sys.stdin.buffer)
    try:
        watch = RunWatch(request, tell)
        tell(kept_document(request, folder, seen=watch.seen, told=watch.told))
    except DepthscopeError as error:
        tell(error)
