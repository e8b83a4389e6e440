"""Exports of real processes that meet a limit on file sizes or `kill -9`: the old file, or the new one, whole.

`python -m tests.benchmarks.torn_exports` puts every export through more of the same, and through a full disk.
"""

from __future__ import annotations

import pytest

from tests.benchmarks.torn_exports import CASES, Case, examine

QUICK = ("lab --csv",)


@pytest.mark.parametrize(
    ("case", "kills"),
    [
        pytest.param(case, 2 if case.name in QUICK else 6, marks=() if case.name in QUICK else pytest.mark.heavy)
        for case in CASES
    ],
    ids=[case.name for case in CASES],
)
def test_an_export_is_the_old_one_or_the_new_one(case: Case, kills: int) -> None:
    assert examine(case, kills, disk=False) == []
