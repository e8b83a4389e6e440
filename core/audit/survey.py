"""Audit every family of the installed transformers at small size and two depths, each in a bounded child process.

The libraries are imported once and one child per family is forked, so that no family pays for the import again. A
family that cannot be built, proved or finished in time is a row with its reason.
"""

from __future__ import annotations

import json
import math
import os
import select
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ..errors import AuditError, DepthscopeError
from .request import families as known_families
from .sandbox.confine import check_limits, confine
from .sandbox.isolation import died

DEPTHS = (2, 4)
COLUMNS = (
    "family", "class", "built", "identity", "worst_relative_error", "writers", "rule", "blocks_shallow", "blocks_deep",
    "ratio_shallow", "ratio_deep", "kind", "seconds", "reason",
)  # fmt: skip
FAMILY_BYTES, FAMILY_SECONDS = 2 * 2**30, 60
MAX_PARAMETERS = 2**27
VERDICTS = ("failed", "partial", "proved")
Row = dict[str, Any]


@dataclass
class _Child:
    family: str
    process: int
    pipe: int
    started: float
    output: bytes = b""


def survey(
    families: Sequence[str], *, workers: int = 2, seconds: int = FAMILY_SECONDS, memory: int = FAMILY_BYTES
) -> Iterator[Row]:
    """Audit each family in a child process and yield its row, a dict with the keys `COLUMNS`, as they finish.

    `workers` is the number of children at a time; `seconds` and `memory` (bytes) limit each. Raises `AuditError` for
    limits out of range, and on a system that cannot fork.
    """
    check_limits(memory, seconds)
    if not hasattr(os, "fork"):
        raise AuditError("The survey forks one process per family, which this system cannot; run it on Linux or macOS.")
    _preload()
    waiting, running = list(reversed(families)), dict[int, _Child]()
    try:
        while waiting or running:
            while waiting and len(running) < max(1, workers):
                child = _start(waiting.pop(), seconds, memory)
                running[child.pipe] = child
            yield from _finished(running, seconds, memory)
    finally:
        for child in running.values():
            _end(child)


def survey_row(family: str) -> Row:
    """Build and audit one family at both depths, in this process, and return its row of `COLUMNS`.

    Nothing is raised: any failure becomes the `reason` of the row.
    """
    from .intake.shrink import VOCABULARY
    from .run import audit
    from .sandbox.tasks import special_ids
    from .trace.inputs import random_batch

    row = empty_row(family, known_families().get(family, ""))
    outcomes: list[Row] = []
    try:
        for depth in DEPTHS:
            model = _built(family, depth)
            row["built"] = True
            settings = model.config.to_dict()
            result = audit(model, random_batch(VOCABULARY, 0, avoid=special_ids(settings)))
            outcomes.append(_outcome(result.document()))
            if depth == DEPTHS[0]:
                row |= _judged(family, result, settings)
    except Exception as error:
        row["reason"] = reason_of(error)
    if outcomes:
        row |= _joined(outcomes, row["reason"])
    return row


def _built(family: str, blocks: int) -> Any:
    from .intake.family import family_settings
    from .intake.hub import built_config, built_model, model_class_of

    model_class = model_class_of(family)
    config = built_config(model_class.config_class, family_settings(family, blocks))
    return built_model(model_class, config, seed=0, max_parameters=MAX_PARAMETERS)


def _judged(family: str, result: Any, settings: Row) -> Row:
    """Return the columns `rule` (None where no rule is met) and `kind`, judged at the audited depth and at twice it.

    Empty where the family cannot be judged.
    """
    from .initialization.judge import judge
    from .initialization.rebuild import Rebuilder

    source = Rebuilder(build=lambda blocks: _built(family, blocks or DEPTHS[0]), deep=True, settings=settings)
    try:
        judgement = judge(result, source=source, with_twin=False)
    except DepthscopeError:
        return {}
    return {"rule": judgement.rule, "kind": judgement.verdict}


def empty_row(family: str, class_name: str) -> Row:
    """Return the row of a family before its audit.

    `family` and `class` are set, `built` is False, `reason` is the empty string; all others are None.
    """
    return {**dict.fromkeys(COLUMNS), "family": family, "class": class_name, "built": False, "reason": ""}


