"""A suggestion ranks what was tried by share, then margin, over the same seeds, and says what is within their noise."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import quantile_test

from core.decoder.base_draw import Distribution
from core.decoder.config import DecoderConfig
from core.health.band import Band
from core.health.paired import Paired, paired
from core.health.request import ObserveRequest
from core.health.seeds import observe_seeds
from core.health.suggestion import FIRST_SEEDS, Suggestion, candidates, suggest
from core.health.suggestion_words import suggestion_sentences

SEEDS = range(12)
DEEP = ObserveRequest(config=DecoderConfig(blocks=48), recipe="gpt2")
SMALL_INPUT = ObserveRequest(
    config=DecoderConfig(blocks=4), recipe="gpt2", distribution=Distribution(embedding_std=1e-4)
)


@pytest.fixture(scope="module")
def deep() -> Suggestion:
    return suggest(DEEP, SEEDS)


def test_every_recipe_of_the_topology_is_tried_on_the_same_seeds_best_first(deep: Suggestion) -> None:
    assert deep.before.verdict.cause == "depth"
    assert {one.change.recipe for one in deep.candidates} == {known.name for known in candidates("gpt2")}
    ranks = []
    for one in deep.candidates:
        (arm,) = observe_seeds(replace(DEEP, recipe=one.change.recipe), one.arm.seeds, [one.change.recipe])
        assert one.arm.verdict.share_within == arm.verdict.share_within
        ranks.append((len(arm.seeds), arm.verdict.share_within, arm.verdict.margin.median))
        before = deep.before.margins[: len(arm.seeds)]
        assert one.difference.median == pytest.approx(np.median(arm.margins - before), rel=1e-9)
    assert ranks == sorted(ranks, reverse=True)
    assert {one.arm.seeds for one in deep.candidates} == {tuple(SEEDS), tuple(SEEDS[:FIRST_SEEDS])}


def test_who_falls_behind_on_the_first_seeds_is_behind_on_each(deep: Suggestion) -> None:
    adding = [one for one in deep.candidates if one.change.recipe != "zero-writer"]
    ahead = [one.arm.margins[:FIRST_SEEDS] for one in adding if one.arm.seeds == tuple(SEEDS)]
    left = [one.arm.margins for one in adding if one.arm.seeds != tuple(SEEDS)]
    assert ahead
    assert left
    for margins in left:
        assert any((margins < best).all() for best in ahead)
    assert deep.candidates[0].change.recipe == "zero-writer"
    assert not any(one.arm.seeds != tuple(SEEDS) for one in deep.tied)


@pytest.mark.parametrize(
    "request_",
    [
        DEEP, SMALL_INPUT, replace(DEEP, recipe="unscaled"), replace(DEEP, recipe="block-indexed", band=Band(0.1, 10)),
        ObserveRequest(
            config=DecoderConfig(blocks=12, width=16, heads=2, ff_width=40), recipe="unscaled",
            distribution=Distribution(0.02), band=Band(0.2, 5),
        ),
    ],
    ids=["deep", "small input", "unscaled", "narrow band", "normal"],
)  # fmt: skip
def test_the_best_is_that_of_all_candidates_on_all_seeds(
    request_: ObserveRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    raced = suggest(request_, SEEDS)
    monkeypatch.setattr("core.health.suggestion.FIRST_SEEDS", len(SEEDS))
    full = suggest(request_, SEEDS)
    assert {len(one.arm.seeds) for one in full.candidates} == {len(SEEDS)}
    assert raced.best is not None
    assert full.best is not None
    assert (raced.best.change, raced.best.rank) == (full.best.change, full.best.rank)
    assert [one.change for one in raced.tied] == [one.change for one in full.tied]
    assert suggestion_sentences(raced) == suggestion_sentences(full)


def test_the_sentences_say_shares_ratios_and_noise(deep: Suggestion) -> None:
    best = deep.best
    assert best is not None
    first, *rest = suggestion_sentences(deep)
    assert f"({best.change.recipe}) would bring {100 * best.arm.verdict.share_within:.0f} % of seeds inside" in first
    assert first.endswith("the difference is larger than the seeds' own spread.")
    # Branches that add nothing are the best by ratios alone, which is said beside the best of those that add.
    assert best.change.recipe == "zero-writer"
    assert any("Its branches begin by adding nothing" in sentence for sentence in rest)
    assert any("Of the others," in sentence for sentence in rest)


def test_applying_the_best_gives_its_verdict(deep: Suggestion) -> None:
    for request, suggestion in ((DEEP, deep), (SMALL_INPUT, suggest(SMALL_INPUT, SEEDS))):
        best = suggestion.best
        assert best is not None
        (arm,) = observe_seeds(best.change.applied(request), SEEDS, [best.change.recipe])
        assert arm.verdict.share_within == best.arm.verdict.share_within
        np.testing.assert_allclose(arm.margins, best.arm.margins, rtol=1e-9)


def test_where_the_input_is_at_fault_only_embeddings_are_named() -> None:
    suggestion = suggest(SMALL_INPUT, SEEDS)
    assert suggestion.before.verdict.cause == "input"
    assert {one.change.kind for one in suggestion.candidates} == {"embedding_std"}
    assert suggestion.best is not None
    first, second, third = suggestion_sentences(suggestion)
    assert first.startswith("Embeddings drawn with std ")
    assert "instead of 0.0001 would bring 100 % of seeds inside" in first
    assert "norm behind them" in second
    assert third.startswith("The head is tied to the embeddings")


def test_inside_nothing_is_tried() -> None:
    suggestion = suggest(replace(DEEP, recipe="rezero"), range(3))
    assert (suggestion.candidates, suggestion.best) == ((), None)
    assert suggestion_sentences(suggestion) == ["Nothing needs to change: the verdict is inside the band."]


def test_where_nothing_does_better_that_is_said() -> None:
    alone = suggest(replace(DEEP, recipe="post-norm", band=Band(0.9, 1.1)), range(3))
    assert suggestion_sentences(alone) == [
        "No other recipe has this topology; change the depth, the sizes or the topology."
    ]
    best_already = suggest(replace(DEEP, recipe="zero-writer", band=Band(0.9, 1.1)), range(3))
    assert (best_already.before.verdict.state, best_already.best) == ("close", None)
    (sentence,) = suggestion_sentences(best_already)
    assert sentence.startswith(f"None of {len(candidates('zero-writer'))} recipes of the same topology does better")


@pytest.mark.parametrize("seeds", [6, 7, 8, 20, 31, 64])
def test_the_interval_of_paired_differences_is_that_of_the_sign_test(seeds: int) -> None:
    rng = np.random.default_rng(seeds)
    after, before = rng.normal(0.5, 1.0, seeds), rng.normal(0.0, 1.0, seeds)
    ours = paired(after, before)
    theirs = quantile_test(after - before, q=0, p=0.5).confidence_interval(0.95)
    assert (ours.low, ours.high) == (theirs.low, theirs.high)
    assert ours.within_noise == (theirs.low <= 0 <= theirs.high)
    assert ours.median == np.median(after - before)


def test_few_seeds_exclude_nothing_and_refused_ones_count_by_sign() -> None:
    few = paired(np.arange(5) + 9.0, np.zeros(5))
    assert (few.low, few.high, few.within_noise) == (-math.inf, math.inf, True)
    assert few.document() == {"seeds": 5, "median": 11.0, "low": None, "high": None, "within_noise": True}
    lost = np.full(8, -np.inf)
    assert paired(lost, lost) == Paired(seeds=8, median=0.0, low=0.0, high=0.0)
    assert not paired(np.zeros(8), lost).within_noise
    assert paired(np.ones(3000), np.zeros(3000)).low == 1.0
