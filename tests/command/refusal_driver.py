"""Runs command lines from standard input in one process; prints what each left, and whether torch was imported."""

from __future__ import annotations

import contextlib
import io
import json
import sys

from core.cli import run


def main() -> None:
    outcomes = []
    for arguments in json.load(sys.stdin):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = run(arguments)
        heavy = sorted({"torch", "pandas", "transformers", "streamlit"} & set(sys.modules))
        outcomes.append({"status": status, "out": out.getvalue(), "err": err.getvalue(), "imported": heavy})
    json.dump(outcomes, sys.stdout)


if __name__ == "__main__":
    main()
