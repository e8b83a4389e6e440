"""The process of a long observation: a pickled request on standard input, its document or refusal on standard output.

Run as `python -m pages.common.observing` by `pages.common.jobs`, one core, nothing kept.
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
