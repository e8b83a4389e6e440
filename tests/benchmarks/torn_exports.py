"""Every export of every verb, in real processes that meet a full disk, a limit on file sizes, or `kill -9`.

Run `python -m tests.benchmarks.torn_exports [--kills N] [--only NAME]`. The document is printed before the exports
begin, so a process is killed a random time after its first byte of output, within what an undisturbed export takes.
After each fault every output must be the old one or the new one, byte for byte; after every third kill the command
is run again and must give the new ones.
A full disk is a tmpfs, which only root may mount.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from core.files import SETTLED_SECONDS, is_room
from core.sweep.output import LOCK

ROOT = Path(__file__).parents[2]
SURVEY = """
import sys
from core.audit.survey_table import shipped_survey
from core.command.survey import write_survey
rows, manifest = shipped_survey()
print("computed", flush=True)
write_survey(sys.argv[2], rows[: int(sys.argv[1])], manifest["versions"])
"""
CLI = (sys.executable, "-m", "core")
OBSERVE = (*CLI, "observe", "--blocks", "8", "--width", "32", "--heads", "2", "--seed")
AUDIT = (*CLI, "audit", "tests.audit.drawn:gpt2_model", "--rule", "gpt2", "--sigma")
LAB = (*CLI, "lab", "norm-jacobian", "--epsilon")
SWEEP = (*CLI, "sweep", "--seeds", "0:8", "--workers", "1", "--blocks")
Files = dict[str, bytes]
PAGE = 4096


@dataclass(frozen=True)
class Case:
    """One export: the command without it and with the value that makes it the old or the new one, and its option.

    `sealed` names the file without which the others are no export, as a record is for weights.
    """

    name: str
    command: Sequence[str]
    old: str
    new: str
    option: str
    folder: bool
    sealed: str | None = None

    def arguments(self, value: str, place: Path) -> list[str]:
        """The command that writes to `place`."""
        store = ["--store", str(place.parent.parent / "cells.sqlite")] if self.option == "--out" else []
        return [*self.command, value, *store, *([self.option] if self.option else []), str(place / "out")]


CASES = [
    Case("observe --html", OBSERVE, "1", "2", "--html", False),
    Case("observe --csv", OBSERVE, "1", "2", "--csv", True),
    Case("observe --save", OBSERVE, "1", "2", "--save", True, "record.json"),
    Case("audit --html", AUDIT, "0.02", "0.04", "--html", False),
    Case("audit --csv", AUDIT, "0.02", "0.04", "--csv", True),
    Case("audit --junit", AUDIT, "0.02", "0.04", "--junit", False),
    Case("audit --sarif", AUDIT, "0.02", "0.04", "--sarif", False),
    Case("audit --golden", AUDIT, "", "0.04", "--golden", False),
    Case("lab --html", LAB, "1", "2", "--html", False),
    Case("lab --csv", LAB, "1", "2", "--csv", True),
    Case("sweep --out", SWEEP, "1,2", "2,4", "--out", True, "manifest.json"),
    Case("survey --out", (sys.executable, "-c", SURVEY), "20", "40", "", True, "manifest.json"),
]


def run(arguments: Sequence[str], limit: int | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with a limit on the size of any file where one is given."""

    def limited() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

    return subprocess.run(
        arguments, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False, preexec_fn=limited
    )


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def contents(place: Path) -> Files:
    """The export's files as they stand; places aside, and the lock that a killed sweep leaves, are none of them."""
    out = place / "out"
    if out.is_file():
        return {"": out.read_bytes()}
    found = {p.name: p.read_bytes() for p in sorted(out.iterdir()) if p.is_file()} if out.is_dir() else {}
    return {name: data for name, data in found.items() if name != LOCK}


def rooms(place: Path) -> list[Path]:
    """Places aside that are left, in the folder of the export and above it."""
    return [path for path in place.rglob("*") if is_room(path.name)]


