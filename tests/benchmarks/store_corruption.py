"""What a sweep makes of damaged stores: the tables of the whole store, or a refusal in one sentence, nothing else.

Run `python -m tests.benchmarks.store_corruption [--count 500] [--processes 10] [--seed 0]`. Every corruption is made in
a copy of the same finished store, which the same sweep then reads; the first ones run in separate processes.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sqlite3
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from core.sweep.cells import COLUMNS
from tests.support import run_cli
from tests.sweep.support import files, sweep

# Two depths, one of them in several pages, and a recipe that refuses some cells by their numbers.
GRID = ("--blocks", "1,6", "--seeds", "0:24", "--recipe", "gpt2")
REFUSING = ("--blocks", "2", "--seeds", "0:6", "--dtype", "float32", "--base-std", "1e30")
SAME, MENDED, REFUSED = "same tables", "same tables, cells computed anew", "refused in one sentence"
DIFFERENT, INTERNAL, TRACEBACK, WORDY = "different tables", "internal error", "traceback", "refused in other words"
FAULTS = (DIFFERENT, INTERNAL, TRACEBACK, WORDY)
Corruption = Callable[[Path, random.Random], None]


@dataclass(frozen=True)
class Case:
    """A grid, its finished store and the files it gives."""

    grid: tuple[str, ...]
    store: Path
    expected: dict[str, bytes]


def flips(count: int) -> Corruption:
    """Flip `count` bits anywhere in the file."""

    def corrupt(path: Path, chance: random.Random) -> None:
        data = bytearray(path.read_bytes())
        for _ in range(count):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)

    return corrupt


def truncate(path: Path, chance: random.Random) -> None:
    """Cut off the end: a byte, some bytes or pages."""
    size = path.stat().st_size
    lost = chance.choice(
        [1, chance.randrange(1, 4096), 4096 * chance.randrange(1, size // 4096), chance.randrange(size)]
    )
    with open(path, "r+b") as stream:
        stream.truncate(size - lost)


def append(path: Path, chance: random.Random) -> None:
    """Bytes of no meaning at the end."""
    with open(path, "ab") as stream:
        stream.write(chance.randbytes(chance.choice([1, 100, 4096, 5000])))


def overwrite(path: Path, chance: random.Random) -> None:
    """A run of bytes of something else."""
    data = bytearray(path.read_bytes())
    start, size = chance.randrange(len(data)), chance.choice([8, 100, 4096])
    data[start : start + size] = chance.choice([bytes(size), b"\xff" * size, chance.randbytes(size)])
    path.write_bytes(data[: max(start, path.stat().st_size)])


def edit(path: Path, chance: random.Random) -> None:
    """An SQL edit of one column of one or of all rows."""
    column = chance.choice(COLUMNS)
    changes = {
        "numbers": ("substr(numbers, 1, 16)", "substr(numbers, 1, 13)", "x''", "zeroblob(length(numbers))",
                    "x'000000000000f07f' || substr(numbers, 9)", "x'000000000000f87f' || substr(numbers, 9)",
                    "substr(numbers, 9) || substr(numbers, 1, 8)", "cast(numbers as text)", "1", "'text'"),
        "key": ("substr(key, 2) || x'00'", "randomblob(32)", "x''"),
        "digest": ("randomblob(32)", "x''", "zeroblob(32)", "'text'", "7"),
        "status": ("'refused'", "'observed'", "''", "x'ff'", "3"),
        "reason": ("'A reason.'", "''", "x'fffe'", "' ' || reason", "5"),
        "blocks": ("blocks + 1", "'many'", "x'00'", "2.5"),
        "seed": ("'7'", "seed || '0'", "x'80'", "7"),
        "recipe": ("'unscaled'", "recipe || ' '", "x'c3'", "0"),
    }[column]  # fmt: skip
    where = chance.choice(["", " WHERE rowid = (SELECT min(rowid) FROM cells)", " WHERE rowid % 3 = 0"])
    _execute(path, f"UPDATE OR IGNORE cells SET {column} = {chance.choice(changes)}{where}")


def swap(path: Path, chance: random.Random) -> None:
    """The contents of two rows under each other's keys, or one column of theirs."""
    columns = chance.choice([list(COLUMNS[1:]), ["numbers"], ["numbers", "digest"], ["status", "reason", "digest"]])
    with sqlite3.connect(path) as connection:
        rows = [row for (row,) in connection.execute("SELECT rowid FROM cells")]
        first, second = chance.sample(rows, 2)
        query = f"SELECT {', '.join(columns)} FROM cells WHERE rowid = ?"
        values = [connection.execute(query, (row,)).fetchone() for row in (first, second)]
        setting = ", ".join(f"{column} = ?" for column in columns)
        for row, value in ((first, values[1]), (second, values[0])):
            connection.execute(f"UPDATE cells SET {setting} WHERE rowid = ?", (*value, row))
    connection.close()


