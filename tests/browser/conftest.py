"""One server and one browser for all browser tests; each visitor is alone in a context that remembers nobody."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.browser.harness import Rooms, Visitor, browser, chromium_path, running_server

Visit = Callable[..., Visitor]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Headless Chromium; without it the test is skipped, or fails where REQUIRE_BROWSER=1 says it must run."""
    if chromium_path() is None:
        reason = "Chromium is not installed: set CHROMIUM to its executable, or install the package chromium."
        if os.environ.get("REQUIRE_BROWSER") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    with browser() as opened:
        yield opened


@pytest.fixture(scope="session")
def server(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A fresh server of the app, shared by all tests; its log must hold no traceback at the end."""
    log = tmp_path_factory.mktemp("server") / "log.txt"
    with running_server(log=log) as address:
        yield address
    assert_clean_log(log)


@pytest.fixture(scope="session")
def rooms(chromium: Any) -> Rooms:
    """The contexts that visitors of the shared server take turns in."""
    return Rooms(chromium)


@pytest.fixture
def visitor(rooms: Rooms, server: str) -> Iterator[Visit]:
    """`visitor(viewport=..., color_scheme=...)`: a new tab; afterwards, no request may have left the server."""
    with ExitStack() as stay:
        opened: list[Visitor] = []

        def enter(**context: Any) -> Visitor:
            context.setdefault("viewport", {"width": 1400, "height": 1000})
            opened.append(stay.enter_context(rooms.visit(server, **context)))
            return opened[-1]

        yield enter
        for one in opened:
            assert one.outside == [], "a request left the machine"


def assert_clean_log(log: Path) -> None:
    """No traceback and no refused setting in a server's log."""
    text = log.read_text(errors="replace")
    assert "Traceback" not in text, text[-4000:]
    assert "is not a valid config option" not in text
