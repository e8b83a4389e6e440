"""The verdict says what leaves the band, where and by how much."""

from __future__ import annotations

import math
from typing import Any

import pytest

from core.decoder.config import DecoderConfig
from core.health.diagnosis import comparison, diagnose, diagnose_arm, diagnose_control
from core.health.report import observe_document
from core.health.request import ObserveRequest


def arm(activation: list[float], adjoint: list[float], band: tuple[float, float] = (0.01, 100.0)) -> dict[str, Any]:
    def place(ratio: float) -> str:
        return "below" if ratio < band[0] else "above" if ratio > band[1] else "within"

    return {
        "sites": [
            {
                "site": site,
                "label": f"site-{site}",
                "activation_ratio": a,
                "activation_band": place(a),
                "adjoint_ratio": g,
                "adjoint_band": place(g),
            }
            for site, (a, g) in enumerate(zip(activation, adjoint, strict=True))
        ]
    }


def test_a_healthy_arm_is_told_with_its_largest_ratios() -> None:
    verdict = diagnose_arm(arm([1, 3, 2], [5, 2, 1]), "depth-scaled", (0.01, 100.0))
    assert verdict.within
    assert verdict.headline == "Every ratio of the depth-scaled arm lies within the band [0.01, 100]."
    assert verdict.sentences == (
        "The largest activation ratio is 3, at site 1 (site-1).",
        "The largest adjoint ratio is 5, at site 0 (site-0).",
    )


def test_both_ends_of_the_band_belong_to_it() -> None:
    assert diagnose_arm(arm([1, 100.0], [0.01, 1]), "x", (0.01, 100.0)).within


def test_what_is_off_is_told_with_site_count_and_excess_worst_first() -> None:
    verdict = diagnose_arm(arm([1, 101, 150, 120], [0.001, 1, 1, 1]), "unscaled", (0.01, 100.0))
    assert not verdict.within
    assert verdict.headline == "The unscaled arm leaves the band [0.01, 100] in its adjoint and activation ratios."
    assert verdict.sentences == (
        "The adjoint ratio leaves the band at 1 site, below its lower limit 0.01: 0.001 at site 0 (site-0), 10 times "
        "beyond.",
        "The activation ratio leaves the band at 3 sites, above its upper limit 100: 150 at site 2 (site-2), 1.5 times "
        "beyond; the first is site 1 (site-1).",
    )
    assert [finding.excess for finding in verdict.findings] == pytest.approx([10, 1.5])


def test_one_quantity_can_leave_the_band_on_both_sides() -> None:
    verdict = diagnose_arm(arm([1, 1000, 1e-4], [1, 1, 1]), "x", (0.01, 100.0))
    assert {(finding.quantity, finding.side) for finding in verdict.findings} == {
        ("activation", "above"),
        ("activation", "below"),
    }


def test_thirty_two_narrow_blocks_need_the_scaling() -> None:
    document = observe_document(ObserveRequest(config=DecoderConfig(blocks=32)))
    assert diagnose(document).within
    control = diagnose_control(document)
    assert [finding.quantity for finding in control.findings] == ["adjoint"]
    ratios = [site["adjoint_ratio"] for site in document["same_base_unscaled_control"]["sites"]]
    assert control.findings[0].ratio == max(ratios)
    assert control.findings[0].worst == ratios.index(max(ratios))
    assert "smaller" in comparison(document)


def test_one_block_equals_its_control() -> None:
    document = observe_document(ObserveRequest(config=DecoderConfig(blocks=1)))
    assert "the same largest activation ratio and the same largest adjoint ratio" in comparison(document)


def test_a_ratio_next_to_its_limit_is_not_shown_as_the_limit() -> None:
    ratio = math.nextafter(100.0, 200.0)
    (sentence,) = diagnose_arm(arm([1, ratio], [1, 1]), "x", (0.01, 100.0)).sentences
    assert sentence == (
        f"The activation ratio leaves the band at 1 site, above its upper limit 100: {ratio!r} at site 1 (site-1), "
        "just beyond."
    )


def test_the_limits_are_those_that_were_judged_by() -> None:
    verdict = diagnose_arm(arm([1, 4], [1, 1], (0.123456789, 3.00000001)), "x", (0.123456789, 3.00000001))
    assert "[0.123456789, 3.00000001]" in verdict.headline
    assert "upper limit 3.00000001" in verdict.sentences[0]
    assert verdict.verdict == (verdict.headline, *verdict.sentences)
