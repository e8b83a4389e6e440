"""How long a person waits for the landing page: `python -m tests.benchmarks.page_latency`.

Three measures, all in a real browser. *Release to repaint*: from the pointer leaving the depth slider to the first
frame in which both figures show the new depth, around 32 narrow blocks. *Cold chart*: from the start of a fresh
server's first visit to its first figure, beside a bare Streamlit page that imports torch and draws one chart.
*Reload*: the same page again on the warm server.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.browser.harness import ROOT, Visitor, browser, running_server, visit

BARE_PAGE = """
import streamlit as st
import plotly.graph_objects as go
import torch
st.title("Bare")
st.plotly_chart(go.Figure(go.Scatter(y=torch.arange(10.0).tolist()), layout={"title": {"text": "L = 8 bare"}}))
"""
# Both figures carry the depth in their titles; the moment is taken in the frame after the last of them changed.
WATCH = """
(wanted) => new Promise(resolve => {
  const done = () => {
    const titles = [...document.querySelectorAll('.gtitle')].map(t => t.textContent);
    if (titles.length < wanted.figures || !titles.slice(0, wanted.figures).every(t => t.includes(wanted.text))) return;
    observer.disconnect();
    requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now() - window.released)));
  };
  const observer = new MutationObserver(done);
  observer.observe(document.body, {subtree: true, childList: true, characterData: true});
  done();
})
"""
FIRST_CHART = "document.querySelector('.gtitle')?.textContent.includes('L = 8')"


def release_to_repaint(visitor: Visitor, moves: int, start: int = 32) -> list[float]:
    """Milliseconds of `moves` slider releases that step to and fro around `start` blocks, never to a depth again."""
    page = visitor.page
    visitor.open(f"/?blocks={start}", "Health")
    page.evaluate("addEventListener('pointerup', () => { window.released = performance.now(); }, true)")
    handle = page.locator(".st-key-blocks").get_by_role("slider")
    thumb = page.locator(".st-key-blocks [data-testid=stSliderThumbValue]").locator("..")
    box = page.locator(".st-key-blocks [data-testid=stSlider]").bounding_box()
    found = []
    for move in range(moves):
        before = int(handle.input_value())
        place = thumb.bounding_box()
        x, y = place["x"] + place["width"] / 2, place["y"] + place["height"] / 2
        step = (3 + move) * box["width"] / 128 * (1 if move % 2 else -1) / 2
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + step, y, steps=3)
        now = int(handle.input_value())
        page.mouse.up()
        if now != before:
            found.append(float(page.evaluate(WATCH, {"text": f"L = {now} blocks", "figures": 2})))
        visitor.settle()
    return found


def first_chart(opened: Any, app: Path) -> tuple[float, float, float]:
    """Seconds from the visit of a fresh server to its first chart, from its launch, and from a reload to the next."""
    launched = time.perf_counter()
    with running_server(app) as address, visit(opened, address) as visitor:
        visited = time.perf_counter()
        visitor.page.goto(address)
        visitor.page.wait_for_function(FIRST_CHART)
        end = time.perf_counter()
        visitor.settle()
        start = time.perf_counter()
        visitor.page.reload()
        visitor.page.wait_for_function(FIRST_CHART)
        return end - visited, end - launched, time.perf_counter() - start


def main() -> None:
    """Print every measure beside its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moves", type=int, default=40)
    parser.add_argument("--cold", type=int, default=5, help="pairs of cold starts")
    options = parser.parse_args()
    with browser() as opened:
        with running_server() as address, visit(opened, address, viewport={"width": 1400, "height": 1000}) as visitor:
            waits = release_to_repaint(visitor, options.moves)
            ordered = sorted(waits)
            late = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
            print(
                f"release to repaint: median {statistics.median(waits):.0f} ms (limit 250), 95th percentile {late:.0f} "
                f"ms (limit 500), {len(waits)} moves"
            )
        if options.cold:
            with tempfile.TemporaryDirectory() as folder:
                bare = Path(folder) / "bare.py"
                bare.write_text(BARE_PAGE)
                pairs = [(first_chart(opened, ROOT / "app.py"), first_chart(opened, bare)) for _ in range(options.cold)]
            for place, since in enumerate(("the visit", "the server's launch")):
                ours, theirs = (statistics.median(pair[side][place] for pair in pairs) for side in (0, 1))
                print(
                    f"cold chart since {since}: {ours:.2f} s beside {theirs:.2f} s bare, ratio {ours / theirs:.2f} "
                    "(limit 1.3)"
                )
            again = statistics.median(pair[0][2] for pair in pairs)
            print(f"reload: {again:.2f} s (limit 1.5)")


if __name__ == "__main__":
    main()
