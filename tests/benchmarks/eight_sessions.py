"""Browser sessions that move controls at once on one server: `python -m tests.benchmarks.eight_sessions`.

Every session has a distinct seed and moves its depth slider, now and then also the recipe, for as long as told. After
every move the figure's title must name the session's own depth and seed, and the table of sites that it downloads must
be the core's for that setting, to the bit; anything else is cross-talk. Reported beside errors: the server's resident
memory before the first visitor, at its highest, and after the last has gone.

Every session is a process with a separate browser, so the machine is busy with browsers; the moves a second say
nothing about the server alone.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.browser.harness import Visitor, browser, resident_bytes, server_process, visit

MEBIBYTE = 2**20
RECIPES = ("depth-scaled", "gpt2", "unscaled")
# Arrow keys of every move, in turn; the way leads up, so that most settings are new to the server.
STEPS = (3, -2, 5, -4, 7, -5)
CHECK_EVERY = 4
SAMPLE_SECONDS = 0.2


@dataclass
class Outcome:
    """What one session did: moves, tables compared, and everything that was not as it should be."""

    seed: int
    moves: int = 0
    tables: int = 0
    faults: list[str] = field(default_factory=list)


def expected_table(blocks: int, seed: int, recipe: str) -> str:
    """The core's own table of sites."""
    from core.decoder.config import DecoderConfig
    from core.export.csv import csv_text
    from core.health.report import observe_document
    from core.health.request import ObserveRequest
    from core.tables.observe import site_table

    config = DecoderConfig(blocks=blocks)
    return csv_text(site_table(observe_document(ObserveRequest(config=config, seed=seed, recipe=recipe))))


def session(address: str, seed: int, seconds: float, results: Any) -> None:
    """One visitor's minute; what happened is put into `results` whatever happens."""
    outcome = Outcome(seed)
    try:
        import torch

        torch.set_num_threads(1)
        with browser() as opened, visit(opened, address, viewport={"width": 1200, "height": 900}) as tab:
            walk(tab, outcome, seconds)
            outcome.faults += [f"outside request {url}" for url in tab.outside]
            outcome.faults += [line for line in tab.console if line.startswith("error:")]
    except Exception as error:  # Reported as a fault of the session.
        outcome.faults.append(f"{type(error).__name__}: {str(error)[:300]}")
    results.put(outcome)


def walk(tab: Visitor, outcome: Outcome, seconds: float) -> None:
    """Move controls until the time is over, comparing as it goes."""
    seed, blocks, recipe = outcome.seed, 8 + outcome.seed % 8, RECIPES[outcome.seed % len(RECIPES)]
    tab.open(f"/?{urlencode({'blocks': blocks, 'seed': seed, 'recipe': recipe})}", "Health")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        step = STEPS[outcome.moves % len(STEPS)]
        tab.slide("blocks", step)
        outcome.moves += 1
        blocks = min(128, max(1, blocks + step))
        title = tab.chart_title("activation-ratio")
        if not title.endswith(f"seed {seed}"):
            outcome.faults.append(f"the session of seed {seed} sees {title!r}")
        if not tab.until(
            lambda wanted=f"L = {blocks} blocks, seed {seed}": wanted in tab.chart_title("activation-ratio")
        ):
            outcome.faults.append(f"L = {blocks} was asked for and never shown")
        if tab.page.locator("[data-testid=stException], [data-testid=stAlertContentError]").count():
            outcome.faults.append(f"an error stands on the page at L = {blocks}")
        if outcome.moves % CHECK_EVERY == 1:
            outcome.tables += 1
            if tab.download("download-sites-csv").read_text() != expected_table(blocks, seed, recipe):
                outcome.faults.append(f"the table at L = {blocks} is not the core's for seed {seed}, {recipe}")


def run(sessions: int, seconds: float) -> list[str]:
    """Print the measures; every fault as a line."""
    start = multiprocessing.get_context("spawn")
    results = start.Queue()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.txt"
        with server_process(log=log) as (address, pid):
            with browser() as opened, visit(opened, address) as first:
                # The tensor engine is loaded once a server, whoever comes.
                first.open("/", "Health")
            before, peak = resident_bytes(pid), 0
            visitors = [
                start.Process(target=session, args=(address, 101 * number + 7, seconds, results), daemon=True)
                for number in range(sessions)
            ]
            for visitor in visitors:
                visitor.start()
            outcomes: list[Outcome] = []
            while len(outcomes) < sessions and (any(v.is_alive() for v in visitors) or not results.empty()):
                peak = max(peak, resident_bytes(pid))
                time.sleep(SAMPLE_SECONDS)
                while not results.empty():
                    outcomes.append(results.get())
            for visitor in visitors:
                visitor.join()
            time.sleep(2)
            after = resident_bytes(pid)
        lines = log.read_text(errors="replace")
    faults = [f"seed {outcome.seed}: {fault}" for outcome in outcomes for fault in outcome.faults]
    faults += ["the server's log holds a traceback"] if "Traceback" in lines else []
    faults += [f"{sessions - len(outcomes)} sessions ended without a word"] if len(outcomes) < sessions else []
    moves, tables = (sum(getattr(outcome, name) for outcome in outcomes) for name in ("moves", "tables"))
    print(f"{sessions} sessions, {seconds:.0f} s: {moves} moves, {tables} tables compared, {len(faults)} faults")
    sizes = {"before": before, "highest": peak, "after": after}
    print("server, resident: " + ", ".join(f"{name} {size / MEBIBYTE:.0f} MiB" for name, size in sizes.items()))
    return faults


def main() -> int:
    """Exit status 1 where anything went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    faults = run(options.sessions, options.seconds)
    for fault in faults:
        print(fault)
    return bool(faults)


if __name__ == "__main__":
    raise SystemExit(main())
