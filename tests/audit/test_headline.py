"""The answer of an audit: what is off, whether it matters at this depth, what to change; in data and in words."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch

from core.audit.initialization.findings import KINDS
from core.audit.initialization.judge import judged_document
from core.audit.initialization.rebuild import Rebuilder
from core.audit.report import headline_words as words
from core.audit.report.headline import ALWAYS, matters
from core.audit.report.repair import BY_SCALE
from core.audit.report.seed_health import SeedHealth
from core.audit.request import SEEDS
from core.audit.run import audit
from core.health.verdict import verdict_of
from tests.audit.drawn import IDS, Drawn, Std, gpt2

SMALL = {"width": 32, "ff": 64}


def documented(std: Std, *, rule: str = "gpt2", source: Rebuilder | None = None, **options: Any) -> dict[str, Any]:
    return judged_document(audit(Drawn(std, **{**SMALL, **options}), IDS), rule=rule, source=source)


def told(document: dict[str, Any]) -> str:
    return " ".join(document["headline"]["sentences"])


def extremes(arm: dict[str, Any]) -> list[float]:
    """The ratios furthest from 1, straight from an arm's sites."""
    return [
        max((site[f"{q}_ratio"] for site in arm["sites"]), key=lambda r: abs(math.log(r)))
        for q in ("activation", "adjoint")
    ]


def test_a_healthy_model_is_said_to_be_one() -> None:
    document = documented(gpt2)
    headline = document["headline"]
    assert (headline["state"], headline["off"], headline["matters"], headline["repair"]) == ("inside", [], None, None)
    assert [headline["as_it_is"][q] for q in ("activation", "adjoint")] == pytest.approx(extremes(document["health"]))
    assert told(document).startswith("Your 4 layers start healthy: ratios ")
    assert told(document).endswith("The rule gpt2, (2L)^(-1/2), is met.")


def test_without_a_rule_the_health_answers() -> None:
    document = documented(lambda at: 0.02, rule="auto")
    assert document["conformance"]["verdict"] == "no-rule-declared"
    assert told(document).startswith("Your 4 layers start healthy")
    assert told(document).endswith("No depth rule is declared, and at this depth none is needed.")
    assert document["repairs"] == []


def test_a_fault_that_matters_little_at_this_depth() -> None:
    document = documented(lambda at: 0.02 if at.block in (1, 2) else gpt2(at))
    headline = document["headline"]
    assert (headline["off"], headline["matters"], headline["repair"]) == (["partial"], "little", "partial")
    assert [headline["mended"][q] for q in ("activation", "adjoint")] == pytest.approx(
        extremes(document["twin"]), rel=0.02
    )
    assert "of blocks 1 and 2 are not scaled as the other writers are. At this depth that matters little" in told(
        document
    )
    assert told(document).endswith("mend it with the lines below.")


def test_a_fault_that_matters() -> None:
    """32 unscaled blocks leave the band; the rule brings their gradients nearer."""
    document = documented(lambda at: 0.7, blocks=32, width=16, ff=32)
    headline = document["headline"]
    assert (headline["state"], headline["matters"]) == ("outside", "some")
    assert "of all 32 blocks carry no depth factor. It shows, outside the band" in told(document)


def test_where_the_cause_is_the_input_the_writers_may_stay() -> None:
    document = documented(lambda at: 0.3, rule="auto", embedding=1e-3)
    assert document["headline"]["as_it_is"]["verdict"]["cause"] == "input"
    assert told(document).startswith("Your 4 layers start healthy from the end of the first block on: factors ")
    assert "-fold below the first block: counted from it the ratios are " in told(document)
    assert told(document).count("Draw the embeddings larger, or scale their output; the writers may stay.") == 1
    assert document["repairs"] == []


def test_a_depth_without_a_rule_that_leaves_the_band_is_offered_one() -> None:
    document = documented(lambda at: 0.7, rule="auto", blocks=32, width=16, ff=32)
    assert document["headline"]["as_it_is"]["verdict"]["cause"] == "depth"
    assert [repair["finding"] for repair in document["repairs"]] == ["no-rule-declared"]
    assert "with the writers drawn by GPT-2's rule, as the lines below do: " in told(document)


