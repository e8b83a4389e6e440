"""How long six recipes at five depths take to the screen: `python -m tests.benchmarks.recipe_page_latency`.

In a real browser, on a server that has loaded its tensor engine, over 32 seeds: from opening a link to the page
Recipes, view Against depth, to the moment when all its figures stand and the sweep behind them is complete. Every round
has distinct seeds, so no number is ever read from a cache. The limit of 5 s is for the median in a browser that has
read the app's own files before; the command exits with 1 where it is passed. A browser that opens the app for the first
time reads several megabytes of scripts beside, which is printed too.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

from tests.browser.harness import Visitor, browser, running_server, visit

SIX = ("unscaled", "gpt2", "block-indexed", "lns", "post-norm", "normformer")
FIGURES = ("largest-activation-ratio", "largest-adjoint-ratio", "share-within", "growth-input-adjoint")
LIMIT = 5.0
VIEWPORT = {"width": 1400, "height": 1000}
# So far apart that the 32 seeds of two rounds never meet.
SEED_STEP = 100


def link(seed: int) -> str:
    """The page's path and query for six recipes at the five default depths, 32 seeds from `seed` on."""
    chosen = "&".join(f"compare={name}" for name in SIX)
    return f"/recipes?compare_view=Against%20depth&{chosen}&seed={seed}"


def time_to_depths(tab: Visitor, seed: int) -> float:
    """Seconds from opening the link to the moment when every figure of the view stands and nothing is left to do."""
    started = time.perf_counter()
    tab.page.goto(tab.address + link(seed))
    for name in FIGURES:
        tab.page.locator(f".st-key-figure-{name} .gtitle").first.wait_for()
    tab.settle(50)
    tab.page.locator("[data-testid=stProgress]").wait_for(state="detached")
    tab.settle(50)
    return time.perf_counter() - started


def main() -> int:
    """Print both medians and the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with browser() as opened, running_server() as address:
        with visit(opened, address, viewport=VIEWPORT) as tab:
            tab.open("/", "Health")
            known = [time_to_depths(tab, SEED_STEP * index) for index in range(options.rounds)]
        new = []
        for index in range(options.rounds, 2 * options.rounds):
            with visit(opened, address, viewport=VIEWPORT) as tab:
                new.append(time_to_depths(tab, SEED_STEP * index))
    middle = statistics.median(known)
    print(f"link to screen: median {middle:.2f} s of {len(known)} rounds (limit {LIMIT:g} s)")
    print(f"in a browser that is new to the app: median {statistics.median(new):.2f} s")
    return int(middle > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
