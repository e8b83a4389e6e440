"""The verdict over seeds beside a plain computation from its definition, seed by seed, in Python's own numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from core.decoder.base_draw import Distribution
from core.decoder.config import DecoderConfig
from core.errors import ObservationError
from core.health.band import Band, classify
from core.health.request import ObserveRequest
from core.health.seeds import SeedArm, observe_seeds
from core.health.sites import first_block_site
from core.health.verdict import STATES, Verdict, verdict_of, wilson
from core.health.verdict_words import verdict_sentences, verdict_text
from core.recipes.catalogue import RUNNABLE, recipe
from tests.support import refused

SEEDS = range(6)
# Laws on weights and graphs of several kinds.
SEVERAL = ("depth-scaled", "gpt2", "unscaled", "post-norm", "deepnorm", "rezero")
BANDS = (Band(), Band(0.05, 20), Band(0.5, 30), Band(0.6, 1.9), Band(2.0, 3.0))
# In which a seed of infinite weights stands among sound ones.
MIXED = [[1.0, 8.0, 4.0, 90.0], [1.0, math.inf, 1.0, 1.0], [1.0, 0.02, 0.04, 0.5], [1.0, 2.0, 300.0, 7.0]]


def quantile(values: list[float], level: float) -> float:
    """Between the two order statistics around level * (n - 1), in proportion."""
    ordered = sorted(values)
    place = level * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def state_of(seeds: list[list[float]], out: list[bool], band: Band) -> tuple[str, list[float], list[float]]:
    """State, margins and worst factors of seeds, each given by all of its ratios."""
    sound = [ratios for ratios, gone in zip(seeds, out, strict=True) if not gone]
    margins = [min(min(math.log2(r / band.lower), math.log2(band.upper / r)) for r in ratios) for ratios in sound]
    factors = [max(max(r, 1 / r) for r in ratios) for ratios in sound]
    within, spare = (sum(margin >= least for margin in margins) / len(seeds) for least in (0, 1))
    if not sound:
        return "refused", margins, factors
    return "inside" if spare >= 0.95 else "outside" if within < 0.5 else "close", margins, factors


def plain_verdict(activation: Any, adjoint: Any, out: list[bool], first: int, band: Band) -> dict[str, Any]:
    """Every key of the contract from ratios `[seed][site]`."""
    source = [[*a, *g] for a, g in zip(activation, adjoint, strict=True)]
    state, margins, factors = state_of(source, out, band)
    depth_state, medians = None, {"activation": None, "adjoint": None}
    if first < len(activation[0]) - 1:
        stream = [[r / a[first] for r in a[first:]] for a in activation]
        back = [list(g[first:]) for g in adjoint]
        depth_state, _, _ = state_of([[*a, *g] for a, g in zip(stream, back, strict=True)], out, band)
        for name, ratios in (("activation", stream), ("adjoint", back)):
            worst = state_of(ratios, out, band)[2]
            medians[name] = quantile(worst, 0.5) if worst else None
    worse = depth_state is not None and STATES.index(state) > STATES.index(depth_state)
    levels = {"q05": 0.05, "median": 0.5, "q95": 0.95}
    return {
        "state": state,
        "depth_state": depth_state,
        "cause": "input" if worse else "depth" if state != "inside" else None,
        "seeds": len(out),
        "refused": sum(out),
        "share_within": sum(margin >= 0 for margin in margins) / len(out),
        "share_within_by_2": sum(margin >= 1 for margin in margins) / len(out),
        "margin": {name: quantile(margins, level) if margins else None for name, level in levels.items()},
        "worst_factor": {name: quantile(factors, level) if factors else None for name, level in levels.items()},
        "depth_factor": medians,
    }


def near(value: float | None) -> Any:
    return value if value is None else pytest.approx(value, rel=1e-12, abs=1e-12)


def assert_equal(verdict: Verdict, plain: dict[str, Any]) -> None:
    """Counts, shares and states exactly; quantiles to 1e-12."""
    found = verdict.document()
    for name, value in plain.items():
        if isinstance(value, dict):
            assert found[name] == {key: near(one) for key, one in value.items()}, name
        else:
            assert found[name] == value, name


def plain_of(arm: SeedArm, band: Band) -> dict[str, Any]:
    """The plain verdict on what an arm observed, ratios taken anew from RMS."""
    out = [row in arm.reasons for row in range(len(arm.seeds))]
    activation = [[a / row[0] for a in row] for row in arm.activation_rms.tolist()]
    adjoint = [[g / row[-1] for g in row] for row in arm.adjoint_rms.tolist()]
    additions = [label for label in arm.labels if label.startswith("block.0.")]
    return plain_verdict(activation, adjoint, out, len(additions), band)


@pytest.mark.parametrize(
    ("blocks", "names"),
    [
        (1, RUNNABLE), (2, RUNNABLE), (8, SEVERAL), (32, SEVERAL[:3]), (64, SEVERAL[:3]),
        *(pytest.param(blocks, RUNNABLE, marks=pytest.mark.heavy) for blocks in (8, 32, 64)),
    ],
)  # fmt: skip
def test_every_recipe_of_the_narrow_decoders_has_the_plain_verdict(blocks: int, names: Sequence[str]) -> None:
    config = DecoderConfig(blocks=blocks)
    names = [name for name in names if recipe(name).refused(config) is None]
    for arm in observe_seeds(ObserveRequest(config=config, recipe=names[0]), SEEDS, names):
        for band in BANDS:
            verdict = verdict_of(*arm.ratios, arm.first_block, refused=arm.refused, band=band)
            assert_equal(verdict, plain_of(arm, band))


def test_the_cases_meet_every_state_and_cause() -> None:
    """What the comparison above and below would say nothing of, it would not have met."""
    found = [verdict_of(*pair, 1, band=band) for band in BANDS for pair in ratio_pairs()]
    assert {verdict.state for verdict in found} == set(STATES)
    assert {verdict.cause for verdict in found} == {"input", "depth", None}


def ratio_pairs() -> list[tuple[np.ndarray, np.ndarray]]:
    calm = np.array([[1.0, 1.5, 2.0, 3.0]] * 4)
    far = np.array([[1.0, 700.0, 900.0, 1000.0]] * 4)
    steep = np.array([[1.0, 2.0, 40.0, 900.0]] * 4)
    lost = np.full((4, 4), np.nan)
    return [(a, calm[:, ::-1]) for a in (calm, far, steep, lost, np.array(MIXED))]


@pytest.mark.parametrize("band", BANDS, ids=str)
@pytest.mark.parametrize("first", [1, 2, 3])
def test_refused_seeds_count_as_outside(band: Band, first: int) -> None:
    activation, adjoint = np.array(MIXED), np.array(MIXED[2:] + MIXED[:2])[:, ::-1].copy()
    mask = np.array([False, False, True, False])
    # A ratio that is not finite refuses its seed, whether or not the mask says so.
    out = [bool(gone or not np.isfinite([*a, *g]).all()) for a, g, gone in zip(activation, adjoint, mask, strict=True)]
    plain = plain_verdict(*(np.where(np.isfinite(x), x, 1.0).tolist() for x in (activation, adjoint)), out, first, band)
    assert_equal(verdict_of(activation, adjoint, first, refused=mask, band=band), plain)
    assert plain["refused"] == 3


def test_where_every_seed_is_refused_nothing_is_said_but_that() -> None:
    ratios = np.full((5, 9), np.nan)
    verdict = verdict_of(ratios, ratios, 2)
    assert (verdict.state, verdict.depth_state, verdict.seeds, verdict.refused) == ("refused", "refused", 5, 5)
    assert (verdict.share_within, verdict.interval[0]) == (0.0, 0.0)
    assert verdict.document()["margin"] == {"q05": None, "median": None, "q95": None}
    assert verdict_sentences(verdict) == ["Refused: none of 5 seeds has finite ratios."]


@pytest.mark.parametrize("seeds", [1, 2, 3, 7, 19, 20, 21])
def test_shares_decide_at_their_thresholds(seeds: int) -> None:
    """Whole numbers of seeds: inside from 95 % by 2 on, outside below one half."""
    for spare in range(seeds + 1):
        for within in range(spare, seeds + 1):
            far = [2.0] * spare + [60.0] * (within - spare) + [101.0] * (seeds - within)
            ratios = np.array([[1.0, 1.0, value] for value in far])
            inside, outside = 20 * spare >= 19 * seeds, 2 * within < seeds
            expected = "inside" if inside else "outside" if outside else "close"
            assert verdict_of(ratios, np.ones_like(ratios), 1).state == expected


POSITIVE = st.floats(min_value=1e-300, max_value=1e300)


@given(ratio=POSITIVE, lower=st.floats(min_value=1e-3, max_value=1.0), upper=st.floats(min_value=1.0, max_value=1e3))
def test_a_margin_is_not_negative_exactly_within_the_band(ratio: float, lower: float, upper: float) -> None:
    band = Band(lower, upper)
    for value in (ratio, lower, upper, math.nextafter(lower, 0), math.nextafter(upper, math.inf)):
        assert (band.margin(value) >= 0) == (classify(value, band) == "within")


@given(ratios=st.lists(POSITIVE, min_size=3, max_size=9), lower=st.floats(0.01, 1.0), upper=st.floats(1.0, 100.0))
def test_a_band_too_narrow_for_by_2_is_never_inside_and_says_so(
    ratios: list[float], lower: float, upper: float
) -> None:
    values = np.array([[1.0, *ratios]])
    verdict = verdict_of(values, values[:, ::-1], 1, band=Band(lower, upper))
    possible = verdict.thresholds.by_2_possible
    assert possible == (verdict_of(np.ones((1, 3)), np.ones((1, 3)), 1, band=Band(lower, upper)).state == "inside")
    if not possible:
        assert verdict.state != "inside"
        assert any("none is inside" in sentence for sentence in verdict_sentences(verdict))


@pytest.mark.parametrize("trials", [1, 2, 7, 32, 1000])
def test_the_interval_is_wilsons(trials: int) -> None:
    for successes in {0, 1, trials // 3, trials - 1, trials}:
        theirs = binomtest(successes, trials).proportion_ci(0.95, method="wilson")
        assert wilson(successes, trials) == pytest.approx((theirs.low, theirs.high), rel=1e-12, abs=1e-15)


def test_the_input_and_the_depth_are_told_apart() -> None:
    """A small embedding is the input's doing, however deep; with the depth's own growth it is not."""
    request = ObserveRequest(
        config=DecoderConfig(blocks=4), recipe="gpt2", distribution=Distribution(embedding_std=1e-4)
    )
    (arm,) = observe_seeds(request, range(16), ["gpt2"])
    verdict = arm.verdict
    assert (verdict.state, verdict.depth_state, verdict.cause) == ("outside", "inside", "input")
    text = " ".join(verdict_sentences(verdict))
    assert "embedding std 0.0001" in text
    assert "over 3 blocks" in text
    begin, end = verdict.input_ratio.activation, verdict.depth_ratio.activation
    assert begin == np.median(arm.activation_ratio[:, arm.first_block])
    assert end == np.median(arm.activation_ratio[:, -1] / arm.activation_ratio[:, arm.first_block])


@pytest.mark.parametrize("labels", [["input"], ["input", "block.3.after_parallel", "block.4.after_parallel"]])
def test_the_first_block_ends_where_its_number_does(labels: list[str]) -> None:
    assert first_block_site(labels) == len(labels[:2]) - 1


def test_a_verdict_survives_its_document_and_shows_itself() -> None:
    (arm,) = observe_seeds(ObserveRequest(), SEEDS, ["gpt2"])
    again = Verdict.from_document(arm.verdict.document())
    assert again == arm.verdict
    assert str(again) == repr(again) == verdict_text(again)
    assert str(again).startswith("Inside the band: 6 of 6 seeds of gpt2 keep every ratio within [0.01, 100], 6 of")
    assert "<strong>Inside the band:" in again._repr_html_()
    assert all(len(line) <= 100 for line in str(again).splitlines())


def test_a_name_in_a_notebook_is_text() -> None:
    from core.health.verdict import Subject

    verdict = verdict_of(np.ones((1, 3)), np.ones((1, 3)), 1, subject=Subject(name="<b>x</b>", blocks=1))
    assert "<b>x" not in verdict._repr_html_()


@pytest.mark.parametrize(
    ("shape", "other", "first"), [((2, 3), (2, 4), 1), ((0, 3), (0, 3), 1), ((2, 3), (2, 3), 3), ((3,), (3,), 1)]
)
def test_ratios_that_do_not_belong_together_are_refused(shape: Any, other: Any, first: int) -> None:
    with pytest.raises(ObservationError):
        verdict_of(np.ones(shape), np.ones(other), first)
    assert refused(lambda: verdict_of(np.ones((2, 3)), np.ones((2, 3)), 1)) is None
