"""The child's own program: read one task from standard input, run it within limits, write one reply.

Standard output belongs to the reply; whatever a library prints goes nowhere.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any

from core.errors import BuildError, DepthscopeError


def reply_to(task: dict[str, Any], memory: int, seconds: int) -> dict[str, Any]:
    """The document, or the refusal as its kind and sentence; never an exception."""
    from core.audit.tasks import run_task

    try:
        return {"document": run_task(task, memory=memory, seconds=seconds)}
    except DepthscopeError as error:
        return {"kind": type(error).__name__, "sentence": str(error)}
    except MemoryError:
        return {"kind": BuildError.__name__, "sentence": _memory(memory)}
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        if "allocate memory" in str(error) or "not enough memory" in str(error):
            return {"kind": BuildError.__name__, "sentence": _memory(memory)}
        text = f"{type(error).__name__}: {lines[-1][:200] if lines else ''}".rstrip(": .")
        return {"kind": BuildError.__name__, "sentence": f"The model cannot be built: {text}."}


def _memory(memory: int) -> str:
    return f"The model needs more than the {memory // 2**20:,} MiB it is allowed; make it smaller or use --shrink."


def main() -> None:
    """Serve one task."""
    message = json.loads(sys.stdin.buffer.read())
    channel = os.dup(1)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    warnings.simplefilter("ignore")
    reply = reply_to(message["task"], message["memory"], message["seconds"])
    with os.fdopen(channel, "wb") as stream:
        stream.write(json.dumps(reply, allow_nan=False).encode())


if __name__ == "__main__":
    main()
