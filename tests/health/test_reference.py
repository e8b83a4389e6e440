"""Ratios to other reference sites follow from the document's RMS values alone."""

from __future__ import annotations

from itertools import pairwise

import pytest

from core.errors import ConfigError
from core.health.reference import relative_rms
from core.health.report import observe_document
from core.health.request import ObserveRequest


def test_each_reference_divides_by_its_site() -> None:
    arm = observe_document(ObserveRequest())["initialized"]
    rms = [site["activation_rms"] for site in arm["sites"]]
    assert relative_rms(arm, "activation", "input") == [site["activation_ratio"] for site in arm["sites"]]
    assert relative_rms(arm, "activation", "first block") == [value / rms[2] for value in rms]
    assert relative_rms(arm, "activation", "previous site") == [
        None,
        *(b / a for a, b in pairwise(rms)),
    ]


def test_the_first_block_of_parallel_branches_ends_at_site_one() -> None:
    arm = observe_document(ObserveRequest(recipe="parallel"))["initialized"]
    assert relative_rms(arm, "adjoint", "first block")[1] == 1.0


def test_a_zero_reference_is_undefined_and_an_unknown_one_refused() -> None:
    arm = {"sites": [{"label": "input", "activation_rms": 0.0}, {"label": "block.0.x", "activation_rms": 2.0}]}
    assert relative_rms(arm, "activation", "input") == [None, None]
    with pytest.raises(ConfigError, match="is not one of input, first block, previous site"):
        relative_rms(arm, "activation", "last")  # type: ignore[arg-type]