def drop(path: Path, chance: random.Random) -> None:
    """Rows, the table or the marks of a store gone or changed."""
    _execute(
        path,
        chance.choice([
            "DELETE FROM cells WHERE rowid % 2", "DROP TABLE cells", "ALTER TABLE cells RENAME TO others",
            "ALTER TABLE cells RENAME COLUMN numbers TO figures", "ALTER TABLE cells DROP COLUMN digest",
            "PRAGMA user_version = 1", "PRAGMA user_version = 3", "PRAGMA application_id = 5",
            "CREATE TABLE other (name TEXT)", "PRAGMA journal_mode = WAL",
        ]),
    )  # fmt: skip


KINDS: dict[str, Corruption] = {
    "1 bit": flips(1), "4 bits": flips(4), "64 bits": flips(64), "truncated": truncate, "appended": append,
    "overwritten": overwrite, "edited": edit, "swapped": swap, "dropped": drop,
}  # fmt: skip


def finished_cases(folder: Path) -> list[Case]:
    """The grids with their undamaged stores and files, in `folder`."""
    cases = []
    for number, grid in enumerate((GRID, REFUSING)):
        store, out = folder / f"{number}.sqlite", folder / f"whole-{number}"
        outcome = run_cli("sweep", *grid, "--store", store, "--out", out)
        assert outcome.status == 0, outcome.err
        cases.append(Case(grid, store, files(out)))
    return cases


def outcomes(folder: Path, count: int, processes: int = 0, seed: int = 0) -> Iterator[tuple[str, str, str]]:
    """Kind of every corruption, what came of it, and the standard error; the first `processes` in their own process."""
    cases, chance = finished_cases(folder), random.Random(seed)
    for number in range(count):
        kind = list(KINDS)[number % len(KINDS)]
        case = cases[0] if number % 5 else cases[1]
        place = folder / "damaged"
        place.mkdir()
        shutil.copy(case.store, place / "cells.sqlite")
        KINDS[kind](place / "cells.sqlite", chance)
        arguments = (*case.grid, "--store", place / "cells.sqlite", "--out", place / "out")
        yield (kind, *_outcome(case, arguments, place / "out", own_process=number < processes))
        shutil.rmtree(place)


def _outcome(case: Case, arguments: tuple[object, ...], out: Path, own_process: bool) -> tuple[str, str]:
    try:
        if own_process:
            done = sweep(*arguments)
            status, err = done.returncode, done.stderr
        else:
            told = run_cli("sweep", *arguments)
            status, err = told.status, told.err
    except BaseException:
        return TRACEBACK, traceback.format_exc()
    if "Traceback" in err:
        return TRACEBACK, err
    if "internal error" in err:
        return INTERNAL, err
    if status == 0:
        if files(out) != case.expected:
            return DIFFERENT, err
        return (MENDED if "computed anew" in err else SAME), err
    sentence = err.splitlines()[-1] if err else ""
    plain = status == 2 and "cells.sqlite" in sentence and sentence.count(". ") == 0 and "space" not in sentence
    return (REFUSED if plain else WORDY), err


def _execute(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(statement)
    connection.close()


def main() -> int:
    """Print the counts by kind; exit 1 where a fault was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--processes", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    counts: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind, outcome, err in outcomes(Path(folder), given.count, given.processes, given.seed):
            counts.setdefault(kind, Counter())[outcome] += 1
            if outcome in FAULTS:
                print(f"{kind}: {outcome}: {err}")
    for kind, found in counts.items():
        print(f"{kind:<12}", ", ".join(f"{number} {outcome}" for outcome, number in found.most_common()))
    total = sum(counts.values(), Counter[str]())
    print(
        f"{total.total()} corruptions:", ", ".join(f"{total[name]} {name}" for name in (SAME, MENDED, REFUSED, *FAULTS))
    )
    return 1 if any(total[fault] for fault in FAULTS) else 0


if __name__ == "__main__":
    sys.exit(main())
