"""Audit one class of every architecture of the installed transformers library, with a small configuration.

    python -m tests.benchmarks.architectures [--out FILE.json] [--seconds 60] [--workers 2] [TYPE ...]

Prints how many were built, run and proved, and the causes for the others. A child process with limits holds each class.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import signal
import sys
import time
from collections import Counter
from typing import Any

import torch

from core.audit import audit
from core.audit.intake.examples import example_inputs
from core.audit.intake.family import family_settings
from core.audit.intake.hub import built_config, built_model, library, model_class_of
from core.audit.request import architectures
from core.audit.sandbox.confine import confine
from core.audit.sandbox.tasks import special_ids
from core.errors import first_line

BYTES, PARAMETERS, BLOCKS = 3 * 2**30, 2**26, 2


def row_of(family: str) -> dict[str, Any]:
    row: dict[str, Any] = {"family": family, "class": architectures()[family], "state": "not built", "reason": ""}
    try:
        model_class = model_class_of(family)
        config = built_config(model_class.config_class, family_settings(family, BLOCKS))
        model = built_model(model_class, config, seed=0, max_parameters=PARAMETERS)
        row["state"] = "not run"
        inputs = example_inputs(model, config.to_dict(), special_ids(config.to_dict()))
        row["inputs"] = sorted(inputs)
        row["state"] = "error"
        document = audit(model, inputs).document()
        row |= {"state": document["identity"]["verdict"], "reason": document["identity"]["reason"] or ""}
        row |= {"streams": [(s["name"], s["blocks"], s["additions"], s["width"]) for s in document["streams"]]}
        row |= {"not_judged": document["not_judged"], "health": document["health"] is not None}
    except Exception as error:
        row["reason"] = f"{type(error).__name__}: {first_line(error)}"[:300]
    return row


def serve(family: str, sink: int, seconds: int) -> None:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    signal.alarm(seconds)
    confine(BYTES, seconds)
    with os.fdopen(sink, "wb") as stream:
        stream.write(json.dumps(row_of(family)).encode())


def rows_of(families: list[str], workers: int, seconds: int) -> list[dict[str, Any]]:
    waiting, running, rows = list(reversed(families)), dict[int, tuple[str, int, float, list[bytes]]](), []
    while waiting or running:
        while waiting and len(running) < workers:
            family = waiting.pop()
            source, sink = os.pipe()
            process = os.fork()
            if process == 0:
                try:
                    os.close(source)
                    serve(family, sink, seconds)
                finally:
                    os._exit(0)
            os.close(sink)
            running[source] = family, process, time.monotonic(), []
        for pipe in select.select(list(running), [], [], 1.0)[0]:
            family, process, began, pieces = running[pipe]
            if piece := os.read(pipe, 2**16):
                pieces.append(piece)
                continue
            del running[pipe]
            os.close(pipe)
            os.waitpid(process, 0)
            lost = {"family": family, "class": architectures()[family], "state": "killed", "reason": "time or memory"}
            row = json.loads(b"".join(pieces)) if pieces else lost
            rows.append({**row, "seconds": round(time.monotonic() - began, 1)})
            print(f"{row['state']:10} {row['class']:44} {row['reason'][:110]}", file=sys.stderr, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("types", nargs="*")
    parser.add_argument("--out")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(1)
    library()
    began = time.monotonic()
    rows = rows_of(given.types or list(architectures()), given.workers, given.seconds)
    if given.out:
        with open(given.out, "w", encoding="utf-8") as stream:
            json.dump(rows, stream, indent=1)
    states = Counter(row["state"] for row in rows)
    print(f"{len(rows)} classes in {time.monotonic() - began:.0f} s: {dict(states.most_common())}")
    causes = Counter(re.sub(r"[\d.]+|'[^']*'", "#", row["reason"])[:90] for row in rows if row["state"] != "proved")
    for cause, count in causes.most_common(40):
        print(f"{count:4} {cause}")


if __name__ == "__main__":
    main()
