"""Damaged stores end in the tables of the whole store, or in a refusal of one sentence; in nothing else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.benchmarks.store_corruption import FAULTS, KINDS, MENDED, REFUSED, SAME, outcomes


@pytest.mark.parametrize(("count", "processes"), [(45, 1), pytest.param(500, 10, marks=pytest.mark.heavy)])
def test_no_damage_is_silent_or_ends_in_an_internal_error(tmp_path: Path, count: int, processes: int) -> None:
    found = list(outcomes(tmp_path, count, processes))
    assert [told for told in found if told[1] in FAULTS] == []
    assert Counter(outcome for _, outcome, _ in found).keys() == {SAME, MENDED, REFUSED}
    assert {kind for kind, _, _ in found} == set(KINDS)
