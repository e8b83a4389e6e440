"""A real server and a real browser: start both, wait for a finished run, watch what leaves the machine."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[2]
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip
SETTLED = """
(quiet) => {
  const app = document.querySelector('[data-testid="stApp"]');
  const unfinished = document.querySelector('[data-stale="true"], [data-testid="stSkeleton"]');
  const undrawn = [...document.querySelectorAll('[data-testid=stBidiComponentRegular]')]
    .some(place => place.offsetParent && !place.querySelector('.main-svg, .depthscope-tower .at'));
  const busy = !app || app.dataset.testScriptState !== 'notRunning' || unfinished || undrawn;
  if (busy || !window.quietSince) window.quietSince = performance.now();
  return !busy && performance.now() - window.quietSince >= quiet;
}
"""
# What fades or slides has not its final colour or place yet; what turns for ever is no such thing.
STILL = """
() => document.getAnimations()
  .every(one => one.playState !== 'running' || one.effect.getComputedTiming().endTime === Infinity)
"""
# What stands wider than the screen, without what scrolls inside a box of its own.
OVERFLOW = """
[...document.querySelectorAll('[data-testid=stMain] *')].filter(e => {
  const r = e.getBoundingClientRect();
  const inner = e.closest('[data-testid=stDataFrame], .katex, [role=tablist], pre');
  return !inner && r.width > 0 && r.right > innerWidth + 1 && getComputedStyle(e).position !== 'absolute';
}).map(e => e.tagName + '.' + String(e.className).slice(0, 60) + ' ' + e.textContent.slice(0, 40)).slice(0, 5)
"""
# Words in figures that lie on one another or on the ticks of the horizontal axis, and legends cut off below.
OVERPRINTED = """
[...document.querySelectorAll('.depthscope-figure')].flatMap(plot => {
  const seen = selector => [...plot.querySelectorAll(selector)].filter(e => e.getBoundingClientRect().width > 0);
  const words = seen('.gtitle, .xtitle, .ytitle, .legend, .colorbar text');
  const cut = seen('.legend').filter(e => e.getBoundingClientRect().bottom > plot.getBoundingClientRect().bottom);
  const printed = words.flatMap(one => [...words, ...seen('.xtick text')].filter(other => {
    const [a, b] = [one.getBoundingClientRect(), other.getBoundingClientRect()];
    const apart = a.right <= b.left + 1 || b.right <= a.left + 1 || a.bottom <= b.top + 1 || b.bottom <= a.top + 1;
    return one !== other && !apart;
  }).map(other => `${one.textContent.slice(0, 40)} on ${other.textContent.slice(0, 40)}`));
  return [...printed, ...cut.map(e => `${e.textContent.slice(0, 40)} is cut`)];
})
"""
BACKGROUNDS = {"light": "rgb(255, 255, 255)", "dark": "rgb(14, 17, 23)"}
# Patience, not a measure: a machine that does other work answers late.
START_SECONDS = 180
WAIT = 180_000


def chromium_path() -> str | None:
    """The browser's executable: the variable CHROMIUM, else what the path has."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def running_server(app: Path = ROOT / "app.py", *, log: Path | None = None) -> Iterator[str]:
    """A fresh Streamlit server on a free port, stopped at the end; its address without a slash at the end."""
    with server_process(app, log=log) as (address, _):
        yield address


@contextmanager
def server_process(app: Path = ROOT / "app.py", *, log: Path | None = None) -> Iterator[tuple[str, int]]:
    """`running_server` with the number of its process beside the address, for whoever watches its memory.

    Its store of finished cells is a new one, so that it neither reads nor fills the user's own.
    """
    address = f"http://127.0.0.1:{free_port()}"
    command = [
        sys.executable, "-m", "streamlit", "run", str(app), "--server.headless=true", "--server.fileWatcherType=none",
        "--server.address=127.0.0.1", f"--server.port={urlsplit(address).port}",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="depthscope-server-") as place:
        environment = {**os.environ, "DEPTHSCOPE_STORE": os.path.join(place, "cells.sqlite")}
        with open(log or os.devnull, "wb") as sink:
            process = subprocess.Popen(command, cwd=ROOT, stdout=sink, stderr=subprocess.STDOUT, env=environment)
        try:
            _await_health(address, process)
            yield address, process.pid
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(timeout=10)


def resident_bytes(pid: int, entry: str = "VmRSS") -> int:
    """Resident memory of a process now, or with `VmHWM` its highest so far."""
    with open(f"/proc/{pid}/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{entry}:"))


