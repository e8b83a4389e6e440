"""Mending tries recipes of the same graph in their order on the same base draw and stops at the first that fits."""

from __future__ import annotations

import pytest

from core.decoder.config import DecoderConfig
from core.health.band import Band
from core.health.mend import applied, mend
from core.health.report import observe_document
from core.health.request import ObserveRequest
from core.health.suggestion import candidates
from core.recipes.catalogue import RECIPES, recipe

DEEP = ObserveRequest(config=DecoderConfig(blocks=32), recipe="unscaled")


def test_the_first_fit_in_listed_order_is_found_with_ratios_before_and_after() -> None:
    mending = mend(DEEP)
    assert mending.found is not None
    assert mending.found.recipe == "depth-scaled"
    before = observe_document(DEEP)["initialized"]
    after = observe_document(applied(DEEP, mending))["initialized"]
    assert not before["within_band"]
    assert after["within_band"]
    for trial, arm in ((mending.before, before), (mending.found, after)):
        assert trial.largest_adjoint_ratio == max(site["adjoint_ratio"] for site in arm["sites"])
        assert trial.largest_activation_ratio == max(site["activation_ratio"] for site in arm["sites"])


def test_nothing_after_the_first_fit_is_tried_and_everything_before_it_is_outside() -> None:
    narrow = ObserveRequest(config=DecoderConfig(blocks=32), recipe="unscaled", band=Band(0.01, 12))
    mending = mend(narrow)
    names = [trial.recipe for trial in mending.trials]
    assert names == [known.name for known in candidates("unscaled")][: len(names)]
    assert len(names) > 1
    assert [trial.within for trial in mending.trials] == [False] * (len(names) - 1) + [True]


def test_where_no_recipe_fits_the_answer_is_none_and_the_request_stays() -> None:
    hopeless = ObserveRequest(recipe="unscaled", band=Band(2.0, 3.0))
    mending = mend(hopeless)
    assert mending.found is None
    assert len(mending.trials) == len(candidates("unscaled"))
    assert applied(hopeless, mending) is hopeless


@pytest.mark.parametrize("name", ["unscaled", "post-norm", "rezero"])
def test_candidates_keep_the_graph(name: str) -> None:
    found = candidates(name)
    assert name not in [known.name for known in found]
    assert all(known.topology == recipe(name).topology for known in found)
    order = [known.name for known in RECIPES]
    assert [known.name for known in found] == sorted((known.name for known in found), key=order.index)
