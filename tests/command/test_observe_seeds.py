"""`observe --seeds`: verdicts in the document, its gates, what goes together, and what a terminal is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.decoder.config import DecoderConfig
from core.health.request import ObserveRequest
from core.health.seeds import observe_seeds
from tests.support import Outcome, run_cli

V_KEYS = {
    "state", "depth_state", "cause", "seeds", "refused", "share_within", "share_within_by_2", "interval", "margin",
    "worst_factor", "depth_factor", "growth", "thresholds",
}  # fmt: skip
# At this spread the control has no finite ratios, and a recipe whose branches begin at zero has.
ONE_ARM = ("--blocks", 2, "--base-std", 1e100, "--recipe", "rezero", "--seeds", "0:4")
NO_ARM = ("--blocks", 2, "--base-std", 1e200, "--seeds", "5:7")


def observe(*arguments: object) -> dict[str, Any]:
    outcome = run_cli("observe", *arguments, "--json")
    assert (outcome.status, outcome.err) == (0, "")
    found: dict[str, Any] = outcome.document()
    return found


def gate(band: str, *gate: str, blocks: int = 2, seeds: int = 8) -> Outcome:
    return run_cli("observe", "--blocks", blocks, "--seeds", f"0:{seeds}", "--band", band, "--gate", *gate, "--json")


def test_verdicts_stand_beside_the_document_of_the_first_seed() -> None:
    document = observe("--blocks", 3, "--recipe", "gpt2", "--seeds", "7:12")
    alone = observe("--blocks", 3, "--recipe", "gpt2", "--seed", 7)
    assert {key: document[key] for key in alone} == alone
    arms = observe_seeds(ObserveRequest(config=DecoderConfig(blocks=3), recipe="gpt2"), range(7, 12))
    for key, arm in zip(("initialized", "same_base_unscaled_control"), arms, strict=True):
        verdict = document["verdicts"][key]
        assert set(verdict) >= V_KEYS
        assert verdict == json.loads(json.dumps(arm.verdict.document()))
        assert (verdict["seeds"], verdict["growth"]) == (5, None)
    assert document["seeds"] == ["7", "8", "9", "10", "11"]
    assert observe("--seeds", "3:5", "--growth")["verdicts"]["initialized"]["growth"]["blocks"] == [4, 8, 16]


def test_the_gate_over_seeds_needs_inside_unless_it_is_told() -> None:
    """Bands cut from what eight seeds show: the state of each is read off the document that the gate prints."""
    states = {}
    for band in ("0.001,1000", "0.01,24", "0.5,3"):
        document = gate(band).document()["verdicts"]["initialized"]
        states[document["state"]] = band
        assert gate(band).status == (0 if document["state"] == "inside" else 1)
        assert gate(band, "inside").status == gate(band).status
        assert gate(band, "close").status == (0 if document["state"] in ("inside", "close") else 1)
        assert gate(band, "depth").status == (0 if document["depth_state"] == "inside" else 1)
    assert set(states) == {"inside", "close", "outside"}
    # The depth alone may be inside where the source's ratios are not.
    assert gate(states["close"], "depth").status == 0
    failed = gate(states["outside"])
    assert failed.err.startswith("The gate fails.\nOutside the band: ")


def test_a_gate_without_seeds_is_the_band_of_one_seed() -> None:
    inside = run_cli("observe", "--gate", "--band", "0.001,1000", "--json")
    outside = run_cli("observe", "--gate", "--band", "0.5,2", "--json")
    assert (inside.status, outside.status) == (0, 1)
    assert "verdicts" not in inside.document()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--seeds", "0:2", "--seed", "1"), "--seeds observes every seed of a range; leave --seed out."),
        (("--seeds", "0:2", "--save", "x"), "--seeds observes every seed of a range; leave --save out."),
        (("--seeds", "0:2", "--restore", "x"), "--seeds observes every seed of a range; leave --restore out."),
        (("--seeds", "2:2"), "The seed range '2:2' is empty; its end is left out, so it must exceed its start."),
        (("--seeds", "1,1"), "A seed stands twice among the seeds of a verdict; give each once."),
        (("--seeds", "0:65537"), "The seeds '0:65537' are more than 65,536; give fewer."),
        (("--growth",), "--growth is fitted over seeds; give --seeds too."),
        (("--suggest",), "--suggest compares recipes over seeds; give --seeds too."),
        (("--gate", "close"), "--gate close judges a verdict over seeds; give --seeds too."),
        (("--gate", "depth"), "--gate depth judges a verdict over seeds; give --seeds too."),
        (
            ("--gate", "depth", "--seeds", "0:2", "--blocks", "1"),
            "--gate depth judges what follows the first block, and this decoder has one; use --gate.",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(arguments: tuple[str, ...], sentence: str) -> None:
    outcome = run_cli("observe", *arguments)
    assert (outcome.status, outcome.out, outcome.err) == (2, "", sentence + "\n")


def test_a_control_without_ratios_is_null_beside_a_verdict_that_says_so() -> None:
    document = observe(*ONE_ARM)
    assert document["same_base_unscaled_control"] is None
    assert document["initialized"]["within_band"]
    control = document["verdicts"]["same_base_unscaled_control"]
    assert (control["state"], control["refused"], control["margin"]["median"]) == ("refused", 4, None)
    reasons = document["refusals"]["same_base_unscaled_control"]
    assert [one["seed"] for one in reasons] == ["0", "1", "2", "3"]
    text = run_cli("observe", *ONE_ARM).out
    assert "Refused: none of 4 seeds of unscaled has finite ratios.\nSeed 0 is refused: The " in text
    assert "Seed 0 by itself:\nEvery ratio of the rezero arm" in text


def test_where_every_seed_is_refused_the_document_still_says_why(tmp_path: Path) -> None:
    document = observe(*NO_ARM)
    assert document["initialized"] is document["same_base_unscaled_control"] is None
    assert document["verdicts"]["initialized"]["state"] == "refused"
    assert run_cli("observe", *NO_ARM, "--gate").status == 1
    shown = run_cli("observe", *NO_ARM)
    assert shown.out.startswith("Refused: none of 2 seeds of depth-scaled has finite ratios.\nSeed 5 is refused: The ")
    assert "by itself" not in shown.out
    exported = run_cli("observe", *NO_ARM, "--csv", tmp_path / "out")
    assert exported.status == 2
    assert exported.err.strip() == document["refusals"]["initialized"][0]["reason"]


def test_a_terminal_is_told_the_verdicts_first() -> None:
    lines = run_cli("observe", "--blocks", 8, "--recipe", "gpt2", "--seeds", "0:32").out.splitlines()
    assert lines[0].startswith("Close to the band's limits: 30 of 32 seeds of gpt2 keep every ratio within [0.01, 100]")
    assert all(len(line) <= 120 for line in lines[:20])
    assert "Seed 0 by itself:" in lines
    assert sum("embedding std" in line for line in lines) == 2


def test_a_suggestion_is_data_and_the_same_sentences() -> None:
    arguments = ("--blocks", 64, "--recipe", "gpt2", "--seeds", "0:16", "--suggest")
    found = observe(*arguments)["suggestion"]
    assert found["best"] == 0
    assert found["candidates"][0]["verdict"]["share_within"] >= found["before"]["share_within"]
    lines = " ".join(run_cli("observe", *arguments).out.split())
    assert all(" ".join(sentence.split()) in lines for sentence in found["sentences"])


def test_embeddings_have_a_spread_apart_from_the_rest() -> None:
    """Their own draw times s divides every activation ratio by s where branches read a normalized stream."""
    ratios = [
        observe("--base-std", 0.3, "--embedding-std", std, "--rms-epsilon", 1e-30)["initialized"]["sites"][1]
        for std in (1e-6, 1e-9)
    ]
    assert ratios[1]["activation_ratio"] / ratios[0]["activation_ratio"] == pytest.approx(1000, rel=1e-3)
