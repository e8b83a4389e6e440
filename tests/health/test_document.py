"""One member's ARM: numbers from the observation, verdicts beside them, null where nothing is defined."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core.decoder.config import DecoderConfig
from core.errors import ObservationError
from core.health.band import Band
from core.health.diagnosis import diagnose_arm
from core.health.document import arm_document
from core.health.observation import Observation
from core.health.statistics import ContributionStatistics
from tests.support import ROW, observe_one

GAIN = np.array([[1.0, 2.0], [3.0, 4.0]])


def statistics(branch: str, site: int, **changes: Any) -> ContributionStatistics:
    values = {part: np.array([1.0, 2.0, 3.0, 4.0]) for part in ("raw_rms", "contribution_rms", "stream_rms")}
    fields = {**values, "cosine": np.array([0.5, np.nan, -0.25, 0.0]), "owns_gain": True, "gain": None, **changes}
    return ContributionStatistics(site=site, block=0, branch=branch, **fields)


def four_members(**changes: Any) -> Observation:
    """Four members, three sites; ratios of member m are (1, 2 + m, 200) and (0.001, m + 1, 1)."""
    member = np.arange(4.0)
    activation = np.stack([np.ones(4), 2 + member, np.full(4, 200.0)], axis=1) * 0.5
    adjoint = np.stack([np.full(4, 0.001), member + 1, np.ones(4)], axis=1) * 4
    fields = {
        "labels": ["input", "block.0.after_attention", "block.0.after_feed_forward"],
        "activation_rms": activation,
        "adjoint_rms": adjoint,
        "loss_nats": 5 + member,
        "valid_positions": 7,
        "width": 2,
        "contributions": [statistics("attention", 1), statistics("feed_forward", 2)],
        "owns_final_gain": True,
    }
    return Observation(**{**fields, **changes})


def test_a_member_reads_its_own_numbers() -> None:
    document = arm_document(four_members(), 2)
    assert document["loss_nats"] == 7.0
    assert (document["input_activation_rms"], document["terminal_adjoint_rms"]) == (0.5, 4.0)
    assert (document["valid_positions"], document["loss_reduction"]) == (7, "mean over valid targets")
    assert [site["activation_ratio"] for site in document["sites"]] == [1.0, 4.0, 200.0]
    assert [site["adjoint_ratio"] for site in document["sites"]] == [0.001, 3.0, 1.0]
    assert [site["activation_band"] for site in document["sites"]] == ["within", "within", "above"]
    assert [site["adjoint_band"] for site in document["sites"]] == ["below", "within", "within"]
    assert document["contributions"][1]["raw_rms"] == 3.0
    assert document["contributions"][1]["cosine"] == -0.25
    json.dumps(document, allow_nan=False)


def test_the_band_given_is_the_band_judged_by() -> None:
    assert not arm_document(four_members(), 0)["within_band"]
    assert arm_document(four_members(), 0, Band(0.001, 200.0))["within_band"]
    assert not arm_document(four_members(), 0, Band(0.001, math.nextafter(200.0, 0)))["within_band"]


def test_an_undefined_cosine_is_null_and_counted() -> None:
    found = [arm_document(four_members(), member) for member in range(4)]
    assert [document["undefined"] for document in found] == [0, 2, 0, 0]
    assert found[1]["contributions"][0]["cosine"] is None
    assert found[3]["contributions"][0]["cosine"] == 0.0


def test_a_zero_stream_has_no_ratio_to_it() -> None:
    part = statistics("attention", 1, stream_rms=np.zeros(4), raw_rms=np.full(4, np.inf))
    row = arm_document(four_members(contributions=[part]), 0)["contributions"][0]
    assert row["contribution_to_stream"] is None
    assert row["stream_rms"] == 0.0
    assert row["raw_rms"] is None


def test_branches_take_the_raw_output_and_their_own_gain() -> None:
    parts = [statistics("attention", 1, gain=GAIN), statistics("feed_forward", 2, owns_gain=False)]
    for member, gain in enumerate([[1.0, 2.0], [1.0, 2.0], [3.0, 4.0], [3.0, 4.0]]):
        document = arm_document(four_members(contributions=parts, final_gain=GAIN[:1]), member)
        assert document["branches"] == [
            {
                "block": 0,
                "attention_output_rms": member + 1.0,
                "attention_norm_gain": gain,
                "feed_forward_output_rms": member + 1.0,
                "feed_forward_norm_gain": None,
            }
        ]
        assert document["final_norm_gain"] == [1.0, 2.0]


def test_gains_at_their_start_are_ones_and_absent_ones_null() -> None:
    document = arm_document(four_members(), 0)
    assert document["final_norm_gain"] == document["branches"][0]["attention_norm_gain"] == [1.0, 1.0]
    assert arm_document(four_members(owns_final_gain=False), 0)["final_norm_gain"] is None


def test_a_member_without_ratios_is_refused_and_the_others_are_not() -> None:
    observation = four_members()
    broken = observation.activation_rms.copy()
    broken[1, 2], broken[2, 0] = np.nan, 0.0
    observation = replace(observation, activation_rms=broken)
    with pytest.raises(ObservationError, match=r"activation at site 2 \(block.0.after_feed_forward\)"):
        arm_document(observation, 1)
    with pytest.raises(ObservationError, match=r"site 0 \(input\) is 0"):
        arm_document(observation, 2)
    assert arm_document(observation, 0)["loss_nats"] == 5.0


class Counted(np.ndarray):
    """An array that counts the numbers that divisions of it yield."""

    divided = 0

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [np.asarray(value) for value in inputs]
        found = getattr(ufunc, method)(*plain, **options)
        if ufunc is np.true_divide:
            Counted.divided += np.size(found)
        return found


@pytest.mark.parametrize("sites", [3, 4097])
def test_each_ratio_is_computed_once(sites: int) -> None:
    rms = np.ones((1, sites)).view(Counted)
    observation = Observation(
        labels=[str(site) for site in range(sites)],
        activation_rms=rms,
        adjoint_rms=rms,
        loss_nats=np.ones(1),
        valid_positions=1,
        width=1,
    )
    Counted.divided = 0
    arm_document(observation, 0)
    assert Counted.divided == 2 * sites


def test_a_document_takes_calls_in_proportion_to_its_depth() -> None:
    """Calls of the second half of a depth are as many as of the first, to within what does not grow at all."""

    def calls(blocks: int) -> int:
        observation = observe_one(DecoderConfig(blocks=blocks), "depth-scaled", 1, ROW, tokens=True)
        counted = 0

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal counted
            counted += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            arm = arm_document(observation, 0)
            diagnose_arm(arm, "x", (0.01, 100.0))
        finally:
            sys.setprofile(None)
        return counted

    few, more, most = (calls(blocks) for blocks in (16, 32, 64))
    assert most - more == pytest.approx(2 * (more - few), rel=0.1)