def reason_of(error: BaseException) -> str:
    """Return the reason for `error` as text on one line, without a traceback."""
    cause = error if isinstance(error, DepthscopeError) else error.__cause__ or error
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    text = " ".join(lines)[:300] or type(cause).__name__
    return text if isinstance(error, DepthscopeError) else f"{type(cause).__name__}: {text}"


def _outcome(document: Row) -> Row:
    return {
        "identity": document["identity"]["verdict"],
        "error": document["identity"]["worst_relative_error"],
        "reason": document["identity"]["reason"] or "",
        "writers": len(document["writers"]),
        "blocks": document["model"]["blocks"],
        "ratio": _spread(document["writers"], document["readers"]),
    }


def _spread(writers: Sequence[Row], readers: Sequence[Row]) -> float | None:
    """Return the pooled standard deviation of the writers over that of the readers.

    None where either is 0 or has no rows.
    """
    pooled = []
    for rows in (writers, readers):
        squares = [row["std"] ** 2 for row in rows]
        pooled.append(math.sqrt(sum(squares) / len(squares)) if squares else 0.0)
    return pooled[0] / pooled[1] if all(pooled) else None


def _joined(outcomes: Sequence[Row], failure: str) -> Row:
    """Join the outcomes of both depths into one row: the worse verdict, the larger error, the first reason."""
    errors = [outcome["error"] for outcome in outcomes if outcome["error"] is not None]
    worst = min((outcome["identity"] for outcome in outcomes), key=VERDICTS.index)
    deep = outcomes[-1] if len(outcomes) == len(DEPTHS) else {}
    return {
        "identity": "partial" if failure and worst == "proved" else worst,
        "worst_relative_error": max(errors, default=None),
        "writers": outcomes[-1]["writers"],
        "blocks_shallow": outcomes[0]["blocks"],
        "blocks_deep": deep.get("blocks"),
        "ratio_shallow": outcomes[0]["ratio"],
        "ratio_deep": deep.get("ratio"),
        "reason": failure or next((outcome["reason"] for outcome in outcomes if outcome["reason"]), ""),
    }


def _preload() -> None:
    """Import in the parent what every child needs. Nothing is computed, so that forking stays safe."""
    import torch

    from .intake.hub import library

    torch.set_num_threads(1)
    transformers = library()
    for name in ("LlamaForCausalLM", "GPT2LMHeadModel", "MixtralForCausalLM", "MambaForCausalLM", "BertLMHeadModel"):
        getattr(transformers, name, None)
    import_module(".sandbox.tasks", __package__)


def _start(family: str, seconds: int, memory: int) -> _Child:
    source, sink = os.pipe()
    process = os.fork()
    if process == 0:
        status = 1
        try:
            os.close(source)
            _serve(family, sink, seconds, memory)
            status = 0
        finally:
            os._exit(status)
    os.close(sink)
    return _Child(family, process, source, time.monotonic())


def _serve(family: str, sink: int, seconds: int, memory: int) -> None:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(seconds)
    confine(memory, seconds)
    with os.fdopen(sink, "wb") as stream:
        stream.write(json.dumps(survey_row(family)).encode())


def _finished(running: dict[int, _Child], seconds: int, memory: int) -> Iterator[Row]:
    for pipe in select.select(list(running), [], [], 1.0)[0]:
        child = running[pipe]
        piece = os.read(pipe, 2**16)
        if piece:
            child.output += piece
            continue
        del running[pipe]
        os.close(pipe)
        _, status = os.waitpid(child.process, 0)
        yield _row_of(child, os.waitstatus_to_exitcode(status), seconds, memory)


def _row_of(child: _Child, status: int, seconds: int, memory: int) -> Row:
    elapsed = round(time.monotonic() - child.started, 2)
    try:
        row: Row = json.loads(child.output)
    except ValueError:
        row = empty_row(child.family, known_families().get(child.family, ""))
        late = status in (-signal.SIGALRM, -signal.SIGXCPU)
        row["reason"] = f"Not finished within {seconds} seconds." if late else str(died(status, memory))
    return {**row, "seconds": elapsed}


def _end(child: _Child) -> None:
    try:
        os.kill(child.process, signal.SIGKILL)
        os.waitpid(child.process, 0)
        os.close(child.pipe)
    except OSError:
        pass
