"""The child process: read one task from standard input, run it within limits, write its stages and one reply.

Each line of its standard output is JSON: a stage that begins or, last, the reply. What a library prints is discarded;
what the user's own code prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ...errors import (
    AuditError,
    DepthscopeError,
    InternalError,
    Remedy,
    first_line,
    internal_sentence,
    no_memory,
    raised_by_core,
    shown,
)
from .confine import limit_memory

OWN = "callable"
DEBUGGER = "pdb.Pdb"


def reply_to(task: dict[str, Any], memory: int | None, seconds: int, stage: Callable[[str], None]) -> dict[str, Any]:
    """Run the task and return the reply: its document, or the error's class, sentence and remedies. Never raises.

    `stage(name)` is called as each stage begins. `memory` is in bytes, None for no limit.
    """
    if task["kind"] != OWN:
        stage("library")
    try:
        from ..true_size.task import run_by_driver

        return {"document": run_by_driver(task, memory=memory, seconds=seconds, stage=stage)}
    except DepthscopeError as error:
        refusal = error
    except BaseException as error:
        # What is no Exception (a script that exits, an interrupt that it raises itself) is the model's own doing.
        refusal = _unforeseen(error, task, memory)
    return {"kind": type(refusal).__name__, "sentence": _named(refusal.sentence, task), "ways": refusal.ways}


def _named(text: str, task: dict[str, Any]) -> str:
    """Return the text with the path of the task's folder replaced by the name that the user gave it."""
    folder = task.get("folder")
    return text.replace(folder, task["source"]) if folder else text


def _unforeseen(error: BaseException, task: dict[str, Any], memory: int | None) -> AuditError:
    if no_memory(error):
        return _short(memory)
    if not isinstance(error, Exception):
        return AuditError(
            f"The code of {shown(task['source'])} ended the audit ({first_line(error)}); let it only build and run."
        )
    if isinstance(error, OSError) and "folder" in task:
        return AuditError(f"A file of {shown(task['source'])} cannot be read ({first_line(error)}); save it again.")
    if task["kind"] == OWN and not raised_by_core(error):
        return AuditError(
            f"The audit of {shown(task['source'])} fails outside the model's forward ({first_line(error)}); where the "
            "model runs by itself, please report it."
        )
    return InternalError(internal_sentence(error, "please report it with the model"))


def _short(memory: int | None) -> AuditError:
    if memory is None:
        return AuditError("This machine's memory does not hold that model; make it smaller.")
    return AuditError(
        f"The model needs more than the {memory // 2**20:,} MiB it is allowed", "make it smaller", Remedy.SMALL_WIDTHS
    )


def main() -> None:
    """Read one task from standard input, run it, write the reply and exit."""
    message = json.loads(sys.stdin.buffer.read())
    task, memory = message["task"], message["memory"]
    channel = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    if task["kind"] == OWN:
        os.dup2(2, 1)
        _let_own_code_in(message["path"], memory)
    else:
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
    warnings.simplefilter("ignore")
    own_process = os.getpid()

    def write(line: dict[str, Any]) -> None:
        if os.getpid() != own_process:
            # The user's code forked; the process that it was called in answers alone.
            os._exit(0)
        try:
            channel.write(_line(line).encode() + b"\n")
            channel.flush()
        except OSError:
            # The caller is gone, or the user's code closed what it did not open.
            os._exit(1)

    reply = reply_to(task, memory, message["seconds"], lambda name: write({"stage": name}))
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    write({**reply, "seconds": time.process_time()})
    # The user's threads may still run, and there is nothing to tidy up.
    os._exit(0)


def _line(reply: dict[str, Any]) -> str:
    try:
        return json.dumps(reply, allow_nan=False)
    except (TypeError, ValueError) as error:
        sentence = internal_sentence(error, "please report it with the model")
        return json.dumps({"kind": InternalError.__name__, "sentence": sentence})


def _let_own_code_in(path: list[str], memory: int | None) -> None:
    """Prepare for the user's own code: the caller's search path, no debugger (no terminal), the memory limit."""
    sys.path[:] = path
    sys.addaudithook(_refuse_debugger)
    if memory is not None:
        limit_memory(memory)


def _refuse_debugger(event: str, arguments: tuple[Any, ...]) -> None:
    if event == DEBUGGER:
        raise AuditError("The model's code opens a debugger, which has no terminal in an audit; remove the breakpoint.")


if __name__ == "__main__":
    main()
