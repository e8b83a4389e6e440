"""Results may change only together with the number of the engine, which stands in every cell's key."""

from __future__ import annotations

import json

import numpy as np
import pytest

from core import canonical
from core.canonical import ENGINE, engine_version
from core.health.arms import Arm
from core.sweep import engine
from core.sweep.results import split_numbers
from tests.sweep.golden_cells import PLACE, RUNNABLE, computed, differences


def test_the_sample_is_what_this_engine_number_has_always_given() -> None:
    golden = json.loads(PLACE.read_text())
    assert golden["engine"] == ENGINE, "write the sample of the new number: python -m tests.sweep.golden_cells"
    assert differences(golden["cells"], computed()) == [], "results changed: raise core.canonical.ENGINE"


def test_the_sample_spreads_over_what_a_sweep_can_vary() -> None:
    cells = json.loads(PLACE.read_text())["cells"]
    assert {cell["recipe"] for cell in cells} >= set(RUNNABLE)
    assert {cell["dtype"] for cell in cells} == {"float64", "float32", "bfloat16"}
    assert {cell["status"] for cell in cells} == {"observed", "refused"}
    assert {cell["blocks"] for cell in cells} >= {1, 2, 3, 20}
    for cell in cells:
        assert bool(cell["reason"]) == (cell["status"] == "refused") == (not cell["numbers"])


def test_the_sample_notices_columns_in_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    original = engine._scalars

    def swapped(arm: Arm, seeds: int) -> object:
        values, reasons = original(arm, seeds)
        loss, activation, adjoint = split_numbers(values)
        return np.concatenate([loss[:, None], adjoint, activation], axis=1), reasons

    monkeypatch.setattr(engine, "_scalars", swapped)
    golden = json.loads(PLACE.read_text())["cells"]
    observed = sum(cell["status"] == "observed" for cell in golden)
    assert len(differences(golden, computed())) == observed


def test_the_identity_is_the_number_and_the_libraries_and_no_source_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def identity() -> str:
        engine_version.cache_clear()
        return engine_version()

    with monkeypatch.context() as patch:
        patch.setattr(canonical, "library_versions", lambda: {"torch": "2.0", "numpy": "2.1"})
        first = identity()
        patch.setattr(canonical, "library_versions", lambda: {"torch": "2.0", "numpy": "2.2"})
        second = identity()
        patch.setattr(canonical, "ENGINE", ENGINE + 1)
        third = identity()
    engine_version.cache_clear()
    assert first == f"engine-{ENGINE}/torch-2.0/numpy-2.1"
    assert len({first, second, third}) == 3