class Bench:
    """The old and the new export of a case, made once by undisturbed runs, and what faults may leave of them."""

    def __init__(self, case: Case, home: Path) -> None:
        self.case, self.home = case, home
        self.old = self._made(case.old, home / "reference" / "old") if case.old else {}
        self.new = self._made(case.new, home / "reference" / "new")
        assert self.old != self.new

    def _made(self, value: str, place: Path) -> Files:
        place.mkdir(parents=True)
        done = run(self.case.arguments(value, place))
        assert done.returncode == 0, done.stderr
        assert rooms(place) == []
        return contents(place)

    def restored(self, place: Path) -> None:
        """Put the old export to `place`, and nothing else."""
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        for name, data in self.old.items():
            path = place / "out" / name if self.case.folder else place / "out"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)

    def state(self, place: Path) -> str:
        """`old`, `new`, `parted` where the seal is off and every file is whole, else a `torn` one."""
        found = contents(place)
        if found in (self.old, self.new):
            return "new" if found == self.new else "old"
        others = {name: data for name, data in found.items() if name != self.case.sealed}
        whole = all(data in (self.old.get(name), self.new.get(name)) for name, data in others.items())
        if whole and self.case.sealed is not None and self._is_marked(found):
            return "parted"
        return "torn"

    def _is_marked(self, found: Files) -> bool:
        """A set without its seal, or, for a sweep, with the manifest that says it is unfinished."""
        assert self.case.sealed is not None
        return self.case.sealed not in found or b'"unfinished"' in found[self.case.sealed]

    def refused(self, place: Path, limit: int | None = None) -> str:
        """What a run that cannot write leaves; it must say so in one sentence and have printed its document."""
        done = run(self.case.arguments(self.case.new, place), limit)
        told = [line for line in done.stderr.splitlines() if "cannot be" in line]
        if self.case.name.startswith("survey"):
            told, status = told[-1:], 2 if done.returncode == 1 else done.returncode
        else:
            status = done.returncode
        ended = status == 2 and len(told) == 1 and (bool(done.stdout) or self.case.name.startswith("sweep"))
        state = self.state(place)
        if rooms(place) or not ended:
            return f"wrong: exit {done.returncode}, {state}, rooms {rooms(place)}, {done.stderr[-300:]}"
        return state

    def limited(self, share: float) -> str:
        """A limit on file sizes at a share of the largest new file, as `ulimit -f` sets."""
        place = self.home / "limited"
        self.restored(place)
        return self.refused(place, max(1, int(share * max(map(len, self.new.values())))))

    def full(self, share: float) -> str:
        """A disk with room for the old export and a share of the new one."""
        place = self.home / "disk" / "place"
        old, new = (sum(-(-len(data) // PAGE) for data in files.values()) for files in (self.old, self.new))
        with tmpfs(place.parent, PAGE * max(1, old + int(share * new))):
            self.restored(place)
            return self.refused(place)

    def killed(self, moments: random.Random, usual: float, *, again: bool) -> str:
        """Killed at a random moment of its export, looked at, and run again where that is asked for."""
        place = self.home / "killed"
        self.restored(place)
        process = subprocess.Popen(
            self.case.arguments(self.case.new, place),
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        begin(self.case, process)
        # Most of the time between is the process's own end, so most moments lie early.
        time.sleep(usual * moments.random() ** (1 if self.case.name.startswith("sweep") else 3))
        process.kill()
        process.communicate()
        state = self.state(place)
        # A golden file that is there is compared with and not written again.
        if not again or (self.case.name == "audit --golden" and state == "new"):
            return state
        for room in rooms(place):
            os.utime(room, (time.time() - 2 * SETTLED_SECONDS,) * 2)
        done = run(self.case.arguments(self.case.new, place))
        if done.returncode or self.state(place) != "new" or rooms(place):
            return f"wrong: again exit {done.returncode}, {self.state(place)}, {rooms(place)}, {done.stderr[-300:]}"
        return state

    def usual(self) -> float:
        """Seconds from the first byte of output, or for a sweep from its start, to the end."""
        place = self.home / "usual"
        self.restored(place)
        process = subprocess.Popen(
            self.case.arguments(self.case.new, place),
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        begin(self.case, process)
        began = time.perf_counter()
        process.communicate()
        return time.perf_counter() - began


def begin(case: Case, process: subprocess.Popen[bytes]) -> None:
    """Wait until the export begins; a sweep prints last, so it is its folder's first manifest or the start."""
    if case.name.startswith("sweep"):
        return
    assert process.stdout is not None
    assert process.stdout.read(1)


@contextmanager
def tmpfs(place: Path, size: int) -> Iterator[None]:
    """A disk of `size` bytes."""
    place.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


def examine(case: Case, kills: int, *, disk: bool) -> list[str]:
    """Put one export through every fault; what went wrong."""
    home = Path(tempfile.mkdtemp(prefix="torn-"))
    try:
        bench = Bench(case, home)
        found: dict[str, Counter[str]] = {"limit": Counter(bench.limited(share) for share in (0.0, 0.5, 0.95))}
        if disk:
            found["full disk"] = Counter(bench.full(share) for share in (0.0, 0.5, 0.9))
        moments, usual = random.Random(5), bench.usual()
        found["kill -9"] = Counter(bench.killed(moments, usual, again=index % 3 == 0) for index in range(kills))
    finally:
        shutil.rmtree(home, ignore_errors=True)
    print(f"{case.name:<16}" + "; ".join(f"{fault}: {dict(states)}" for fault, states in found.items()), flush=True)
    allowed = {"limit": {"old", "parted"}, "full disk": {"old", "parted"}, "kill -9": {"old", "new", "parted"}}
    if not case.name.startswith("sweep"):
        allowed["limit"] = allowed["full disk"] = {"old"}
    return [f"{case.name}, {fault}: {s}" for fault, states in found.items() for s in states if s not in allowed[fault]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--only", default="")
    chosen = parser.parse_args()
    wrong = [
        problem
        for case in CASES
        if chosen.only in case.name
        for problem in examine(case, chosen.kills, disk=os.geteuid() == 0)
    ]
    print("\n".join(wrong) or "Every output was old or new, whole.")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