def _await_health(address: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, "the server ended before it answered"
        try:
            with urllib.request.urlopen(f"{address}/_stcore/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    raise AssertionError(f"the server did not answer within {START_SECONDS} s")


def server_processor_seconds(address: str) -> float:
    """User and system time so far of the process that serves an address; other work on the machine hardly moves it."""
    wanted = f"server.port={urlsplit(address).port}"
    found = subprocess.run(["pgrep", "-f", wanted], capture_output=True, check=True)
    with open(f"/proc/{int(found.stdout.split()[0])}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Visitor:
    """One browser tab on the app. `outside` collects every request that would leave the server."""

    def __init__(self, page: Any, address: str) -> None:
        self.page, self.address = page, address
        self.outside: list[str] = []
        self.console: list[str] = []
        page.set_default_timeout(WAIT)
        page.on("request", self._watch)
        page.on("console", lambda message: self.console.append(f"{message.type}: {message.text}"))

    def _watch(self, request: Any) -> None:
        parts = urlsplit(request.url)
        home = urlsplit(self.address)
        if parts.scheme not in ("data", "blob", "about") and parts.netloc != home.netloc:
            self.outside.append(request.url)

    def open(self, path: str = "/", heading: str | None = None) -> Visitor:
        """Go to a path of the app and wait until its run has ended (and, where given, its heading stands)."""
        self.page.goto(self.address + path)
        if heading is not None:
            self.page.get_by_role("heading", level=1, name=heading, exact=True).wait_for()
        self.settle()
        return self

    def settle(self, quiet: int = 300) -> None:
        """Wait until the script has been at its end, each figure drawn and nothing stale, for `quiet` milliseconds."""
        self.page.evaluate("window.quietSince = 0")
        self.page.wait_for_function(SETTLED, arg=quiet)

    def slide(self, key: str, steps: int) -> None:
        """Move a slider by keyboard, as a person without a mouse does."""
        handle = self.page.locator(f".st-key-{key}").get_by_role("slider")
        handle.focus()
        for _ in range(abs(steps)):
            self.page.keyboard.press("ArrowRight" if steps > 0 else "ArrowLeft")
        self.settle()

    def until(self, holds: Callable[[], bool]) -> bool:
        """Whether something comes to hold: a run that is about to begin looks like one that has ended."""
        end = time.monotonic() + WAIT / 1000
        while not (found := holds()) and time.monotonic() < end:
            self.settle()
        return found

    def chart_title(self, name: str) -> str:
        """The text of a figure's title."""
        text = self.page.locator(f".st-key-figure-{name} .gtitle").text_content()
        return str(text)

    def violations(self) -> list[str]:
        """axe-core's serious and critical violations, each with its first place."""
        from axe_playwright_python.sync_playwright import Axe

        self.page.wait_for_function(STILL)
        found = Axe().run(self.page).response["violations"]
        return [
            f"{one['id']}: {one['nodes'][0]['html'][:160]}" for one in found if one["impact"] in ("serious", "critical")
        ]

    def overflowing(self) -> list[str]:
        """The first few elements that reach beyond the right edge of the screen."""
        self.page.wait_for_function(STILL)
        return list(self.page.evaluate(OVERFLOW))

    def overprinted(self) -> list[str]:
        """The words in figures that lie on other words or are cut off below."""
        return list(self.page.evaluate(OVERPRINTED))

    def background(self) -> str:
        """The colour behind the app."""
        return str(
            self.page.evaluate("getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor")
        )

    def change(self, way: str) -> None:
        """Open the dialog of the model bar at a way in."""
        self.page.locator(".st-key-change-model button").click()
        self.page.get_by_role("dialog").get_by_role("radio", name=way, exact=True).click()

    def restore(self, manifest: bytes) -> None:
        """Upload a manifest in the sidebar."""
        self.page.get_by_text("Files", exact=True).first.click()
        self.page.locator(".st-key-manifest_file input[type=file]").set_input_files(
            {"name": "manifest.json", "mimeType": "application/json", "buffer": manifest}
        )

    def download(self, button_key: str) -> Path:
        """Click a download button once the page is at rest, in its menu or fold if need be; the file's path."""
        self.settle()
        button = self.page.locator(f".st-key-{button_key} button")
        if not button.is_visible():
            self.page.locator(self._cover(button_key)).click()
            self.page.wait_for_function(STILL)  # a button that still slides away is not clicked
        with self.page.expect_download() as found:
            button.click()
        self.page.keyboard.press("Escape")
        return Path(found.value.path())

    def _cover(self, button_key: str) -> str:
        """What opens the menu or fold that a download button stands in."""
        name = button_key.removeprefix("download-")
        if image := re.fullmatch(r"(.+)-(figure-json|png|svg|pdf)", name):
            return f".st-key-export-{image[1]} button"
        fold = f".st-key-numbers-{re.sub(r'-(csv|json)$', '', name)} summary"
        return fold if self.page.locator(fold).count() else ".st-key-export-page button"


@contextmanager
def browser() -> Iterator[Any]:
    """Headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=chromium_path(), args=list(FLAGS))
        try:
            yield opened
        finally:
            opened.close()


@contextmanager
def visit(opened: Any, address: str, **context: Any) -> Iterator[Visitor]:
    """A new visitor with cookies and storage of their own; `context` is Playwright's (viewport, color_scheme)."""
    room = opened.new_context(accept_downloads=True, **context)
    try:
        yield Visitor(room.new_page(), address)
    finally:
        room.close()


class Rooms:
    """Browser contexts lent to one visitor at a time.

    A room that was given back remembers nothing of its visitor; only the app's scripts stay in its cache, which a new
    context would fetch and compile again.
    """

    def __init__(self, opened: Any) -> None:
        self._opened = opened
        self._free: list[Any] = []

    @contextmanager
    def visit(self, address: str, *, viewport: dict[str, int], color_scheme: str = "light") -> Iterator[Visitor]:
        """A visitor alone in a room, with a screen and a theme."""
        room = self._free.pop() if self._free else self._opened.new_context(accept_downloads=True)
        page = room.new_page()
        page.set_viewport_size(viewport)
        page.emulate_media(color_scheme=color_scheme)
        try:
            yield Visitor(page, address)
        finally:
            everything = {"origin": address, "storageTypes": "all"}
            room.new_cdp_session(page).send("Storage.clearDataForOrigin", everything)
            room.clear_cookies()
            page.close()
            self._free.append(room)
