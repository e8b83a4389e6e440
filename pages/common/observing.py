"""The process of a long observation: it reads a pickled `ObserveRequest` from standard input.

It writes the `observe` document, or the error, pickled to standard output. `pages.common.jobs` runs it as `python -m
pages.common.observing`. It uses one core and stores nothing.
"""

import pickle
import sys
from typing import Any

from core.errors import DepthscopeError
from core.health.report import observe_document

if __name__ == "__main__":
    answer: dict[str, Any] | DepthscopeError
    try:
        answer = observe_document(pickle.load(sys.stdin.buffer))
    except DepthscopeError as error:
        answer = error
    pickle.dump(answer, sys.stdout.buffer)
