"""Hostile calls of all verbs: `python -m tests.benchmarks.hostile --calls 9000 --seed 1 [--verbs plan ...]`.

Each call runs in a separate folder, in a fork of a process that has loaded the libraries; `--processes N` runs the
first N as true processes. What no call may do, whatever it is given, is in `broken`. Prints every kind of broken
promise with its shortest command line; `--report FILE` takes them all, `--only NUMBER --keep DIR` repeats one.
`--audits N` adds as many hostile audits, of `tests.benchmarks.hostile_audits`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

from core.cli import DONE, GATE_FAILED, REFUSED
from tests.benchmarks.hostile_calls import OUTPUTS, VERB_SHARES, calls
from tests.benchmarks.hostile_files import make_inputs
from tests.benchmarks.hostile_forks import ROOT, Call, Outcome, preload, run, state_of

PART = 20
SLOW_SECONDS = 5.0
LONGEST_SENTENCE = 600
# What a sweep tells while it works, beside the sentence of a refusal.
PROGRESS = re.compile(
    r"\s*$|[\d,]+ of [\d,]+ cells|Damaged cells of the store|Refused in every cell|--workers is \d+ where|Within the "
    r"|warning: "
)
HELP = ("-h", "--help", "--version")


@dataclass(frozen=True)
class Report:
    """One call and what it broke."""

    number: int
    arguments: list[str]
    status: int | None
    seconds: float
    broken: list[str]
    err: str

    def kinds(self) -> Iterator[str]:
        """What tells this fault from others: the verb, the promise, and the sentence without its numbers and names."""
        verb = self.arguments[0] if self.arguments and self.arguments[0] in VERB_SHARES else ""
        last = (self.err.strip().splitlines() or [""])[-1]
        for promise in self.broken:
            yield f"{verb}: {promise} | {re.sub(r'[0-9]+', '#', last)[:110]}"


def broken(call: Call, outcome: Outcome, before: dict[str, str], after: dict[str, str]) -> list[str]:
    """The promises of the command line that a call broke, none where it kept them all."""
    said = [*_ending(call, outcome), *_sentences(call, outcome), *_document(call, outcome)]
    return [*said, *_folder(call, outcome, before, after)]


def _ending(call: Call, outcome: Outcome) -> Iterator[str]:
    if outcome.status not in (DONE, GATE_FAILED, REFUSED):
        yield f"exit status {outcome.status}"
    if outcome.status == GATE_FAILED and not {"compare", "--gate"} & {*call.arguments}:
        yield "exit status 1 without a gate"
    if "Traceback (most recent" in outcome.err:
        yield "a traceback"
    if "internal error" in outcome.err.lower():
        yield "an internal error"


def _sentences(call: Call, outcome: Outcome) -> Iterator[str]:
    lines = [line for line in outcome.err.split("\n") if not PROGRESS.match(line)]
    if outcome.status != REFUSED:
        # A gate that fails says on standard error what is off.
        if lines and outcome.status == DONE:
            yield "words on standard error of a call that was done"
        return
    if len(lines) != 1:
        yield f"{len(lines)} sentences on standard error"
        return
    if not lines[0].endswith((".", "?")):
        yield "a sentence without an end"
    if len(lines[0]) > LONGEST_SENTENCE:
        yield "a sentence longer than a person reads"
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in lines[0]):
        yield "a control character in a sentence"


def _document(call: Call, outcome: Outcome) -> Iterator[str]:
    if outcome.status == REFUSED and outcome.out:
        yield "standard output of a refused call"
    if outcome.status not in (DONE, GATE_FAILED) or "--json" not in call.arguments or {*HELP} & {*call.arguments}:
        return
    try:
        json.loads(outcome.out.decode(), parse_constant=_no_literal, object_pairs_hook=_mapping)
    except ValueError as error:
        # A word after `--`, or the value of an option, asks for no document.
        words = call.arguments
        before = words[words.index("--json") - 1]
        if "--" not in words and ("=" in before or not before.startswith("--")):
            yield f"no strict JSON on standard output ({str(error)[:60]})"


def _no_literal(literal: str) -> NoReturn:
    raise ValueError(f"literal {literal}")


def _mapping(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a repeated key")
    return dict(pairs)


def _folder(call: Call, outcome: Outcome, before: dict[str, str], after: dict[str, str]) -> Iterator[str]:
    """Files that a refused call, or one without outputs, left or changed; and what it wrote aside and forgot."""
    stores = [call.arguments[i + 1] for i, word in enumerate(call.arguments[:-1]) if word == "--store"]
    stores += [word.removeprefix("--store=") for word in call.arguments if word.startswith("--store=")]
    # Finished cells are kept in the store whatever happens to the sweep.
    kept = tuple(f"work/{store.split('/')[0]}" for store in stores) or ("\0",)
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    changed = [name for name in changed if not name.startswith(kept)]
    writes = any(word.split("=")[0] in OUTPUTS for word in call.arguments)
    if changed and (outcome.status == REFUSED or not writes):
        yield f"left or changed {', '.join(changed)[:80]}"
    elif forgotten := [name for name in changed if name.endswith(".partial") and name not in before]:
        yield f"forgot {forgotten[0][:80]}"


def report_on(number: int, call: Call, *, forked: bool, keep: str | None = None) -> Report:
    """Run a call in a new folder and judge it."""
    with tempfile.TemporaryDirectory(prefix="hostile-") as name, tempfile.TemporaryDirectory(prefix="home-") as home:
        folder = Path(name, "work")
        folder.mkdir()
        call.prepare(folder)
        if keep is not None:
            shutil.copytree(folder, keep, symlinks=True, dirs_exist_ok=True)
        before = state_of(Path(name))
        outcome = run(call, folder, Path(home), forked=forked)
        found = broken(call, outcome, before, state_of(Path(name)))
    return Report(number, call.arguments, outcome.status, outcome.processor_seconds, found, outcome.err[-600:])


def _part(seed: int, numbers: Sequence[int], verbs: Sequence[str], processes: int) -> list[Report]:
    drawn = zip(numbers, calls(seed, numbers, verbs), strict=True)
    return [report_on(number, call, forked=number >= processes) for number, call in drawn]


def reports(seed: int, count: int, verbs: Sequence[str], processes: int, jobs: int) -> Iterator[Report]:
    """What every call came to, by parts, in several processes."""
    parts = [range(start, min(start + PART, count)) for start in range(0, count, PART)]
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("fork")) as pool:
        for future in as_completed([pool.submit(_part, seed, part, verbs, processes) for part in parts]):
            yield from future.result()


def summary(found: Sequence[Report]) -> str:
    """Counts, then each kind of fault with its number of calls and the shortest of them."""
    statuses = Counter(str(report.status) for report in found)
    verbs = Counter(report.arguments[0] if report.arguments else "" for report in found)
    kinds: dict[str, list[Report]] = defaultdict(list)
    for report in found:
        for kind in report.kinds():
            kinds[kind].append(report)
    faults = sum(bool(report.broken) for report in found)
    slow = sorted((report for report in found if report.seconds > SLOW_SECONDS), key=lambda r: -r.seconds)
    lines = [
        f"{len(found)} calls, {faults} broke a promise; statuses {dict(statuses.most_common())}",
        f"verbs { ({verb: verbs[verb] for verb in VERB_SHARES}) }",
        *(f"slow: {r.seconds:.1f} s, {r.number} {_typed(r)}" for r in slow[:10]),
    ]
    for kind, reports_of in sorted(kinds.items(), key=lambda item: -len(item[1])):
        shortest = min(reports_of, key=lambda report: len(" ".join(report.arguments)))
        lines += [f"{len(reports_of):>5}  {kind}", f"       {shortest.number} {_typed(shortest)}"]
    return "\n".join(lines).encode(errors="backslashreplace").decode()


def _typed(report: Report) -> str:
    words = [word if len(word) <= 70 else f"{word[:30]}...({len(word)})" for word in report.arguments]
    return shlex.join(words)[:400]


def main() -> int:
    """Draw, run and judge; 1 where a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=9000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbs", nargs="+", choices=[verb for verb in VERB_SHARES if verb])
    parser.add_argument("--processes", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--audits", type=int, default=0)
    parser.add_argument("--report")
    parser.add_argument("--only", type=int)
    parser.add_argument("--keep")
    options = parser.parse_args()
    verbs = options.verbs or list(VERB_SHARES)
    preload()
    make_inputs()
    if options.only is not None:
        (call,) = calls(options.seed, [options.only], verbs)
        found = [report_on(options.only, call, forked=options.only >= options.processes, keep=options.keep)]
        print(json.dumps(asdict(found[0]), indent=1))
    else:
        found = []
        with open(options.report or os.devnull, "w", buffering=1) as stream:
            for report in reports(options.seed, options.calls, verbs, options.processes, options.jobs):
                found.append(report)
                if report.broken:
                    print(json.dumps(asdict(report)), file=stream)
    print(summary(found), flush=True)
    failed = any(report.broken for report in found)
    if options.audits:
        words = ["-m", "tests.benchmarks.hostile_audits", str(options.audits), "--seed", str(options.seed)]
        failed |= subprocess.run([sys.executable, *words], cwd=ROOT, check=False).returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
