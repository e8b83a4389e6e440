"""Help: examples that parse, exit statuses, names that agree between verbs, completion, and nothing heavy imported."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from core.cli import COMPLETE, PROGRAM, VERBS, cli
from core.command.examples import EXAMPLES
from tests.support import run_cli

ROOT = Path(__file__).parents[2]
HEAVY = {"numpy", "pandas", "plotly", "torch", "transformers"}
PROBE = """
import sys
from core.cli import run
assert run(sys.argv[1:]) == 0
print("\\n" + ",".join(sys.modules))
"""
CHOICES = {"--norm", "--mlp", "--device", "--dtype"}


def command_of(verb: str) -> click.Command:
    found = cli.get_command(click.Context(cli), verb)
    assert found is not None
    return found


def options_of(verb: str) -> dict[str, click.Option]:
    """Every name of every option of a verb."""
    parameters = [p for p in command_of(verb).params if isinstance(p, click.Option)]
    return {name: parameter for parameter in parameters for name in parameter.opts}


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_waits_for_no_array_library(verb: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *filter(None, [verb]), "--help"],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert "Usage: " in done.stdout
    loaded = set(done.stdout.splitlines()[-1].split(","))
    assert "click" in loaded
    assert not HEAVY & loaded


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_examples_and_exit_statuses(verb: str) -> None:
    out = run_cli(verb, "--help").out
    assert 2 <= len(EXAMPLES[verb]) <= 3
    for example in EXAMPLES[verb]:
        assert f"    {PROGRAM} {example}\n" in out
    for status in ("0    done", "1    a gate", "2    refused", "130  interrupted"):
        assert f"    {status}" in out


@pytest.mark.parametrize("example", [example for examples in EXAMPLES.values() for example in examples])
def test_every_example_is_a_command_line(example: str) -> None:
    """Parsed to the end, subcommands too; whether it runs is for the verb's own tests."""
    words = shlex.split(example)
    verb = words[0]
    parsed = command_of(verb).make_context(verb, words[1:]) if words[-1] != "--help" else None
    assert parsed is None or parsed.command.name == verb


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in ("sweep", "lab")])
def test_every_closed_set_is_a_choice(verb: str) -> None:
    for name, option in options_of(verb).items():
        if name in CHOICES:
            assert isinstance(option.type, click.Choice), name


def test_a_sweep_lists_types_and_has_the_other_choices() -> None:
    options = options_of("sweep")
    assert all(isinstance(options[name].type, click.Choice) for name in CHOICES - {"--dtype"})
    assert run_cli("sweep", "--out", "o", "--dtype", "float16").status == 2


@pytest.mark.parametrize("verb", ["observe", "recipes", "sweep", "plan"])
def test_positions_are_called_so_everywhere_and_context_still_works(verb: str) -> None:
    options = options_of(verb)
    assert options["--context"] is options["--positions"]
    out = run_cli(verb, "--help").out
    assert "--positions" in out
    assert "--context" not in out


def test_earlier_and_neighbouring_names_do_the_same(tmp_path: Path) -> None:
    assert run_cli("plan", "--context", 7, "--json").out == run_cli("plan", "--positions", 7, "--json").out
    assert run_cli("observe", "--context", 9, "--json").document()["config"]["positions"] == 9
    sweep = run_cli(
        "sweep",
        "--blocks",
        1,
        "--seed",
        7,
        "--context",
        5,
        "--store",
        tmp_path / "s",
        "--out",
        tmp_path / "o",
        "--json",
    )
    grid = sweep.document()["grid"]
    assert (grid["seeds"], grid["sizes"][0]["positions"]) == ("7", 5)


def test_an_option_nearly_right_is_named() -> None:
    outcome = run_cli("observe", "--block", "3")
    assert outcome.status == 2
    assert outcome.err.endswith("Did you mean '--blocks'?\n")


class TestCompletion:
    """For a command of one word, which is what a shell completes."""

    def completed(self, **variables: str) -> str:
        environment = {**os.environ, **variables}
        done = subprocess.run(
            [sys.executable, "-m", "core"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
            timeout=120,
        )  # fmt: skip
        assert "Traceback" not in done.stderr
        return done.stdout

    def test_the_line_that_help_gives_defines_a_completion(self) -> None:
        assert f'eval "$({COMPLETE}=bash_source depthscope)"' in run_cli("--help").out
        script = self.completed(**{COMPLETE: "bash_source"})
        assert "complete -o nosort -F _depthscope_completion depthscope" in script
        assert f"{COMPLETE}=bash_complete" in script

    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            ("depthscope obs", ["plain,observe"]),
            ("depthscope observe --norm ", ["plain,rmsnorm", "plain,layernorm"]),
            ("depthscope observe --embed", ["plain,--embedding-std"]),
        ],
    )
    def test_verbs_options_and_choices(self, words: str, expected: list[str]) -> None:
        count = str(len(words.split(" ")) - 1)
        out = self.completed(**{COMPLETE: "bash_complete", "COMP_WORDS": words, "COMP_CWORD": count})
        assert out.splitlines() == expected
