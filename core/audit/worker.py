"""The child's own program: read one task from standard input, run it within limits, write its stages and one reply.

Standard output belongs to these lines of JSON; whatever a library prints goes nowhere.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

from core.errors import BuildError, DepthscopeError


def reply_to(task: dict[str, Any], memory: int, seconds: int, stage: Callable[[str], None]) -> dict[str, Any]:
    """The document, or the refusal as its kind and sentence; never an exception."""
    stage("library")
    from core.audit.tasks import run_task

    try:
        return {"document": run_task(task, memory=memory, seconds=seconds, stage=stage)}
    except DepthscopeError as error:
        return {"kind": type(error).__name__, "sentence": _named(str(error), task)}
    except MemoryError:
        return {"kind": BuildError.__name__, "sentence": _memory(memory)}
    except Exception as error:
        lines = [line.strip() for line in _named(str(error), task).splitlines() if line.strip()]
        if "allocate memory" in str(error) or "not enough memory" in str(error):
            return {"kind": BuildError.__name__, "sentence": _memory(memory)}
        text = f"{type(error).__name__}: {lines[-1][:200] if lines else ''}".rstrip(": .")
        return {"kind": BuildError.__name__, "sentence": f"The model cannot be built: {text}."}


def _named(text: str, task: dict[str, Any]) -> str:
    """What a library says of a file, with the name of the folder that people know in the place of where it lies."""
    folder = task.get("folder")
    return text.replace(folder, task["source"]) if folder else text


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
    with os.fdopen(channel, "w", encoding="utf-8") as stream:

        def write(line: dict[str, Any]) -> None:
            stream.write(json.dumps(line, allow_nan=False) + "\n")
            stream.flush()

        reply = reply_to(message["task"], message["memory"], message["seconds"], lambda name: write({"stage": name}))
        write({**reply, "seconds": time.process_time()})


if __name__ == "__main__":
    main()
