"""What help costs: `python -m tests.benchmarks.help_time [--repeats N]`.

The least processor time of a process, user and system, that shows a verb's help, beside a bare interpreter and one that
imports click alone. On an idle core every verb should stay within 0.4 s.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from core.cli import VERBS

LIMIT = 0.4
COMMANDS = {
    "(python)": ["-c", "pass"],
    "(import click)": ["-c", "import click"],
    "(no verb)": ["-m", "core", "--help"],
    **{verb: ["-m", "core", verb, "--help"] for verb in VERBS},
}


def processor_seconds(arguments: list[str]) -> float:
    """User and system time of one process."""
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, arguments
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Print a row a verb and how many exceed the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    slow = 0
    print(f"{'help of':<18}{'processor s':>12}")
    for name, arguments in COMMANDS.items():
        seconds = min(processor_seconds(arguments) for _ in range(repeats))
        slow += seconds > LIMIT
        print(f"{name:<18}{seconds:>12.3f}")
    print(f"{slow} above {LIMIT} s")


if __name__ == "__main__":
    main()
