"""How long a person waits for a control of the labs: `python -m tests.benchmarks.lab_page_latency [NAME ...]`.

In a real browser every control that stands open at an experiment's defaults is changed to and fro. The answer is the
frame in which the last figure in sight that changes shows it; where no figure does, and in a separate column for
all, it is the first frame in which the run has ended and nothing on the page is stale: tables and files follow the
figures. The limit is 250 ms for the median of an experiment's controls, and 2 s for the published chains, 512 wide and
50 layers deep. The server's processor time a change stands beside it, for other work on the machine hardly moves that.
"""

from __future__ import annotations

import argparse
import logging
import statistics
from typing import Any
from urllib.parse import urlencode

from pages.common.lab_controls import PAGES, Bench, LabPage
from pages.common.widgets import Control
from tests.browser.harness import Visitor, browser, running_server, server_processor_seconds, visit

LIMIT, WIDE_LIMIT = 250, 2000
WIDE = ("linear-chain", "relu-chain", "tanh-chain")
LISTEN = """
for (const name of ['keydown', 'pointerdown'])
  addEventListener(name, () => {
    window.started = performance.now();
    window.drawn = null;
    // A figure without a listener is new since the last change.
    for (const figure of document.querySelectorAll('.depthscope-figure:not(.watched)')) {
      figure.classList.add('watched');
      figure.on('plotly_afterplot', () => requestAnimationFrame(() => requestAnimationFrame(() => {
        const { top, bottom } = figure.getBoundingClientRect();
        if (bottom > 0 && top < innerHeight) window.drawn = performance.now();
      })));
    }
  }, true);
"""
ANSWERED = """
() => new Promise(resolve => {
  const app = document.querySelector('[data-testid="stApp"]');
  let ran = false;
  const look = () => {
    const still = app.dataset.testScriptState === 'notRunning';
    ran = ran || !still;
    const late = performance.now() - window.started > 3000;
    if (ran && still && !document.querySelector('[data-stale="true"]') || late && !ran)
      requestAnimationFrame(() => {
        const ended = performance.now();
        // A figure may be drawn after the run has ended.
        setTimeout(() => resolve(
          late && !ran ? null : [(window.drawn ?? ended) - window.started, ended - window.started]), 300);
      });
    else requestAnimationFrame(look);
  };
  look();
})
"""


def change(tab: Visitor, control: Control, away: bool) -> None:
    """Change a control by the smallest step that people make, or back."""
    place = tab.page.locator(f".st-key-{control.name}")
    if control.kind in ("slider", "whole", "number"):
        up = away if control.default < (control.upper or 0) else not away
        if control.kind == "slider":
            place.get_by_role("slider").press("ArrowRight" if up else "ArrowLeft")
        else:
            place.get_by_test_id("stNumberInputStepUp" if up else "stNumberInputStepDown").click()
        return
    if control.kind == "toggle":
        place.locator("label").first.click()
        return
    other = next(option for option in control.options if option != control.default)
    wanted = other if away else control.default
    if control.kind == "segments":
        place.get_by_text(wanted, exact=True).click()
    else:
        place.locator("input").fill(wanted)
        tab.page.keyboard.press("Enter")


def measured(tab: Visitor, page: LabPage, bench: Bench, rounds: int) -> tuple[list[list[float]], float]:
    """Milliseconds to answer and end of every change of every open control, and processor milliseconds a change."""
    tab.open(f"/{page.name}?{urlencode({page.selector.name: bench.experiment.label})}", page.title)
    tab.page.evaluate(LISTEN)
    declared = bench.experiment.declared
    shown = [bench.controls[name] for name in declared if not declared[name].more and bench.counts(name)]
    waits: list[list[float]] = []
    before = server_processor_seconds(tab.address)
    for control in (one for one in shown if one.kind != "text"):
        for _ in range(rounds):
            for away in (True, False):
                change(tab, control, away)
                waited: Any = tab.page.evaluate(ANSWERED)
                tab.settle(100)
                if waited is None:
                    # Nothing was changed, a busy browser lost the event, so there is nothing to change back either.
                    break
                waits.append(waited)
    return waits, 1e3 * (server_processor_seconds(tab.address) - before) / max(1, len(waits))


def main() -> None:
    """Print a row an experiment and how many exceed their limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="experiments; all unless given")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # Controls are asked for their defaults outside of a session here.
    over = []
    print(
        f"{'experiment':<20}{'changes':>8}{'median ms':>11}{'95th ms':>9}{'run ended ms':>14}{'processor ms':>14}"
        f"{'limit ms':>10}"
    )
    with browser() as opened, running_server() as address, visit(opened, address) as tab:
        for page in PAGES.values():
            for bench in page.benches:
                name = bench.experiment.name
                if options.names and name not in options.names:
                    continue
                waits, processor = measured(tab, page, bench, options.rounds)
                limit = WIDE_LIMIT if name in WIDE else LIMIT
                answers = sorted(answer for answer, _ in waits) or [0.0]
                middle, late = statistics.median(answers), answers[int(0.95 * (len(answers) - 1))]
                ended = statistics.median([end for _, end in waits] or [0.0])
                over += [name] if middle > limit else []
                print(
                    f"{name:<20}{len(waits):>8}{middle:>11.0f}{late:>9.0f}{ended:>14.0f}{processor:>14.0f}{limit:>10}",
                    flush=True,
                )
    print(f"over their limit: {', '.join(over) or 'none'}")


if __name__ == "__main__":
    main()
