"""How soon a running sweep answers to Cancel: `python -m tests.benchmarks.sweep_page_latency`.

In a real browser: a sweep of 21,000 cells runs and draws its partial results; the wait is from the click on Cancel to
the first frame in which Continue stands in its place. The limit of 1 s is for the median; the command exits with 1
where it is passed. Cells a second, drawing included, and the server's processor time from the click on stand beside it.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import time

from tests.browser.harness import Visitor, browser, running_server, server_processor_seconds, visit

LIMIT = 1.0
# Long enough that nobody finishes it by accident, short enough that a page grants it.
LONG = "sweep_recipes=depth-scaled&sweep_recipes=deepnorm&sweep_blocks=1,2,4,8,16,32,64&sweep_seeds={}:{}"
SEEDS = 1000
RUNNING_SECONDS = 1.0
CANCEL = """
() => new Promise(resolve => {
  const button = document.querySelector('.st-key-sweep-cancel button');
  const start = performance.now();
  const look = () => document.querySelector('.st-key-sweep-cancel button')
    ? requestAnimationFrame(look) : resolve((performance.now() - start) / 1000);
  button.click();
  look();
})
"""


def run_long(tab: Visitor, attempt: int) -> str:
    """Start a long sweep that no earlier attempt computed, and let it draw for a while; its progress in words."""
    tab.open(f"/depth_sweep?{LONG.format(SEEDS * attempt, SEEDS * (attempt + 1))}", "Depth sweep")
    tab.page.locator(".st-key-sweep-run button").click()
    tab.page.locator(".st-key-figure-largest-activation .gtitle").first.wait_for()
    progress = tab.page.get_by_test_id("stProgress").get_by_text("cells a second")
    progress.wait_for()
    time.sleep(RUNNING_SECONDS)
    return str(progress.inner_text())


def cancelled(tab: Visitor) -> tuple[float, float]:
    """Click Cancel and wait until the page has answered: seconds by the clock, and of the server's processor."""
    before = server_processor_seconds(tab.address)
    waited = float(tab.page.evaluate(CANCEL))
    spent = server_processor_seconds(tab.address) - before
    tab.page.get_by_role("button", name="Continue").wait_for()
    return waited, spent


def main() -> int:
    """Print every attempt, the median and the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    waits = []
    wide = {"width": 1400, "height": 1000}
    with browser() as opened, running_server() as address, visit(opened, address, viewport=wide) as tab:
        for attempt in range(options.rounds):
            words = run_long(tab, attempt)
            rate = re.search(r"[\d,]+ cells a second", words)
            waited, spent = cancelled(tab)
            waits.append(waited)
            print(
                f"round {attempt + 1}: {waited:.2f} s, processor {spent:.2f} s, {rate.group() if rate else words}",
                flush=True,
            )
    middle = statistics.median(waits)
    print(f"Cancel to answer: median {middle:.2f} s of {len(waits)} rounds (limit {LIMIT:g} s)")
    return int(middle > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
