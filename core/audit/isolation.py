"""Run an audit task in a child process of its own, with limits of memory and time, and bring back its document."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import core.errors
from core.audit.confine import DEFAULT_MEMORY, DEFAULT_SECONDS, child_environment
from core.errors import BuildError, DepthscopeError

Task = Mapping[str, Any]
Document = dict[str, Any]


def run_isolated(
    task: Task, *, memory: int = DEFAULT_MEMORY, seconds: int = DEFAULT_SECONDS, threads: int | None = None
) -> Document:
    """What `core.audit.tasks.run_task` returns for `task`, from a child that is gone when this returns.

    Raises the child's own refusal, or `BuildError` where it passed its limits or died.
    """
    command = [sys.executable, "-m", "core.audit.worker"]
    message = json.dumps({"task": dict(task), "memory": memory, "seconds": seconds})
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=child_environment(threads or os.cpu_count() or 1),
        start_new_session=True,
    ) as child:
        try:
            output, _ = child.communicate(message.encode(), timeout=seconds)
        except subprocess.TimeoutExpired as error:
            _end(child)
            raise BuildError(
                f"The model was not built and audited within {seconds} seconds; make it smaller or use --shrink."
            ) from error
        except BaseException:
            _end(child)
            raise
    return answer(output, child.returncode, memory)


def answer(output: bytes, status: int, memory: int) -> Document:
    """The document in a child's output, or the refusal it wrote; raises `BuildError` where it wrote neither."""
    try:
        reply = json.loads(output)
    except ValueError as error:
        raise BuildError(died(status, memory)) from error
    if "document" in reply:
        document: Document = reply["document"]
        return document
    kind = getattr(core.errors, str(reply.get("kind")), BuildError)
    simple = isinstance(kind, type) and issubclass(kind, DepthscopeError) and kind.__init__ is ValueError.__init__
    raise (kind if simple else BuildError)(str(reply.get("sentence")))


def died(status: int, memory: int) -> str:
    """One sentence for a child that ended without an answer."""
    if status in (-signal.SIGXCPU, -signal.SIGALRM):
        return "The model used up its time; make it smaller or use --shrink."
    name = signal.Signals(-status).name if status < 0 else f"status {status}"
    return (
        f"The process that built the model ended ({name}), most likely for want of memory within "
        f"{memory // 2**20:,} MiB; make the model smaller or use --shrink."
    )


def _end(child: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (OSError, AttributeError):
        child.kill()
    child.wait()