def test_ratios_are_those_of_every_seed_that_the_source_builds() -> None:
    """Against models built one by one, and their own audits."""

    def build(blocks: int | None) -> Drawn:
        return Drawn(lambda at: 0.3, blocks=blocks or 4, seed=int(torch.initial_seed()), **SMALL)

    torch.manual_seed(0)
    document = judged_document(audit(build(None), IDS), rule="gpt2", source=Rebuilder(build=build, deep=True))
    found = []
    for seed in SEEDS:
        torch.manual_seed(seed)
        found.append(extremes(judged_document(audit(build(None), IDS))["health"]))
    medians = np.exp(np.median(np.log(found), axis=0))
    headline = document["headline"]
    assert headline["seeds"] == 4
    assert [headline["as_it_is"][q] for q in ("activation", "adjoint")] == pytest.approx(list(medians))
    assert "median of 4 seeds" in told(document)


def test_a_fault_that_leaves_the_band_alone() -> None:
    document = documented(lambda at: 0.4, blocks=32, width=16, ff=32)
    headline = document["headline"]
    assert (headline["state"], headline["matters"]) == ("outside", "much")
    assert headline["mended"]["verdict"]["state"] != "outside"
    assert " That matters: gradient ratio " in told(document)


def arm(*largest: float) -> SeedHealth:
    activation, adjoint = (np.array([[1.0, 1.0, value]]) for value in largest)
    return SeedHealth(verdict_of(activation, adjoint[:, ::-1].copy(), 1), (largest[0], largest[1]))


@pytest.mark.parametrize(
    ("plain", "mended", "expected"),
    [
        (arm(3.0, 5.0), arm(2.0, 3.0), "little"),
        (arm(3.0, 5.0), arm(2.0, 2.0), "some"),
        (arm(0.2, 1.0), arm(0.9, 1.0), "some"),
        (arm(3.0, 500.0), arm(2.0, 3.0), "much"),
        (arm(3.0, 500.0), arm(2.0, 400.0), "little"),
        (arm(3.0, 5.0), None, "unknown"),
    ],
)
def test_what_matters(plain: SeedHealth, mended: SeedHealth | None, expected: str) -> None:
    assert matters("partial", plain, mended) == expected
    assert matters("never-initialised", plain, mended) == "always"


def test_every_kind_that_is_off_has_its_words() -> None:
    off = {kind.name for kind in KINDS if kind.severity != "info"}
    assert set(words.OFF) == off
    assert set(ALWAYS) | BY_SCALE <= off
    assert {verb for verb, _ in words.OFF.values()} <= set(words.SINGULAR)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([0, 1, 2, 3], "all 4 blocks"), ([3], "block 3"), ([1, 2], "blocks 1 and 2"), ([1, 2, 3], "blocks 1 to 3"),
        ([0, 2], "blocks 0 and 2"), ([0, 2, 3], "blocks 0, 2, 3"),
    ],
)  # fmt: skip
def test_blocks_in_words(numbers: list[int], text: str) -> None:
    assert words.blocks_text([*numbers, *numbers], 4) == text


def test_ratios_in_words() -> None:
    found = [words.number(value) for value in (1.0, 5.55, 9.97, 71.3, 0.0123, 517.3, 7409.0, 3.2e8)]
    assert found == ["1.0", "5.5", "10", "71", "0.012", "517", "7,410", "3.2e+08"]


def test_trained_weights_and_a_model_without_health() -> None:
    document = copy.deepcopy(documented(gpt2))
    document["model"]["trained"] = True
    assert words.sentences(document, document["headline"])[0].startswith("These weights are trained")
    document["headline"] |= {"as_it_is": None, "state": None}
    document["health_refusal"] = "The loss moves no state."
    assert words.sentences(document, document["headline"])[1].endswith("measured: The loss moves no state.")
