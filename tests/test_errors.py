"""Refusals: one sentence with its ways out, in the words of Python, of the command line and of pages."""

from __future__ import annotations

import json
import pickle

import pytest

from core.audit.sandbox.isolation import answer
from core.cli import REMEDIES, run
from core.decoder.config import Budget, DecoderConfig
from core.errors import BudgetError, DepthscopeError, InitializationError, Remedy
from pages.common import panels


@pytest.mark.parametrize(
    ("error", "plain"),
    [
        (DepthscopeError("It is so"), "It is so"),
        (DepthscopeError("It is so", "stop"), "It is so; stop."),
        (DepthscopeError("It is so", "stop", Remedy.OUTPUT), "It is so; stop, or give another folder."),
        (DepthscopeError("It is so", "a", "b", "c"), "It is so; a, b, or c."),
        (DepthscopeError("It is so.", "stop"), "It is so. Stop."),
        (DepthscopeError("Is it so?", "stop"), "Is it so? Stop."),
    ],
)
def test_ways_out_follow_the_sentence(error: DepthscopeError, plain: str) -> None:
    assert str(error) == plain == error.told()


def test_a_remedy_is_worded_by_who_shows_it() -> None:
    with pytest.raises(BudgetError) as caught:
        Budget(max_positions=1).check(DecoderConfig(), 1)
    said = "4 positions exceed the budget of 1; shorten the rows"
    assert str(caught.value) == f"{said}, or raise the budget of positions."
    assert caught.value.told(REMEDIES) == f"{said}, or raise --max-positions."
    assert panels.told(caught.value) == f"{said}."


def test_a_sentence_whose_remedies_are_all_left_out_still_ends() -> None:
    assert DepthscopeError("It is so", Remedy.OUTPUT).told({Remedy.OUTPUT: ""}) == "It is so."
    assert DepthscopeError("Is it so?", Remedy.OUTPUT).told({Remedy.OUTPUT: ""}) == "Is it so?"


def test_the_command_line_words_every_remedy_and_pages_none_with_an_option() -> None:
    assert set(REMEDIES) == set(Remedy)
    assert set(panels.REMEDIES) <= set(Remedy)
    assert not [words for words in (*Remedy, *panels.REMEDIES.values()) if "--" in words or "python -m" in words]


@pytest.mark.parametrize("remedy", Remedy)
def test_remedies_survive_pickling_and_the_process_of_an_audit(remedy: Remedy) -> None:
    error = BudgetError("It is so", "stop", remedy)
    carried: DepthscopeError = pickle.loads(pickle.dumps(error))
    reply = {"kind": "BudgetError", "sentence": error.sentence, "ways": error.ways}
    with pytest.raises(BudgetError) as caught:
        answer(json.dumps(reply).encode(), 0, None)
    for one in (carried, caught.value):
        assert type(one) is BudgetError
        assert one.told(REMEDIES) == f"It is so; stop, or {REMEDIES[remedy]}."


def test_facts_of_an_error_survive_pickling() -> None:
    carried = pickle.loads(pickle.dumps(InitializationError("No fan.", "zero fan_in", index=3)))
    assert (str(carried), carried.fault, carried.facts) == ("No fan.", "zero fan_in", {"index": 3})


def test_the_command_line_names_an_option_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["observe", "--driver", "graph", "--max-parameters", "10"]) == 2
    told = capsys.readouterr().err
    assert told.endswith("; make the decoder smaller, or raise --max-parameters.\n")
    assert told.count("--max-parameters") == 1
