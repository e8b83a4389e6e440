"""`python -m core recipes`: every recipe with law, graph, source and selection, and what is measured on request."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from core.cli import run
from core.recipes.catalogue import RECIPES

KEYS = {"name", "title", "law", "graph", "source", "evidence", "selects", "refusal"}


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    """The JSON document."""
    assert run(["recipes", *arguments, "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return json.loads(printed.out)


def test_every_recipe_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys)
    assert (found["schema"], found["config"]["blocks"]) == ("depthscope.recipes/1", 8)
    assert found["version"]
    assert [row["name"] for row in found["recipes"]] == [known.name for known in RECIPES]
    for row in found["recipes"]:
        assert set(row) >= KEYS
        assert row["law"]
        assert row["graph"]
        assert row["source"]
    by_name = {row["name"]: row for row in found["recipes"]}
    assert by_name["gpt2"]["selects"] == ["blocks.{b}.attention.output.weight", "blocks.{b}.ffn.down.weight"]
    assert by_name["unscaled"]["selects"] == []
    assert "decoder-only stack" in by_name["t-fixup"]["refusal"]


def test_numbers_follow_the_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = document(capsys, "--recipe", "gpt2", "--blocks", "12", "--base-std", "0.02")["recipes"]
    assert row["blocks"] == 12
    assert f"{row['stored'][0]['first_std']:.7f}" == "0.0040825"
    assert f"{row['constants']['writer std on base std 0.02']:.7f}" == "0.0040825"


def test_a_combination_comes_with_measured_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "--recipe", "depth-scaled+peri-norm")
    assert [row["name"] for row in found["recipes"]] == ["peri-norm+depth-scaled"]
    assert [warning["code"] for warning in found["warnings"]] == ["no-effect"]
    assert 0 < found["effects"][0]["largest_change"] < 1e-3


def test_difference_and_drift(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "--recipe", "post-norm", "--against", "deepnorm", "--drift")
    assert {row["aspect"] for row in found["difference"]} == {"graph", "coefficient", "tensor"}
    assert {"variant", "does", "largest_change"} <= set(found["drift"][0])
    assert any(row["output_first"] is None for row in found["drift"])


@pytest.mark.parametrize("arguments", [[], ["--recipe", "deepnorm"], ["--recipe", "lns+gpt2"], ["--recipe", "t-fixup"]])
def test_a_table_for_people(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert run(["recipes", *arguments]) == 0
    text = capsys.readouterr().out
    name = arguments[-1] if arguments else "t-fixup"
    assert name in text
    assert "source (" in text
    assert ("warning: damped twice" in text) == (arguments == ["--recipe", "lns+gpt2"])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--recipe", "nothing"], "is unknown; all are listed by"),
        (["--recipe", "gpt2+gpt2"], "names a part twice"),
        (["--against", "gpt2"], "give both"),
        (["--recipe", "gpt2", "--against", "nothing"], "is unknown"),
        (["--blocks", "0"], "blocks is 0"),
        (["--blocks", "10000000000"], "exceed the limit"),
        (["--width", "ten"], "must be a whole number"),
        (["--seed", "x", "--recipe", "gpt2"], "seed"),
    ],
)
def test_refusals_are_one_sentence(capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str) -> None:
    assert run(["recipes", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert sentence in printed.err
    assert printed.err.count("\n") == 1


def test_the_list_needs_no_torch() -> None:
    code = (
        "import sys; from core.cli import run; status = run(['recipes', '--json']); "
        "sys.exit(status or 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["recipes"]) == len(RECIPES)


def test_a_law_that_overflows_is_refused_on_its_card(capsys: pytest.CaptureFixture[str]) -> None:
    """An absolute standard deviation over the smallest base draw is no binary64 number, and infinity is no JSON."""
    by_name = {row["name"]: row for row in document(capsys, "--base-std", "5e-324")["recipes"]}
    assert by_name["wang"]["refusal"].startswith("The coefficient of token_embedding.weight, std (2/(5d))^(1/2), is")
    assert (by_name["wang"]["stored"], by_name["wang"]["selected_tensors"]) == ([], 0)
    assert by_name["gpt2"]["refusal"] is None
    assert by_name["gpt2"]["selected_tensors"] == 16


def test_measures_that_are_not_finite_are_undefined(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--recipe", "wang+gpt2", "--blocks", "2", "--base-std", "5e-324"]
    effects = document(capsys, *arguments)["effects"]
    assert [effect["largest_change"] for effect in effects] == [None, None]
    assert run(["recipes", *arguments]) == 0
    assert "effect of wang: largest relative change undefined" in capsys.readouterr().out


def test_drift_without_finite_ratios_is_told_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["recipes", "--recipe", "gpt2", "--drift", "--blocks", "2", "--base-std", "1.7e308"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "largest ratios undefined declared, undefined there" in printed.out
