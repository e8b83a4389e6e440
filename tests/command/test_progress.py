"""Progress: counted by the engine, on standard error, rewritten on a terminal and sparse in a log."""

from __future__ import annotations

import io

import pytest

from core.audit.request import STAGES
from core.audit.sandbox.isolation import tell_stage
from core.command.progress import ProgressLine
from core.decoder.config import DecoderConfig
from core.health.report import built_run, observe_document, restored_document
from core.health.request import ObserveRequest
from core.lab.experiments import experiment
from tests.support import run_cli


@pytest.fixture(autouse=True)
def seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TERMINAL_FIRST": 1.0, "TERMINAL_EVERY": 0.2, "LOG_FIRST": 15.0, "LOG_EVERY": 15.0}.items():
        monkeypatch.setattr(f"core.command.progress.{name}", value)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO, times: list[float]) -> str:
    ticks = iter(times)
    line = ProgressLine(stream, lambda: next(ticks))
    for done in range(1, len(times) + 1):
        line("blocks forward", done, 2048)
    line.clear()
    return stream.getvalue()


def test_a_short_run_says_nothing() -> None:
    assert shown(io.StringIO(), [100.0, 105.0, 114.9]) == ""
    assert shown(Terminal(), [100.0, 100.5, 100.9]) == ""


def test_a_log_gets_sparse_whole_lines() -> None:
    text = shown(io.StringIO(), [0.0, 16.0, 17.0, 30.0, 31.5])
    assert text == "blocks forward: 2 of 2,048\nblocks forward: 5 of 2,048\n"


def test_a_terminal_has_one_line_that_goes_away() -> None:
    text = shown(Terminal(), [0.0, 1.5, 1.6, 3.0])
    assert "\n" not in text
    lines = [part.rstrip() for part in text.split("\r")]
    assert lines == ["", "blocks forward: 2 of 2,048", "blocks forward: 4 of 2,048", "", ""]


def test_a_log_that_takes_no_more_is_no_error() -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    assert shown(Full(), [0.0, 20.0]) == ""


@pytest.mark.parametrize("recipe", ["depth-scaled", "parallel"])
def test_every_block_and_site_is_counted(recipe: str) -> None:
    """Arms that share a graph run in one pass; others in one pass each, which is said."""
    told: list[tuple[str, int, int]] = []
    request = ObserveRequest(config=DecoderConfig(blocks=3), recipe=recipe)
    document = observe_document(request, told=lambda *step: told.append(step))
    arms = ("initialized", "same_base_unscaled_control")
    passes = ["pass 1 of 2, ", "pass 2 of 2, "] if recipe == "parallel" else [""]
    wanted = []
    for place, arm in zip(passes, arms, strict=False):
        sites = len(document[arm]["sites"])
        wanted += [(f"{place}blocks forward", block, 3) for block in (1, 2, 3)]
        wanted += [(f"{place}sites in reverse", site, sites) for site in range(1, sites + 1)]
    assert told == wanted
    assert document == observe_document(request)


def test_a_restored_run_counts_too() -> None:
    told: list[str] = []
    run = built_run(ObserveRequest(config=DecoderConfig(blocks=2)))
    restored_document(run, told=lambda what, done, total: told.append(what))
    assert told == ["blocks forward"] * 2 + ["sites in reverse"] * 5


@pytest.mark.parametrize(
    ("name", "options", "what", "total"),
    [
        ("stream-growth", {"seeds": 2, "blocks": 2, "width": 8}, "draws of the stack", 2),
        ("chain", {"seeds": 3, "layers": 2, "width": 8}, "chains", 3),
        ("norm-placement", {"seeds": 2, "width": 8, "depths": "1,2"}, "draws of the stacks", 2),
        ("width-update", {"seeds": 2, "widths": "8,16"}, "draws of a layer", 4),
    ],
)
def test_experiments_count_their_draws(name: str, options: dict[str, object], what: str, total: int) -> None:
    told: list[tuple[str, int, int]] = []
    entry = experiment(name)
    entry.run(entry.options(options), lambda *step: told.append(step))
    assert told == [(what, done, total) for done in range(1, total + 1)]


def test_an_experiment_without_a_count_runs_as_before() -> None:
    entry = experiment("compounding")
    assert entry.run(entry.options(), lambda *step: None).summary == entry.run().summary


def test_an_audit_tells_its_stages() -> None:
    told: list[tuple[str, int, int]] = []
    for stage in (*STAGES, "elsewhere", None):
        tell_stage(stage, lambda *step: told.append(step))
    assert [(done, total) for _, done, total in told] == [(index + 1, len(STAGES)) for index in range(len(STAGES))]


def test_the_verb_hands_the_line_to_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.command.progress.LOG_FIRST", 0.0)
    monkeypatch.setattr("core.command.progress.LOG_EVERY", 0.0)
    outcome = run_cli("observe", "--blocks", "2", "--json")
    assert outcome.err.splitlines()[:2] == ["blocks forward: 1 of 2", "blocks forward: 2 of 2"]
    assert outcome.err.splitlines()[-1] == "sites in reverse: 5 of 5"
    assert outcome.out.count("\n") == 1
    outcome = run_cli("lab", "chain", "--seeds", "2", "--layers", "2", "--width", "8", "--json")
    assert outcome.err.splitlines() == ["chains: 1 of 2", "chains: 2 of 2"]
